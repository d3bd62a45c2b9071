/** Import of files as text, with sheets for chapters and encodings. */

import { api, errorOf } from '../common/api.js';
import { make, need } from '../common/elements.js';
import { acceptDrops } from '../common/files.js';
import { expectedSeconds } from '../common/text.js';
import { readChat } from './chat.js';
import { GAP_S, MAX_LINES } from './document.js';
import { cuesToLines } from './line_text.js';

// --- The sheet for selecting chapters.

const MAX_LINE_CHARS = 600; // A longer paragraph becomes several lines (reading.js).
const MAX_TITLE_CHARS = 60; // Shown of a chapter without a title.

export class ChapterSheet {
  /** @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.dialog = need(page, '#vw-chapters', HTMLDialogElement);
    this.title = need(page, '#vw-chapters-title');
    this.all = need(page, '#vw-chapters-all', HTMLInputElement);
    this.list = need(page, '#vw-chapters-list');
    this.sum = need(page, '#vw-chapters-sum');
    this.go = need(page, '#vw-chapters-go', HTMLButtonElement);
    /** @type {Chapter[]} */
    this.chapters = [];
    /** @type {(chosen: Chapter[]|null) => void} */
    this.answer = () => {};
    need(page, '#vw-chapters-close').onclick = () => this.dialog.close();
    this.all.onchange = () => this.pick(() => this.all.checked);
    this.list.onchange = () => this.paint();
    this.go.onclick = () => {
      this.answer(this.chosen);
      this.dialog.close();
    };
    this.dialog.onclose = () => this.answer(null);
  }

  /**
   * Let the user select chapters. Footnotes and endnotes are a chapter that is not selected by default.
   *
   * @param {string} title @param {Chapter[]} chapters @returns {Promise<Chapter[]|null>} null: cancelled
   */
  choose(title, chapters) {
    this.chapters = chapters;
    this.title.textContent = title;
    this.list.replaceChildren(...chapters.map((chapter, index) => this.row(chapter, index)));
    const fits = linesOf(chapters.filter((chapter) => !chapter.is_notes)) <= MAX_LINES;
    this.pick((chapter) => fits && !chapter.is_notes);
    this.dialog.showModal();
    return new Promise((resolve) => (this.answer = resolve));
  }

  /** @param {Chapter} chapter @param {number} index */
  row({ title, paragraphs, is_notes: isNotes }, index) {
    const row = document.createElement('li');
    const label = make('label', { className: 'vw-check' });
    const box = make('input', { type: 'checkbox', name: String(index) });
    const named = isNotes ? this.studio.t('importing.notes') : title || beginning(paragraphs[0]);
    const name = make('span', { textContent: named, dir: 'auto' });
    const time = document.createElement('small');
    time.textContent = this.studio.facts.time(secondsOf(paragraphs));
    label.append(box, name, time);
    row.append(label);
    return row;
  }

  /** Select chapters. @param {(chapter: Chapter) => boolean} isWanted */
  pick(isWanted) {
    this.boxes.forEach((box, index) => (box.checked = isWanted(this.chapters[index])));
    this.paint();
  }

  get boxes() {
    return [...this.list.querySelectorAll('input')];
  }

  get chosen() {
    return this.chapters.filter((_, index) => this.boxes[index].checked);
  }

  /** Show the size of the selection, and an error if it is too large. */
  paint() {
    const { chosen } = this;
    const { t, facts } = this.studio;
    const lines = linesOf(chosen);
    const isTooMuch = lines > MAX_LINES;
    const time = facts.time(secondsOf(chosen.flatMap(({ paragraphs }) => paragraphs)));
    this.all.checked = chosen.length === this.chapters.length;
    this.all.indeterminate = chosen.length > 0 && !this.all.checked;
    this.sum.textContent = t(isTooMuch ? 'importing.too_much' : 'importing.sum', { n: chosen.length, of: this.chapters.length, lines, most: MAX_LINES, time });
    if (chosen.length === 0) this.sum.textContent = t('importing.choose');
    this.go.textContent = chosen.length ? t('importing.go_chapters', { n: chosen.length }) : t('importing.go');
    this.go.disabled = chosen.length === 0 || isTooMuch;
  }
}

/** Count the script lines of chapters. @param {Chapter[]} chapters */
function linesOf(chapters) {
  return chapters.flatMap(({ paragraphs }) => paragraphs).reduce((sum, text) => sum + Math.ceil(text.length / MAX_LINE_CHARS), 0);
}

/** @param {string[]} paragraphs */
function secondsOf(paragraphs) {
  return expectedSeconds(paragraphs.join(' '));
}

/** @param {string} text */
function beginning(text) {
  return text.length <= MAX_TITLE_CHARS ? text : `${text.slice(0, MAX_TITLE_CHARS).replace(/\s+\S*$/u, '')} …`;
}

// --- The preview of a text file: encoding, omissions and first lines.

/**
 * @typedef {{code: string, count: number, message: string, examples?: string[]}} Note
 * @typedef {{encoding?: string, sounds?: string}} Choice  query of POST studio/documents
 */

const MAX_PREVIEW_LINES = 12;
const MAX_PREVIEW_CHARS = 160; // Characters shown of a line.
const MAX_EXAMPLE_CHARS = 30; // Characters shown of what was left out.

export class ImportSheet {
  /** @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.dialog = need(page, '#vw-import', HTMLDialogElement);
    this.title = need(page, '#vw-import-title');
    this.encoding = need(page, '#vw-import-encoding');
    this.encodings = need(page, '#vw-import-encoding select', HTMLSelectElement);
    this.sounds = need(page, '#vw-import-sounds');
    this.keepSounds = need(page, '#vw-import-sounds input', HTMLInputElement);
    this.notes = need(page, '#vw-import-notes');
    this.preview = need(page, '#vw-import-preview');
    this.message = need(page, '#vw-import-told');
    this.go = need(page, '#vw-import-go', HTMLButtonElement);
    /** @type {Found|null} */
    this.found = null;
    /** @type {(choice: Choice) => Promise<Found>} */
    this.reread = () => Promise.reject(new Error('no file is open'));
    /** @type {(chosen: Found|null) => void} */
    this.answer = () => {};
    this.turn = 0;
    need(page, '#vw-import-close').onclick = () => this.dialog.close();
    this.encodings.onchange = () => this.change();
    this.keepSounds.onchange = () => this.change();
    this.go.onclick = () => {
      this.answer(this.found);
      this.dialog.close();
    };
    this.dialog.onclose = () => this.answer(null);
  }

  /**
   * Show the preview of a file with options.
   *
   * @param {string} title @param {Found} found @param {(choice: Choice) => Promise<Found>} reread
   * @returns {Promise<Found|null>} null: cancelled
   */
  choose(title, found, reread) {
    this.reread = reread;
    this.title.textContent = title;
    const { encodings = [], notes } = found;
    this.encoding.hidden = encodings.length < 2;
    this.encodings.replaceChildren(...encodings.map((name) => new Option(name, name)));
    this.sounds.hidden = !notes.some(({ code }) => code === 'sounds');
    this.keepSounds.checked = false;
    this.show(found);
    this.dialog.showModal();
    return new Promise((resolve) => (this.answer = resolve));
  }

  /** Read the file again with the selected options. */
  async change() {
    const turn = ++this.turn;
    const choice = {
      ...(this.encoding.hidden ? {} : { encoding: this.encodings.value }),
      ...(this.keepSounds.checked ? { sounds: '1' } : {}),
    };
    this.go.disabled = true;
    try {
      const found = await this.reread(choice);
      if (turn === this.turn) this.show(found);
    } catch (error) {
      if (turn !== this.turn) return;
      this.preview.replaceChildren();
      this.message.textContent = errorOf(error).message;
    }
  }

  /** @param {Found} found */
  show(found) {
    const { t } = this.studio;
    this.found = found;
    const cues = found.cues ?? [];
    const paragraphs = found.chapters.flatMap((chapter) => chapter.paragraphs);
    const first = paragraphs.slice(0, MAX_PREVIEW_LINES).map((text, at) => [cues[at]?.name, text].filter(Boolean).join(': '));
    this.preview.replaceChildren(...first.map((text) => row(text.length > MAX_PREVIEW_CHARS ? `${text.slice(0, MAX_PREVIEW_CHARS)} …` : text)));
    this.notes.replaceChildren(...noteSentences(found.notes, t).map(row));
    this.message.textContent = t('importing.paragraphs', { n: paragraphs.length });
    this.go.disabled = paragraphs.length === 0;
  }
}

/**
 * Return notes with examples in the page's language; unknown notes stay unchanged. @param {Note[]} notes @param {(key:
 * string, values?: Object<string, any>) => string} t
 */
export function noteSentences(notes, t) {
  return notes.map(({ code, count, message, examples = [] }) => {
    const key = `importing.note.${code}`;
    const note = t(key, { n: count });
    if (note === key) return message;
    return examples.length ? t('importing.examples', { note, examples: examples.map(shortened).join(' · ') }) : note;
  });
}

/** @param {string} example */
function shortened(example) {
  return example.length <= MAX_EXAMPLE_CHARS ? example : `${example.slice(0, MAX_EXAMPLE_CHARS).trimEnd()} …`;
}

/** @param {string} text */
function row(text) {
  return make('li', { textContent: text, dir: 'auto' });
}

// --- Import: the studio parses a file, the user selects chapters and encoding, and omissions are shown.

/**
 * @typedef {{title: string, paragraphs: string[], is_notes: boolean}} Chapter
 * @typedef {{title: string, author: string, cover: string, chapters: Chapter[], notes: Note[], encodings?: string[],
 *   cues?: import('./line_text.js').Cue[]}} Found  response of POST studio/documents
 * @typedef {{title: string, text: string, lines?: import('./reading.js').ReadLine[], isDocument?: boolean,
 *   chapters?: Chapter[], book?: import('./document.js').Book}} Imported
 *   text: paragraphs between empty lines; lines: of subtitles or a chat or a chat
 */

export const ACCEPTED = '.txt,.md,.markdown,.srt,.vtt,.ass,.ssa,.ttml,.smi,.sami,.sub,.epub,.docx,.pdf,.html,.htm,.xhtml,text/plain';
const IS_DOCUMENT = /\.(epub|docx?|dotx?|pdf|x?html?)$/i;
const IS_MARKDOWN = /\.(md|markdown)$/i;
const MAX_NAME_CHARS = 120; // As in the studio.
const NOTES_MS = 15_000;

export class Importing {
  /**
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   * @param {ChapterSheet} chapters @param {ImportSheet} sheet
   */
  constructor(page, studio, chapters, sheet) {
    this.studio = studio;
    this.chapters = chapters;
    this.sheet = sheet;
    const place = /** @type {HTMLElement} */ (page.querySelector('#vw-shared-text'));
    const input = /** @type {HTMLInputElement} */ (page.querySelector('#vw-text-file'));
    const button = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-text-open'));
    input.accept = ACCEPTED;
    button.onclick = () => input.click();
    input.onchange = () => {
      const [file] = input.files ?? [];
      input.value = ''; // Choosing the same file again fires a change event.
      this.open(file);
    };
    acceptDrops(place, ([file]) => this.open(file));
  }

  /** Put a file's text into the shared field, or into a script if it is too long for one take, has times, or is a chat. @param {File|undefined} file */
  async open(file) {
    const { studio } = this;
    const read = await this.read(file, GAP_S); // Text with times becomes a new script.
    if (!read) return;
    if (read.lines || readChat(read.text) || [...read.text.trim()].length > studio.facts.most) {
      return studio.go('script', { text: read.text, lines: read.lines, title: read.title, spokenBy: studio.current?.spokenBy?.() ?? null });
    }
    studio.replacing(studio.current ?? studio, studio.hasOwnText, () => void (studio.text = read.text));
    studio.drafts.touch();
  }

  /**
   * Return a file as text, or show the error.
   *
   * @param {File|undefined} file @param {number} [between] the script's gap between lines in seconds @returns
   * {Promise<Imported|null>} null: no file, an error, or cancelled
   */
  async read(file, between = 0) {
    const found = file && (await this.find(file, IS_MARKDOWN.test(file.name) ? { markdown: '1' } : {}));
    if (!file || !found) return null;
    const title = (found.title || titleOf(file)).slice(0, MAX_NAME_CHARS);
    const chosen = found.chapters.length > 1 ? await this.chapters.choose(title, found.chapters) : found.chapters;
    if (!chosen) return null;
    const paragraphs = chosen.flatMap((chapter) => chapter.paragraphs);
    const lines = found.cues?.length ? cuesToLines(paragraphs, found.cues, between) : undefined;
    const { author, cover } = found;
    return { title, text: paragraphs.join('\n\n'), lines, isDocument: IS_DOCUMENT.test(file.name), chapters: chosen, book: { author, cover } };
  }

  /** Return all rows of a table or a list as text. @param {File} file @returns {Promise<string|null>} as `read` */
  async table(file) {
    const found = await this.find(file, { as_is: '1' });
    return found && found.chapters.flatMap(({ paragraphs }) => paragraphs).join('\n');
  }

  /**
   * Have the studio parse a file. Let the user choose if there are options; show notes and errors.
   *
   * @param {File} file @param {Object<string, string>} [query] @returns {Promise<Found|null>}
   */
  async find(file, query = {}) {
    const { studio } = this;
    try {
      const found = await this.ask(file, query);
      const hasChoice = (found.encodings ?? []).length > 1 || found.notes.some(({ code }) => code === 'sounds');
      if (hasChoice) return await this.sheet.choose(file.name, found, (choice) => this.ask(file, { ...query, ...choice }));
      const said = noteSentences(found.notes, studio.t).join(' ');
      if (said) studio.toast(said, { isOfPage: true, stayMs: NOTES_MS });
      return found;
    } catch (error) {
      studio.toast(`${file.name}: ${errorOf(error).message}`, { isOfPage: true });
      return null;
    }
  }

  /** @param {File} file @param {Object<string, string>} query @returns {Promise<Found>} */
  async ask(file, query) {
    const { studio } = this;
    const leave = IS_DOCUMENT.test(file.name) ? studio.toast(studio.t('importing.reading', { name: file.name }), { isOfPage: true }) : null;
    try {
      return await (await api.ask(`studio/documents?${new URLSearchParams(query)}`, { method: 'POST', body: file })).json();
    } finally {
      leave?.();
    }
  }
}

/** Return a file name without its suffix. @param {File} file */
function titleOf({ name }) {
  return name.replace(/\.[^.]*$/, '').slice(0, MAX_NAME_CHARS);
}
