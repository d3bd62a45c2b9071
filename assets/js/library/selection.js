/** Selection of several stored takes (generated audio) in the Library, with actions. */

import { getElements, getElement, writeText } from '../common/elements.js';
import { saveFile } from '../common/files.js';

/** @typedef {import('./take_row.js').TakeRow} TakeRow */

/** Selection of several takes in the Library room, and the actions on them. */
export class TakeSelection {
  /** Ids of the selected takes. @type {Set<string>} */
  ids = new Set();
  /** Listed rows, in order. @type {TakeRow[]} */
  rows = [];
  isOn = false;

  /**
   * Create the selection from the elements of the Library room.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.studio = studio;
    this.list = getElement(root, '#vw-takes-list');
    this.toggle = getElement(root, '#vw-takes-select');
    this.bar = getElement(root, '#vw-takes-bar');
    this.count = getElement(this.bar, 'b');
    this.toggle.onclick = () => this.setActive(!this.isOn);
    /** @type {Object<string, (ids: string[]) => unknown>} */
    const actions = {
      all: () => this.choose(this.rows),
      star: (ids) => this.star(ids),
      zip: (ids) => this.download(ids),
      remove: (ids) => this.remove(ids),
    };
    for (const button of getElements(this.bar, '[data-do]')) button.onclick = () => this.guard(actions[button.dataset.do ?? '']);
    this.list.addEventListener('click', (event) => this.onClick(event), true);
    root.addEventListener('keydown', (event) => this.onKey(event));
  }

  /** Ids of the takes that are selected and shown in the list. */
  get selectedIds() {
    return this.rows.flatMap(({ record }) => (this.ids.has(record.id) ? [record.id] : []));
  }

  /**
   * Start or end the selection.
   *
   * No take is selected afterwards.
   *
   * @param {boolean} isOn
   */
  setActive(isOn) {
    this.isOn = isOn;
    this.ids.clear();
    this.anchor = undefined;
    this.paint();
  }

  /** Use these rows as the list of takes. @param {TakeRow[]} rows */
  show(rows) {
    this.rows = rows;
    this.paint();
  }

  paint() {
    const { isOn, studio } = this;
    const n = this.selectedIds.length;
    this.list.toggleAttribute('data-selecting', isOn);
    this.toggle.ariaPressed = String(isOn);
    this.bar.hidden = !isOn;
    for (const { checkbox, record } of this.rows) checkbox.checked = this.ids.has(record.id);
    writeText(this.count, studio.t('library.selected', { n }));
    for (const button of getElements(this.bar, '[data-do]:not([data-do=all])', HTMLButtonElement)) button.disabled = n === 0;
  }

  /** Add the takes of several rows to the selection. @param {TakeRow[]} rows */
  choose(rows) {
    for (const { record } of rows) this.ids.add(record.id);
    this.paint();
  }

  /** Handle a click on a check box, or a click with Ctrl or Shift on a row. @param {MouseEvent} event */
  onClick(event) {
    const { target, shiftKey } = event;
    const row = target instanceof Element ? this.rows.find(({ element }) => element.contains(target)) : undefined;
    if (!row || !(target instanceof Element)) return;
    const isMarked = shiftKey || event.ctrlKey || event.metaKey;
    if (target !== row.checkbox && !(isMarked && target.closest('.vw-take-open'))) return;
    event.stopPropagation();
    if (target !== row.checkbox) event.preventDefault();
    if (!this.isOn) this.setActive(true);
    const [from, to] = [this.rows.indexOf(this.anchor ?? row), this.rows.indexOf(row)].sort((one, other) => one - other);
    if (shiftKey && from >= 0) this.choose(this.rows.slice(from, to + 1));
    else if (!this.ids.delete(row.record.id)) this.ids.add(row.record.id);
    this.anchor = row;
    this.paint();
  }

  /** Handle a key press while takes can be selected. @param {KeyboardEvent} event */
  onKey(event) {
    const { key, target } = event;
    const isTyping = target instanceof HTMLElement && target.matches('textarea, select, input:not([type=checkbox])');
    if (!this.isOn || isTyping) return;
    if (key === 'Escape') {
      this.setActive(false);
      this.toggle.focus();
    } else if (key === 'Delete') this.guard((ids) => this.remove(ids));
    else if (key === 'a' && (event.ctrlKey || event.metaKey)) this.choose(this.rows);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Run an action on the selected takes, and show its error. @param {(ids: string[]) => unknown} action */
  async guard(action) {
    await this.studio.toasts.guard(() => action(this.selectedIds));
  }

  /** Mark takes as favourites, or remove the mark if all of them are favourites. @param {string[]} ids */
  async star(ids) {
    const { history } = this.studio;
    const areAll = this.rows.every(({ record }) => record.favourite || !ids.includes(record.id));
    for (const id of ids) await history.favourite(id, !areAll);
  }

  /** Download takes as WAV files in one zip archive, oldest first. @param {string[]} ids */
  async download(ids) {
    const clips = ids.reverse().map((take, index) => ({ take, line: index + 1 }));
    const body = JSON.stringify({ clips, shape: 'files', name: 'takes' });
    const file = await this.studio.api.blob('studio/exports', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    saveFile(file, 'takes.zip');
  }

  /** Move takes to the bin, and offer undo. @param {string[]} ids */
  async remove(ids) {
    if (ids.length === 0) return;
    const { studio } = this;
    await studio.history.removeSeveral(ids);
    this.setActive(false);
    this.toggle.focus();
    studio.undo.offer(() => studio.history.restoreSeveral(ids), studio.t('library.freed', { n: ids.length }));
  }
}
