/** Stored scripts: their URLs, automatic saving, and the list on the page. */

import { pushEntry } from '../app/navigation.js';
import { errorOf } from '../common/api.js';
import { createElement, getElement } from '../common/elements.js';
import { Script } from './document.js';
import { nameOfScript } from './line_text.js';

// --- Address of a script, `#/script/<id>`, for bookmarks, the Library, the Back button and reloads.

/** Return the id of the script in the page's URL, or null if there is none. @returns {string|null} */
export function addressedScript() {
  const [, id] = /^#\/script\/([\w-]{1,64})$/.exec(location.hash) ?? [];
  return id ?? null;
}

/**
 * Put the id of the open script into the page's URL, if the Script room is shown.
 *
 * @param {string} id @param {boolean} isNext  true if the Back button should return to the previous script
 */
export function nameScript(id, isNext) {
  const before = addressedScript();
  if (id === before || !/^#\/script(\/|$)/.test(location.hash)) return;
  const there = new URL(location.href);
  there.hash = `/script/${id}`;
  if (isNext && before) pushEntry(there);
  else history.replaceState(history.state, '', there);
}

// --- List of stored scripts, the open script, and automatic saving. Events: 'open' after another script was opened,
// 'adopted' after takes of another tab were adopted, 'list' after a change of the list, 'state' after a change of `state`.

const SAVE_DELAY_MS = 700; // Delay between the last edit and saving.
const SAVE_TIME_RATIO = 5; // Minimum ratio of the delay to the duration of the last save, for long scripts.
const MAX_UNSAVED_MS = 20_000; // Maximum time between saves, because an export changes the script continuously.

/** Stored scripts of the visitor, with automatic saving of the open script. */
export class ScriptList extends EventTarget {
  /** Create an empty list of scripts. @param {typeof import('../common/api.js').api} api */
  constructor(api) {
    super();
    this.api = api;
    /** Stored scripts, newest first. @type {{id: string, name: string, begins?: string, updated_at?: number}[]} */
    this.list = [];
    /** @type {Script|null} */
    this.script = null;
    this.differences = 0; // Number of lines that differ from the version of another tab, or 0 if it is unknown.
    /** @type {'new'|'unsaved'|'saving'|'saved'|'conflict'|'unkept'} */
    this.state = 'new';
    /** Promise that resolves when all saves have finished. */
    this.saving = Promise.resolve();
    this.runningPuts = 0;
    /** Duration of the last save in milliseconds. */
    this.tookMs = 0;
    /** Time of the first change after the last save, or 0 if all changes are saved. */
    this.unsavedAt = 0;
    /** Error of the last save, or null. @type {import('../common/api.js').AppError|null} */
    this.error = null;
    /** Version of the script that this tab and the studio had in common, as JSON. */
    this.base = '';
    this.onChange = () => this.touch();
    addEventListener('pagehide', () => this.leave());
  }

  /**
   * Load the list of scripts, and open one of them.
   *
   * By default, this is the last edited script.
   *
   * @param {() => Script} first creates a script if there is none
   * @param {(list: ScriptList['list']) => {id: string}|null|undefined} [choose] selects a script
   */
  async begin(first, choose = ([newest]) => newest) {
    await this.refresh();
    const chosen = choose(this.list);
    if (chosen) await this.load(chosen.id);
    else this.open(first());
  }

  async refresh() {
    const { scripts } = await this.api.get('studio/scripts');
    this.list = scripts;
    this.dispatchEvent(new Event('list'));
  }

  /** Save pending changes, and open another stored script. @param {string} id */
  async load(id) {
    await this.flush();
    this.open(await this.stored(id), 'saved');
  }

  /**
   * Make a script the open script, whose changes are saved automatically.
   *
   * @param {Script} script @param {ScriptList['state']} [state]
   */
  open(script, state = 'new') {
    clearTimeout(this.timer);
    this.script?.removeEventListener('change', this.onChange);
    script.addEventListener('change', this.onChange);
    this.script = script;
    this.base = JSON.stringify(script);
    this.dispatchEvent(new Event('open'));
    this.enter(state);
  }

  /** Save the open script after a pause in editing. */
  touch() {
    if (this.state === 'conflict') return;
    this.enter('unsaved');
    clearTimeout(this.timer);
    this.unsavedAt ||= performance.now();
    const restMs = Math.max(SAVE_DELAY_MS, SAVE_TIME_RATIO * this.tookMs);
    this.timer = setTimeout(() => this.save(), Math.max(0, Math.min(restMs, this.unsavedAt + MAX_UNSAVED_MS - performance.now())));
  }

  /** Save pending changes now, and wait for the result. */
  async flush() {
    clearTimeout(this.timer);
    if (this.state === 'unsaved') this.save();
    await this.saving;
  }

  /**
   * Save the open script after the previous save has ended.
   *
   * The order matters, because each save contains the version of the previous save.
   */
  save() {
    const { script } = this;
    this.unsavedAt = 0;
    if (script) this.saving = this.saving.then(() => this.put(script));
    return this.saving;
  }

  /** Store a script in the studio, and handle a conflict with another tab. @param {Script} script */
  async put(script) {
    if (script === this.script) this.enter('saving');
    this.runningPuts += 1;
    const begun = performance.now();
    try {
      // The server may have changed texts, for example removed a space at the end of the name.
      const stored = await this.api.put(`studio/scripts/${script.id}`, script);
      script.updatedAt = stored.updated_at;
      if (script !== this.script) return;
      this.base = JSON.stringify(stored);
      if (this.state === 'saving') this.enter('saved');
      this.remember(script);
    } catch (thrown) {
      const error = errorOf(thrown);
      if (script !== this.script) return;
      this.error = error;
      // Wait for the stored version, because `flush` must not end before the script is stored.
      const other = error.status === 409 && (await this.stored(script.id).catch(() => null));
      if (other && this.followSpeech(other)) await this.put(script);
      else if (error.status === 409) this.enterConflict(other || null);
      else this.enter('unkept');
    } finally {
      this.runningPuts -= 1;
      this.tookMs = performance.now() - begun;
    }
  }

  /** Move a script to the top of the list, or add it there. @param {Script} script */
  remember({ id, name, begins }) {
    this.list = [{ id, name, begins }, ...this.list.filter((one) => one.id !== id)];
    this.dispatchEvent(new Event('list'));
  }

  /** Resolve a conflict between two tabs: use the version of the other tab. */
  async loadOther() {
    const { script } = this;
    if (!script) return;
    const other = await this.stored(script.id);
    const isChanged = other.adoptTakes(script);
    this.open(other, 'saved');
    if (isChanged) this.touch();
  }

  /** Load a stored script from the studio. @param {string} id */
  async stored(id) {
    return new Script(await this.api.get(`studio/scripts/${id}`));
  }

  /**
   * Use the takes of another tab, if that tab has only generated audio.
   *
   * The result is false if the other tab has also changed the text.
   *
   * @param {Script} other version of the other tab
   * @returns {boolean} false if there is a real conflict
   */
  followSpeech(other) {
    const isSpeech = other.isWrittenAs(new Script(JSON.parse(this.base)));
    if (isSpeech) this.adopt(other);
    return isSpeech;
  }

  /** Load the list again, and report changes of another tab or device. */
  async checkOther() {
    const { script } = this;
    if (!script || this.state !== 'saved') return;
    await this.refresh().catch(() => {});
    const listed = this.list.find(({ id }) => id === script.id);
    if ((listed?.updated_at ?? 0) <= script.updatedAt) return; // A script is loaded only if its version is newer.
    const other = await this.stored(script.id).catch(() => null);
    // While the version was loaded, this tab may have saved a later one.
    if (!other || other.updatedAt <= script.updatedAt || script !== this.script || this.state !== 'saved') return;
    if (!this.followSpeech(other)) this.enterConflict(other);
  }

  /** Report a conflict with another tab. @param {Script|null} other version of the other tab, or null if it is unknown */
  enterConflict(other) {
    this.differences = (other && this.script?.countDifferences(other)) ?? 0;
    this.enter('conflict');
  }

  /** Use the takes and the version number of another tab, but keep this tab's text. @param {Script} other */
  adopt(other) {
    const { script } = this;
    if (!script) return;
    script.adoptTakes(other, new Script(JSON.parse(this.base)));
    script.updatedAt = other.updatedAt;
    this.dispatchEvent(new Event('adopted'));
  }

  /** Resolve a conflict between two tabs: save the version of this tab. */
  async saveOwn() {
    const { script } = this;
    if (!script) return;
    this.adopt(await this.stored(script.id));
    await this.save();
  }

  /**
   * Delete the open script, and open another one.
   *
   * @param {() => Script} first creates a script if no other script exists
   * @returns {Promise<() => Promise<void>>} function that undoes the deletion
   */
  async remove(first) {
    await this.flush();
    const { script } = this;
    if (!script) return async () => {};
    const path = `studio/scripts/${script.id}`;
    const isKept = this.list.some(({ id }) => id === script.id);
    if (isKept) await this.api.delete(path);
    await this.begin(first);
    return async () => {
      await this.flush();
      if (isKept) script.updatedAt = (await this.api.post(`${path}/restore`)).updated_at;
      this.open(script, isKept ? 'saved' : 'new');
      if (isKept) this.remember(script);
    };
  }

  /**
   * Delete a script that is not open.
   *
   * @param {string} id
   * @returns {Promise<() => Promise<void>>} function that undoes the deletion
   */
  async discard(id) {
    await this.api.delete(`studio/scripts/${id}`);
    await this.refresh();
    return () => this.restore(id);
  }

  /** Restore a deleted script. @param {string} id */
  async restore(id) {
    await this.api.post(`studio/scripts/${id}/restore`);
    await this.refresh();
  }

  /** Send pending changes to the studio when the page is closed. */
  leave() {
    const { script } = this;
    if (this.state !== 'unsaved' || !script) return;
    const headers = { 'content-type': 'application/json' };
    // While another save runs, the stored version is unknown, so null replaces any version.
    const body = JSON.stringify({ ...script.toJSON(), ...(this.runningPuts && { updated_at: null }) });
    fetch(this.api.address(`studio/scripts/${script.id}`), { method: 'PUT', headers, body, keepalive: true }).catch(() => {});
  }

  /** Change the saving state, and emit the event 'state'. @param {ScriptList['state']} state */
  enter(state) {
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}

// --- Name of the script, list of scripts, and state of saving.

/** Message keys of the states. @type {Record<ScriptList['state'], string>} */
const STATE_KEYS = { new: '', unsaved: '', saving: 'script.saving', saved: 'script.saved', conflict: '', unkept: '' };

/** List of the stored scripts and the saving state of the open script, on the page. */
export class ScriptListView {
  /**
   * Create the view from the elements of the Script room.
   *
   * @param {HTMLElement} root panel of the room @param {import('./room.js').ScriptRoom} room
   */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.scriptList = room.scriptList;
    this.parts = {
      name: getElement(root, '#vw-script-name', HTMLInputElement),
      saved: getElement(root, '#vw-script-saved'),
      menu: getElement(root, '#vw-script-shelf', HTMLDetailsElement),
      summary: getElement(root, '#vw-script-shelf > summary'),
      list: getElement(root, '#vw-script-list'),
      new: getElement(root, '#vw-script-new'),
      delete: getElement(root, '#vw-script-delete'),
      samples: getElement(root, '#vw-script-samples'),
      conflict: getElement(root, '#vw-script-conflict'),
    };
    this.listen();
  }

  listen() {
    const { parts, scriptList, room } = this;
    for (const event of ['open', 'list']) scriptList.addEventListener(event, () => this.show());
    scriptList.addEventListener('state', () => this.showState());
    parts.name.oninput = () => scriptList.script?.set({ name: parts.name.value });
    parts.new.onclick = () => this.choose(() => scriptList.open(room.empty()));
    parts.delete.onclick = () => this.choose(() => this.remove());
    const { menu, summary } = parts;
    const close = () => (menu.open = false);
    const holds = (/** @type {EventTarget|null} */ target) => target instanceof Node && menu.contains(target);
    menu.addEventListener('focusout', ({ relatedTarget }) => relatedTarget && !holds(relatedTarget) && close());
    document.addEventListener('pointerdown', ({ target }) => holds(target) || close());
    menu.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !menu.open) return;
      event.stopPropagation();
      close();
      summary.focus();
    });
    this.offerSamples();
  }

  /** Fill the menu with the sample scripts, in the page's language. */
  offerSamples() {
    const { studio, scriptList, room, parts } = this;
    const samples = studio.presets.scripts.map((preset) => entry(preset.name, () => this.choose(() => scriptList.open(room.sample(preset), 'new'))));
    parts.samples.replaceChildren(...samples);
  }

  /** Close the menu, save pending changes, and run an action. @param {() => void|Promise<void>} action */
  async choose(action) {
    this.parts.menu.open = false;
    this.parts.summary.focus();
    await this.studio.toasts.guard(async () => {
      await this.scriptList.flush();
      await action();
    });
  }

  async remove() {
    const { t, toasts } = this.studio;
    const { script } = this.scriptList;
    if (!script) return;
    const name = this.nameOf(script);
    const undo = await this.scriptList.remove(() => this.room.empty());
    const onAction = () => toasts.guard(undo);
    toasts.show(t('script.deleted', { name }), { action: t('shell.undo'), onAction });
  }

  /** Return the name of a script as the page shows it. @param {{name: string, begins?: string}} script */
  nameOf(script) {
    return nameOfScript(script) || this.studio.t('script.untitled');
  }

  show() {
    const { parts, scriptList } = this;
    const { script, list } = scriptList;
    if (!script) return;
    parts.list.replaceChildren(...list.map((one) => this.entry(one, one.id === script.id)));
    parts.list.hidden = list.length === 0;
    this.showState();
  }

  /** Show the name of the open script, and if it is saved. */
  showState() {
    const { parts, scriptList, studio } = this;
    const { script, state } = scriptList;
    if (!script) return;
    if (parts.name.value !== script.name) parts.name.value = script.name;
    const key = STATE_KEYS[state];
    parts.saved.textContent = key && studio.t(key);
    this.showProblem(state);
  }

  /**
   * Return the list element for a script, with a button that opens the script.
   *
   * @param {{id: string, name: string, begins?: string}} script
   * @param {boolean} isOpen
   */
  entry(script, isOpen) {
    return entry(this.nameOf(script), () => this.choose(() => this.scriptList.load(script.id)), isOpen);
  }

  /**
   * Show the reason why the script cannot be saved, with buttons for possible actions.
   *
   * @param {ScriptList['state']} state
   */
  showProblem(state) {
    const { parts, scriptList, studio } = this;
    const { t } = studio;
    if (state === 'conflict') {
      const theirs = button(t('script.take_theirs'), () => this.choose(() => scriptList.loadOther()));
      const mine = button(t('script.keep_mine'), () => this.choose(() => scriptList.saveOwn()));
      const count = scriptList.differences ? t('script.conflict_lines', { n: scriptList.differences }) : '';
      parts.conflict.replaceChildren(t('script.conflict'), ' ', count, ' ', theirs, ' ', mine);
    } else if (state === 'unkept' && scriptList.error && !scriptList.error.missing) {
      const again = button(t('script.save_again'), () => this.choose(() => scriptList.save()));
      parts.conflict.replaceChildren(scriptList.error.message, ' ', again);
    } else {
      parts.conflict.replaceChildren();
    }
  }
}

/** Return a button with a label. @param {string} label @param {() => void} action */
function button(label, action) {
  return createElement('button', { type: 'button', textContent: label, onclick: action });
}

/**
 * Return a list item with a button, which is marked if its script is open.
 *
 * @param {string} label @param {() => void} action @param {boolean} [isOpen]
 */
function entry(label, action, isOpen = false) {
  const open = button(label, action);
  if (isOpen) open.ariaCurrent = 'true';
  return createElement('li', {}, [open]);
}
