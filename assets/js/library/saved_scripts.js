/**
 * Stored scripts in the list of the Library.
 *
 * An entry shows the voices, the number of lines and the duration of a script. A button shows the takes of the script
 * below its entry. `SavedScripts` emits the event 'change' after a change of the list.
 */

import { clock, SAMPLE_RATE } from '../common/audio.js';
import { timeOfDay } from '../common/dates.js';
import { getElements, createElement, getElement } from '../common/elements.js';
import { nameOfScript } from '../script/line_text.js';
import { TakeRow } from './take_row.js';

const MAX_MARKS = 3;

/**
 * @typedef {Object} ScriptSummary  entry of the response of GET studio/scripts
 * @property {string} id
 * @property {string} name
 * @property {string} [begins]   text of the first line that has text
 * @property {number} lines
 * @property {number} updated_at
 * @property {number} [seconds]  duration, or undefined until the script was opened
 * @property {{mode: string, voice?: string, name?: string}[]} [voices]
 */

/** Stored scripts in the list of the Library, with the takes of each script. */
export class SavedScripts extends EventTarget {
  /** @type {ScriptSummary[]} */
  scripts = [];
  wanted = { search: '', room: '', favourite: '' };
  /** Ids of the scripts whose takes are expanded. @type {Set<string>} */
  open = new Set();
  /** Rows of the expanded takes by script id. @type {Map<string, TakeRow[]>} */
  rows = new Map();
  /** Entries of the list with their times. @type {{at: number, element: HTMLElement}[]} */
  entries = [];

  /**
   * Create an empty list.
   *
   * `onChange` is called after a change of the list.
   *
   * @param {import('../app/studio.js').Studio} studio @param {() => void} onChange called when the list or its takes have
   * changed
   */
  constructor(studio, onChange) {
    super();
    this.studio = studio;
    this.onChange = onChange;
  }

  /** @returns {import('../script/room.js').ScriptRoom} */
  get room() {
    return /** @type {import('../script/room.js').ScriptRoom} */ (this.studio.room('script'));
  }

  /**
   * Load the stored scripts that match the search.
   *
   * @param {{search: string, room: string, favourite: string}} [wanted]
   */
  async refresh(wanted = this.wanted) {
    this.wanted = wanted;
    await this.room.scriptList.flush();
    const query = new URLSearchParams(wanted.search ? { search: wanted.search } : {});
    const { scripts } = await this.studio.api.get(`studio/scripts?${query}`);
    if (wanted !== this.wanted) return; // Ignore the response, because a newer request was sent.
    this.scripts = scripts;
    this.paint();
  }

  /** Render the entries of the list again. */
  paint() {
    const { room, favourite } = this.wanted;
    const scripts = favourite || (room && room !== this.room.id) ? [] : this.scripts;
    this.entries = scripts.map((script) => ({ at: script.updated_at, element: this.entry(script) }));
    this.dispatchEvent(new Event('change'));
  }

  /** Return the list item of a script, with its buttons. @param {ScriptSummary} script */
  entry(script) {
    const { studio } = this;
    const { t } = studio;
    const { id, lines, seconds, updated_at: at } = script;
    const name = this.nameOf(script);
    const entry = studio.words.copyOf(getElement(studio.page, '#vw-saved-script', HTMLTemplateElement));
    entry.dataset.script = id;
    const find = (/** @type {string} */ selector) => getElement(entry, selector);
    find('.vw-script-entry-marks').append(...this.voiceMarks(script));
    getElement(entry, 'a', HTMLAnchorElement).href = `#/script/${id}`;
    find('.vw-take-text').textContent = name;
    const length = seconds && t('shell.about_length', { time: clock(seconds * SAMPLE_RATE).replace(/\.\d$/, '') });
    find('small').textContent = [t('library.script', { n: lines }), length, timeOfDay(at * 1000, studio.words.language)].filter(Boolean).join(' · ');
    const [takes, remove] = getElements(entry, '[data-do]');
    takes.ariaLabel = takes.title = t('library.takes_of', { name });
    takes.onclick = () => this.guard(this.unfold(entry, script, !this.open.has(id)));
    remove.ariaLabel = t('library.delete_script', { name });
    remove.onclick = () => this.guard(this.remove(script));
    if (this.open.has(id)) this.guard(this.unfold(entry, script, true));
    return entry;
  }

  /** Return an icon for each of the script's first voices. @param {ScriptSummary} script */
  voiceMarks({ voices = [] }) {
    return voices.slice(0, MAX_MARKS).map((spoken) => this.studio.catalogue.mark({ ...spoken, called: spoken.name }));
  }

  /**
   * Show or hide the takes of a script below its list item.
   *
   * @param {HTMLElement} entry @param {ScriptSummary} script @param {boolean} isOpen
   */
  async unfold(entry, { id }, isOpen) {
    const list = getElement(entry, 'ul');
    getElement(entry, '[data-do=takes]').setAttribute('aria-expanded', String(isOpen));
    list.hidden = !isOpen;
    if (!isOpen) {
      this.rows.delete(id);
      return void this.open.delete(id);
    }
    this.open.add(id);
    // The rows of the previous rendering stay until the new ones have arrived.
    list.append(...(this.rows.get(id) ?? []).map(({ element }) => element));
    const { takes } = await this.studio.api.get(`studio/takes?script=${id}&limit=100`);
    const unfolded = takes.map((/** @type {import('../player/take.js').TakeRecord} */ record) => new TakeRow(record, this.studio));
    this.rows.set(id, unfolded);
    const rows = unfolded.map((/** @type {TakeRow} */ { element }) => element);
    const none = createElement('li', { className: 'vw-hint', textContent: this.studio.t('library.no_takes') });
    list.replaceChildren(...(rows.length ? rows : [none]));
  }

  /** Delete a script, and offer undo. @param {ScriptSummary} script */
  async remove(script) {
    const { studio, room } = this;
    const undo = await room.discard(script.id);
    this.scripts = this.scripts.filter(({ id }) => id !== script.id);
    this.paint();
    this.onChange();
    const back = async () => {
      await undo();
      this.onChange();
    };
    const name = this.nameOf(script);
    studio.toasts.show(studio.t('script.deleted', { name }), { action: studio.t('shell.undo'), onAction: () => this.guard(back()) });
  }

  /** Restore a deleted script. @param {ScriptSummary} script */
  async restore({ id }) {
    await this.room.scriptList.restore(id);
    this.onChange();
  }

  /** Return the name of a script, or "Untitled" in the page's language. @param {ScriptSummary} script */
  nameOf(script) {
    return nameOfScript(script) || this.studio.t('script.untitled');
  }

  /** Update the play buttons of the rows after a change of the player's state. */
  follow() {
    for (const row of [...this.rows.values()].flat()) row.follow();
  }

  /** Show the error of a request as a toast if the request fails. @param {Promise<void>} asked */
  guard(asked) {
    this.studio.toasts.guard(() => asked);
  }
}
