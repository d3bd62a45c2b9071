/** The script's name, the list of scripts, and how far saving is. */

import { need } from '../elements.js';
import { errorOf } from '../errors.js';
import { calledBy } from './title.js';

/** @typedef {import('./shelf.js').Shelf} Shelf */

/** The key of what is said of saving. @type {Record<Shelf['state'], string>} */
const SAID = { new: '', unsaved: '', saving: 'script.saving', saved: 'script.saved', conflict: '', unkept: '' };

export class ShelfView {
  /** @param {HTMLElement} root the room's panel @param {import('../rooms/script.js').ScriptRoom} room */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.shelf = room.shelf;
    this.parts = {
      name: need(root, '#vw-script-name', HTMLInputElement),
      saved: need(root, '#vw-script-saved'),
      menu: need(root, '#vw-script-shelf', HTMLDetailsElement),
      summary: need(root, '#vw-script-shelf > summary'),
      list: need(root, '#vw-script-list'),
      new: need(root, '#vw-script-new'),
      delete: need(root, '#vw-script-delete'),
      samples: need(root, '#vw-script-samples'),
      conflict: need(root, '#vw-script-conflict'),
    };
    this.listen();
  }

  listen() {
    const { parts, shelf, room } = this;
    for (const event of ['open', 'list', 'state']) shelf.addEventListener(event, () => this.show());
    parts.name.oninput = () => shelf.script?.set({ name: parts.name.value });
    parts.new.onclick = () => this.choose(() => shelf.open(room.empty()));
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

  /** The scripts to begin with, by their names in the page's language. */
  offerSamples() {
    const { studio, shelf, room, parts } = this;
    const samples = studio.presets.scripts.map((preset) => entry(preset.name, () => this.choose(() => shelf.open(room.sample(preset), 'new'))));
    parts.samples.replaceChildren(...samples);
  }

  /** Close the menu and do what was chosen in it. @param {() => void|Promise<void>} action */
  async choose(action) {
    this.parts.menu.open = false;
    this.parts.summary.focus();
    try {
      await this.shelf.flush();
      await action();
    } catch (error) {
      this.studio.toast(errorOf(error).message);
    }
  }

  async remove() {
    const { t } = this.studio;
    const { script } = this.shelf;
    if (!script) return;
    const name = this.nameOf(script);
    const undo = await this.shelf.remove(() => this.room.empty());
    const onAction = () => undo().catch((error) => this.studio.toast(error.message));
    this.studio.toast(t('script.deleted', { name }), { action: t('shell.undo'), onAction });
  }

  /** @param {{name: string, begins?: string}} script */
  nameOf(script) {
    return calledBy(script) || this.studio.t('script.untitled');
  }

  show() {
    const { parts, shelf, studio } = this;
    const { script, state, list } = shelf;
    if (!script) return;
    if (parts.name.value !== script.name) parts.name.value = script.name;
    const said = SAID[state];
    parts.saved.textContent = said && studio.t(said);
    parts.list.replaceChildren(...list.map((one) => this.entry(one, one.id === script.id)));
    parts.list.hidden = list.length === 0;
    this.complain(state);
  }

  /** @param {{id: string, name: string, begins?: string}} one @param {boolean} isOpen */
  entry(one, isOpen) {
    return entry(this.nameOf(one), () => this.choose(() => this.shelf.load(one.id)), isOpen);
  }

  /** What stands in the way of saving, and what to do about it. @param {Shelf['state']} state */
  complain(state) {
    const { parts, shelf, studio } = this;
    const { t } = studio;
    if (state === 'conflict') {
      const theirs = button(t('script.take_theirs'), () => this.choose(() => shelf.takeTheirs()));
      const mine = button(t('script.keep_mine'), () => this.choose(() => shelf.keepMine()));
      parts.conflict.replaceChildren(t('script.conflict'), ' ', theirs, ' ', mine);
    } else if (state === 'unkept' && shelf.error && !shelf.error.missing) {
      const again = button(t('script.save_again'), () => this.choose(() => shelf.save()));
      parts.conflict.replaceChildren(shelf.error.message, ' ', again);
    } else {
      parts.conflict.replaceChildren();
    }
  }
}

/** @param {string} label @param {() => void} action */
function button(label, action) {
  const element = Object.assign(document.createElement('button'), { type: 'button', textContent: label });
  element.onclick = action;
  return element;
}

/** @param {string} label @param {() => void} action @param {boolean} [isOpen] */
function entry(label, action, isOpen = false) {
  const item = document.createElement('li');
  const open = button(label, action);
  if (isOpen) open.ariaCurrent = 'true';
  item.append(open);
  return item;
}
