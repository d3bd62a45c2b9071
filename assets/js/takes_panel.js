/** The history of takes: searched, filtered, page by page. Half of the library room. */

import { need } from './elements.js';
import { TakeRow } from './take_row.js';

const TYPING_MS = 200;

export class TakesPanel {
  /** @param {HTMLElement} root @param {import('./studio.js').Studio} studio @param {(wanted: TakesPanel['wanted']) => void} onFilter  something else is looked for */
  constructor(root, studio, onFilter) {
    this.root = root;
    this.studio = studio;
    this.onFilter = onFilter;
    this.search = need(root, '#vw-takes-search', HTMLInputElement);
    this.room = need(root, '#vw-takes-room', HTMLSelectElement);
    this.starred = need(root, '#vw-takes-starred');
    this.list = need(root, '#vw-takes-list');
    this.empty = need(root, '#vw-takes-empty');
    this.more = need(root, '#vw-takes-more');
    /** @type {Map<string, TakeRow>} by the take's id */
    this.rows = new Map();
    this.search.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.refresh(), TYPING_MS);
    };
    this.room.onchange = () => this.refresh();
    this.starred.onclick = () => {
      this.starred.setAttribute('aria-pressed', String(this.starred.ariaPressed !== 'true'));
      this.refresh();
    };
    this.more.onclick = () => this.guard(studio.history.more());
    studio.history.addEventListener('change', () => this.paint());
  }

  /** Write everything anew, in the page's language. */
  onLanguage() {
    this.rows.clear();
    this.paint();
  }

  get wanted() {
    return {
      search: this.search.value.trim(),
      room: this.room.value,
      favourite: this.starred.ariaPressed === 'true' ? '1' : '',
      loose: '1', // what a script is made of is folded under it
    };
  }

  refresh() {
    this.onFilter(this.wanted);
    return this.guard(this.studio.history.refresh(this.wanted));
  }

  /** Say in the list's place why there is none. @param {Promise<void>} asked */
  async guard(asked) {
    try {
      await asked;
    } catch (error) {
      this.empty.hidden = false;
      this.empty.textContent = error.missing ? this.studio.t('library.no_store') : error.message;
    }
  }

  paint() {
    const { list, next } = this.studio.history;
    const rows = list.map((record) => {
      const row = this.rows.get(record.id) ?? new TakeRow(record, this.studio);
      row.update(record);
      return row;
    });
    this.rows = new Map(rows.map((row) => [row.record.id, row]));
    // Elements that stay are left where they are: to move one would take the focus away.
    rows.forEach(({ element }, index) => {
      if (this.list.children[index] !== element) this.list.insertBefore(element, this.list.children[index] ?? null);
    });
    while (this.list.children.length > rows.length) this.list.lastElementChild?.remove();
    const { search, room, favourite } = this.wanted;
    this.empty.hidden = rows.length > 0;
    const why = search ? 'none_found' : room || favourite ? 'none_of_these' : 'none_yet';
    this.empty.textContent = this.studio.t(`library.${why}`);
    this.more.hidden = !next;
  }
}
