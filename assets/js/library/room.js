/** Library room of the page: stored takes and scripts by day, and stored voices. */

import { errorOf } from '../common/api.js';
import { dayOf, nameOfDay, formatDuration } from '../common/dates.js';
import { getElements, arrangeChildren, createElement, getElement, throttle, writeText } from '../common/elements.js';
import { PAGE } from './history.js';
import { SavedScripts } from './saved_scripts.js';
import { TakeSelection } from './selection.js';
import { headOf, speakerOf, TakeRow } from './take_row.js';
import { confirmDeletion } from './voice_row.js';
import { VoicesPanel } from './voices_panel.js';

// --- List of takes and scripts by day, with search, filters and pages.

const TYPING_MS = 200;

/** Panel of the Library room that lists, filters and selects stored takes. */
export class TakesPanel {
  /**
   * Create the panel from its elements on the page.
   *
   * @param {HTMLElement} root
   * @param {import('../app/studio.js').Studio} studio
   * @param {import('./saved_scripts.js').SavedScripts} scripts
   */
  constructor(root, studio, scripts) {
    this.root = root;
    this.studio = studio;
    this.scripts = scripts;
    this.search = getElement(root, '#vw-takes-search', HTMLInputElement);
    this.room = getElement(root, '#vw-takes-room', HTMLSelectElement);
    this.day = getElement(root, '#vw-takes-day', HTMLInputElement);
    this.starred = getElement(root, '#vw-takes-starred');
    this.list = getElement(root, '#vw-takes-list');
    this.empty = getElement(root, '#vw-takes-empty');
    this.begin = getElement(root, '#vw-takes-begin');
    this.more = getElement(root, '#vw-takes-more');
    /** True after the list was loaded. */
    this.isLoaded = false;
    this.requestNumber = 0; // Number of the last request for the list, to ignore older responses.
    /** Error that prevented loading the takes, or null. @type {import('../common/api.js').AppError|null} */
    this.loadError = null;
    /** @type {Map<string, TakeRow>} rows by the id of the take */
    this.rows = new Map();
    /** Headings by day. @type {Map<number, HTMLElement>} */
    this.headings = new Map();
    this.search.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.refresh(), TYPING_MS);
    };
    this.room.onchange = this.day.onchange = () => this.refresh();
    this.starred.onclick = () => {
      this.starred.setAttribute('aria-pressed', String(this.starred.ariaPressed !== 'true'));
      this.refresh();
    };
    this.selection = new TakeSelection(root, studio);
    this.more.onclick = () => this.guard(studio.history.more());
    for (const source of [studio.history, scripts]) source.addEventListener('change', () => this.paint());
    studio.stage.addEventListener('change', () => this.follow());
    studio.catalogue.addEventListener('change', () => this.rows.forEach((row) => row.paintSpeaker()));
  }

  /** Update the play buttons of all rows after a change of the player's state. */
  follow() {
    if (this.root.closest('[hidden]')) return;
    for (const row of this.rows.values()) row.follow();
    this.scripts.follow();
  }

  /** Render the list again after a change of the page's language. */
  onLanguage() {
    this.rows.clear();
    this.paint();
  }

  get filter() {
    return {
      search: this.search.value.trim(),
      room: this.room.value,
      favourite: this.starred.ariaPressed === 'true' ? '1' : '',
      cursor: this.day.value && `${this.endOfDay}-`,
      loose: '1', // Exclude takes of scripts, which are listed below their script.
    };
  }

  /** End of the day that the user has chosen, in ms since 1970, or Infinity. */
  get endOfDay() {
    return this.day.value ? new Date(`${this.day.value}T00:00`).setHours(24) : Infinity;
  }

  /** True if the user has loaded more than the first page of the list. */
  get isPaged() {
    return this.studio.history.list.length > PAGE;
  }

  refresh() {
    const { filter: wanted } = this;
    this.requestNumber += 1;
    // The list of takes shows the same error, so it is ignored here.
    const scripts = this.scripts.refresh(wanted).catch(() => {});
    const takes = this.studio.history.refresh(wanted);
    // When the room is first opened, wait for both lists, so that the layout does not shift later.
    return this.guard(this.isLoaded ? takes : Promise.all([takes, scripts]));
  }

  /** Await a request for the list, and show its error instead of the list. @param {Promise<unknown>} request */
  async guard(request) {
    const turn = this.requestNumber;
    try {
      await request;
      this.loadError = null;
      if (!this.isLoaded && turn === this.requestNumber) this.showList();
    } catch (thrown) {
      const error = errorOf(thrown);
      if (error.unreachable) return this.studio.status.checkConnection(); // The status line shows that the studio is unreachable.
      this.loadError = error;
      this.showList();
    }
  }

  /** Show the list after it was loaded, or show why it is empty. */
  showList() {
    this.isLoaded = true;
    this.root.removeAttribute('data-awaited');
    this.paint();
  }

  paint() {
    // Until all data is loaded, render only while the room is hidden, so that nothing moves visibly.
    if (!this.isLoaded && !this.root.closest('[hidden]')) return;
    const { list, next } = this.studio.history;
    const twins = Map.groupBy(list, (record) => `${headOf(record)}\n${speakerOf(record, this.studio)}`);
    const twinned = new Set([...twins.values()].filter(({ length }) => length > 1).flat());
    const rows = list.map((record, index) => {
      const row = this.rows.get(record.id) ?? new TakeRow(record, this.studio, { isUnderDay: true });
      row.update(record, { hasTwin: twinned.has(record), repeats: index > 0 && headOf(list[index - 1]) === headOf(record) });
      return row;
    });
    this.rows = new Map(rows.map((row) => [row.record.id, row]));
    this.selection.show(rows);
    const entries = [...rows.map(({ record, element }) => ({ at: record.created_at, element })), ...this.scriptsSince(next ? list.at(-1) : null)];
    entries.sort((one, other) => other.at - one.at);
    const elements = this.withHeadings(entries);
    arrangeChildren(this.list, elements);
    const { search, room, favourite, cursor } = this.filter;
    const { loadError } = this;
    this.empty.hidden = entries.length > 0 && !loadError;
    this.begin.hidden = entries.length > 0 || Boolean(loadError || search || room || favourite || cursor);
    const why = search ? 'none_found' : room || favourite || cursor ? 'none_of_these' : 'none_yet';
    this.empty.textContent = loadError && !loadError.missing ? loadError.message : this.studio.t(`library.${loadError ? 'no_store' : why}`);
    this.more.hidden = !next;
  }

  /**
   * Return the elements of the list with a heading before each day.
   *
   * @param {{at: number, element: HTMLElement}[]} entries entries, newest first; at: seconds since 1970
   */
  withHeadings(entries) {
    const now = Date.now();
    const days = Map.groupBy(entries, ({ at }) => dayOf(at * 1000));
    this.headings = new Map([...days.keys()].map((day) => [day, this.headings.get(day) ?? headOfDay()]));
    return [...days].flatMap(([day, ofDay]) => {
      const head = /** @type {HTMLElement} */ (this.headings.get(day));
      writeText(getElement(head, 'h3'), nameOfDay(day, now, this.studio.words.language));
      return [head, ...ofDay.map(({ element }) => element)];
    });
  }

  /**
   * Return the scripts that were changed after a take was created.
   *
   * The list contains the takes of the loaded pages, and only the scripts of the same period.
   *
   * @param {{created_at: number}|null|undefined} take null to return all scripts
   */
  scriptsSince(take) {
    return this.scripts.entries.filter(({ at }) => at * 1000 < this.endOfDay && (!take || at >= take.created_at));
  }
}

// --- Count and limit of the takes, and the dialog that frees space.

const WARNING_SHARE = 0.9; // Fraction of a limit above which the page shows a warning.
const MEGABYTE = 2 ** 20;
const DELETE_CHOICES = [50, 100, 250, 500]; // Choices for the number of takes to delete.
const MAX_RESTORED_TAKES = 1000; // Maximum number of takes that one request can restore.
const COUNTED_MS = 300;

/** Storage space that the takes use, with a dialog that deletes the oldest takes. */
export class TakeSpace {
  /** Last response of the studio about storage space, or null. @type {import('./history.js').StorageUse|null} */
  space = null;
  /** Scripts in the bin. @type {import('./saved_scripts.js').ScriptSummary[]} */
  deleted = [];

  /**
   * Create the display from the elements of the Library room.
   *
   * @param {HTMLElement} root panel of the room @param {import('../app/studio.js').Studio} studio @param {SavedScripts} scripts
   */
  constructor(root, studio, scripts) {
    this.root = root;
    this.studio = studio;
    this.scripts = scripts;
    this.line = getElement(root, '#vw-takes-space');
    this.limitWarning = getElement(root, '#vw-takes-near');
    this.button = getElement(root, '#vw-takes-free');
    this.dialog = getElement(root, '#vw-takes-freeing', HTMLDialogElement);
    this.choice = getElement(this.dialog, 'select', HTMLSelectElement);
    this.binLine = getElement(root, '#vw-takes-bin');
    this.button.onclick = () => this.openDialog();
    getElement(this.binLine, '[data-do=restore]').onclick = () => studio.toasts.guard(() => studio.history.restoreBin());
    getElement(this.binLine, '[data-do=empty]').onclick = () =>
      confirmDeletion(studio, studio.t('library.empty_ask', { n: this.space?.in_bin }), () => studio.toasts.guard(() => studio.history.emptyBin()));
    this.choice.onchange = () => this.describe();
    this.dialog.onclose = () => this.dialog.returnValue === 'yes' && this.free(Number(this.choice.value));
    studio.history.addEventListener('change', throttle(() => root.hidden || this.refresh(), COUNTED_MS));
  }

  async refresh() {
    try {
      this.space = await this.studio.history.space();
      this.deleted = (await this.studio.api.get('studio/scripts?deleted=1').catch(() => ({ scripts: [] }))).scripts;
    } catch {
      this.space = null; // The list of takes shows the same error, so it is ignored here.
    }
    this.paint();
  }

  paint() {
    const { space, studio } = this;
    const { t } = studio;
    this.button.hidden = true;
    writeText(this.line, '');
    writeText(this.limitWarning, '');
    this.binLine.hidden = !space?.in_bin;
    if (!space) return;
    const time = formatDuration(space.restorable_s, t);
    writeText(getElement(this.binLine, 'span'), t('library.in_bin', { n: space.in_bin, time }));
    getElement(this.root, '#vw-scripts-bin').replaceChildren(...this.deleted.map((script) => {
      const onclick = () => this.scripts.guard(this.scripts.restore(script));
      const restore = createElement('button', { type: 'button', className: 'vw-quiet', textContent: t('library.restore_bin'), onclick });
      return createElement('li', {}, [t('library.script_in_bin', { name: this.scripts.nameOf(script), time }), ' ', restore]);
    }));
    const counted = (/** @type {number} */ count) => count.toLocaleString(studio.words.language);
    const [used, all] = [space.bytes, space.max_bytes].map((bytes) => counted(Math.round(bytes / MEGABYTE)));
    const isNear = space.bytes >= WARNING_SHARE * space.max_bytes;
    writeText(this.line, t(isNear ? 'library.space_bytes' : 'library.space', { takes: counted(space.takes), max: counted(space.max_takes), used, all }));
    if (!isNear && space.takes < WARNING_SHARE * space.max_takes) return;
    this.button.hidden = false;
    writeText(this.limitWarning, t(space.takes >= space.max_takes ? 'library.space_full' : 'library.space_near'));
  }

  /** Open the dialog for freeing space, with the number of takes that can be deleted. */
  async openDialog() {
    await this.refresh();
    if (!this.space) return;
    const { t } = this.studio;
    const removable = Math.min(this.space.removable.takes, MAX_RESTORED_TAKES);
    const counts = [...DELETE_CHOICES.filter((count) => count < removable), ...(removable ? [removable] : [])];
    this.choice.replaceChildren(...counts.map((count) => new Option(t('library.free_oldest', { n: count }), String(count))));
    this.choice.value = String(counts.find((count) => count >= removable / 4) ?? '');
    this.choice.disabled = getElement(this.dialog, '[value=yes]', HTMLButtonElement).disabled = removable === 0;
    this.describe();
    this.dialog.returnValue = '';
    this.dialog.showModal();
  }

  describe() {
    const { space, studio } = this;
    if (!space) return;
    const { takes: all, from } = space.removable;
    const since = new Intl.DateTimeFormat(studio.words.language, { dateStyle: 'long' }).format((from ?? 0) * 1000);
    const values = { n: this.choice.value, all, from: since };
    getElement(this.dialog, 'p').textContent = studio.t(all ? 'library.free_what' : 'library.free_none', values);
  }

  /** Delete the oldest takes, and offer undo. @param {number} count */
  async free(count) {
    const { studio } = this;
    const { history, t, toasts } = studio;
    const ids = await toasts.guard(() => history.freeSpace(count));
    if (!ids) return;
    const onAction = () => {
      leave();
      toasts.guard(() => history.restoreSeveral(ids));
    };
    const leave = toasts.show(t('library.freed', { n: ids.length }), { action: t('shell.undo'), onAction, isOfPage: true, dismiss: t('library.freed_leave') });
  }
}

const headOfDay = () => createElement('li', { className: 'vw-takes-day' }, [createElement('h3')]);

// --- The Library with takes and voices. A narrow window shows only one of the two panels.

/** Library room of the page, with the stored takes and the stored voices. */
export class LibraryRoom {
  static id = 'library';
  id = 'library';

  /**
   * Create the Library room from its panel on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.panels = getElement(root, '.vw-halves');
    this.panelTabs = getElements(root, '.vw-library-turn [data-half]');
    const takes = getElement(root, '#vw-library-takes');
    this.scripts = new SavedScripts(studio, () => {
      this.takes.refresh();
      this.space.refresh();
    });
    this.takes = new TakesPanel(takes, studio, this.scripts);
    this.space = new TakeSpace(root, studio, this.scripts);
    this.voices = new VoicesPanel(getElement(root, '#vw-library-voices'), studio);
    for (const turn of this.panelTabs) turn.onclick = () => this.show(turn.dataset.half ?? '');
  }

  /**
   * Open the room, optionally with one panel or with the dialog for freeing space.
   *
   * @param {import('../app/studio.js').RoomOptions} [given] half: panel to show; isFull: true to open the dialog that frees space
   */
  enter({ half, isFull } = {}) {
    if (half) this.show(half);
    if (isFull) this.space.openDialog();
    else this.space.refresh();
    this.takes.follow();
    this.takes.refresh();
    this.voices.refresh();
  }

  /**
   * Reload takes and scripts that were changed elsewhere.
   *
   * If the user has opened older pages of takes, they stay.
   *
   * @param {import('../app/studio.js').IsChanged} isChanged
   */
  catchUp(isChanged) {
    if (!this.root.hidden && !this.takes.isPaged && (isChanged('takes') || isChanged('scripts'))) this.takes.refresh();
  }

  /** Show one of the two panels, if the window is too narrow for both. @param {string} half 'takes' or 'voices' */
  show(half) {
    this.panels.dataset.shown = half;
    for (const turn of this.panelTabs) turn.setAttribute('aria-pressed', String(turn.dataset.half === half));
  }

  draft() {
    return { half: this.panels.dataset.shown };
  }

  /** Restore the shown panel from a draft. @param {{half?: string}} draft */
  recall({ half }) {
    if (this.panelTabs.some(({ dataset }) => dataset.half === half)) this.show(half ?? '');
  }

  onLanguage() {
    this.scripts.paint();
    this.takes.onLanguage();
    this.space.paint();
    this.voices.onLanguage();
  }
}
