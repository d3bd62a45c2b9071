/** Import of files as text, with dialogs for chapters, encodings and web addresses. */

import { api, errorOf } from '../common/api.js';
import { createElement, getElement } from '../common/elements.js';
import { acceptDrops } from '../common/files.js';
import { expectedSeconds } from '../common/text.js';
import { readChat } from './chat.js';
import { DEFAULT_GAP_S, MAX_LINES } from './document.js';
import { cuesToLines } from './line_text.js';

// --- Switches for the kinds of content in a document.

/** Kinds of content and their defaults (`Spoken` in studio/documents/values.py). @type {Object<string, boolean>} */
const KINDS = { note_marks: false, page_numbers: false, code: false, tables: true, captions: true, list_numbers: true };

class KindSwitches {
  /**
   * @param {HTMLElement} fieldset fieldset for the switches
   * @param {import('../app/studio.js').Studio} studio
   * @param {() => void} onChange
   */
  constructor(fieldset, studio, onChange) {
    this.place = fieldset;
    this.studio = studio;
    this.legend = getElement(fieldset, 'legend');
    fieldset.onchange = onChange;
  }

  /** Show switches for the kinds of content in a document, with their defaults. @param {ParsedDocument} document */
  offer(document) {
    const kinds = kindsOf(document);
    const { found = {} } = document;
    const rows = kinds.map((kind) => {
      const box = createElement('input', { type: 'checkbox', name: kind, checked: KINDS[kind] });
      return createElement('label', { className: 'vw-check' }, [box, this.studio.t(`importing.kind.${kind}`, { n: found[kind] })]);
    });
    this.place.replaceChildren(this.legend, ...rows);
    this.place.hidden = kinds.length === 0;
  }

  /** Selected kinds as query parameters of POST studio/documents. @returns {ParserOptions} */
  get choice() {
    return Object.fromEntries([...this.place.querySelectorAll('input')].map(({ name, checked }) => [name, checked ? '1' : '0']));
  }
}

/** Return the kinds of content in a document. @param {ParsedDocument} document */
function kindsOf({ found = {} }) {
  return Object.keys(KINDS).filter((kind) => found[kind] > 0);
}

// --- Dialog for the selection of chapters.

const MAX_LINE_CHARS = 600; // Longer paragraphs are split into several lines, as in reading.js.
const MAX_TITLE_CHARS = 60; // Maximum length of the text that replaces a missing chapter title.

export class ChapterSheet {
  /** @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.dialog = getElement(page, '#vw-chapters', HTMLDialogElement);
    this.title = getElement(page, '#vw-chapters-title');
    this.all = getElement(page, '#vw-chapters-all', HTMLInputElement);
    this.list = getElement(page, '#vw-chapters-list');
    this.sum = getElement(page, '#vw-chapters-sum');
    this.go = getElement(page, '#vw-chapters-go', HTMLButtonElement);
    this.error = getElement(page, '#vw-chapters-error');
    this.kinds = new KindSwitches(getElement(page, '#vw-chapters-kinds'), studio, () => this.change());
    /** @type {ParsedDocument|null} */
    this.found = null;
    /** @type {Chapter[]} */
    this.chapters = [];
    this.turn = 0;
    /** @type {(chosen: Chapter[]|null) => void} */
    this.answer = () => {};
    getElement(page, '#vw-chapters-close').onclick = () => this.dialog.close();
    this.all.onchange = () => this.pick(() => this.all.checked);
    this.list.onchange = () => this.paint();
    this.go.onclick = () => {
      this.answer(this.chosen);
      this.dialog.close();
    };
    this.dialog.onclose = () => this.answer(null);
  }

  /**
   * Let the user select chapters of a document.
   *
   * Footnotes and endnotes are a chapter that is not selected by default.
   *
   * @param {string} title @param {ParsedDocument} parsed @returns {Promise<Chapter[]|null>} selected chapters, or null if cancelled
   */
  choose(title, parsed) {
    this.title.textContent = title;
    this.found = parsed;
    this.kinds.offer(parsed);
    this.show(parsed.chapters);
    this.dialog.showModal();
    return new Promise((resolve) => (this.answer = resolve));
  }

  /** Show the chapters, and select all except notes if they fit into a script. @param {Chapter[]} chapters */
  show(chapters) {
    this.chapters = chapters;
    this.error.textContent = '';
    this.list.replaceChildren(...chapters.map((chapter, index) => this.row(chapter, index)));
    const fits = linesOf(chapters.filter((chapter) => !chapter.is_notes)) <= MAX_LINES;
    this.pick((chapter) => fits && !chapter.is_notes);
  }

  /** Parse the document again with the selected kinds of content. */
  async change() {
    const turn = ++this.turn;
    this.go.disabled = true;
    try {
      const found = await this.found?.parseAgain(this.kinds.choice);
      if (turn === this.turn && found) this.replace(found.chapters);
    } catch (error) {
      if (turn === this.turn) this.error.textContent = errorOf(error).message;
    }
  }

  /**
   * Show the chapters after the document was parsed again, with the same selection.
   *
   * The number of chapters may have changed.
   *
   * @param {Chapter[]} chapters
   */
  replace(chapters) {
    const { boxes, chapters: old } = this;
    const isSame = chapters.length === old.length;
    this.show(chapters);
    this.pick((chapter) => {
      const at = isSame ? chapters.indexOf(chapter) : old.findIndex(({ title }) => title === chapter.title);
      return boxes[at]?.checked ?? !chapter.is_notes;
    });
  }

  /** @param {Chapter} chapter @param {number} index */
  row({ title, paragraphs, is_notes: isNotes }, index) {
    const row = document.createElement('li');
    const label = createElement('label', { className: 'vw-check' });
    const box = createElement('input', { type: 'checkbox', name: String(index) });
    const named = isNotes ? this.studio.t('importing.notes') : title || preview(paragraphs[0]);
    const name = createElement('span', { textContent: named, dir: 'auto' });
    const time = document.createElement('small');
    time.textContent = this.studio.facts.time(secondsOf(paragraphs));
    label.append(box, name, time);
    row.append(label);
    return row;
  }

  /** Select the chapters for which a function returns true. @param {(chapter: Chapter) => boolean} isWanted */
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

  /** Show the size of the selection, or an error if the selection is too large. */
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

/** Return the number of script lines that chapters have. @param {Chapter[]} chapters */
function linesOf(chapters) {
  return chapters.flatMap(({ paragraphs }) => paragraphs).reduce((sum, text) => sum + Math.ceil(text.length / MAX_LINE_CHARS), 0);
}

/** Return the estimated duration of paragraphs in seconds. @param {string[]} paragraphs */
function secondsOf(paragraphs) {
  return expectedSeconds(paragraphs.join(' '));
}

/** Return the beginning of a text, cut between words. @param {string} text */
function preview(text) {
  return text.length <= MAX_TITLE_CHARS ? text : `${text.slice(0, MAX_TITLE_CHARS).replace(/\s+\S*$/u, '')} …`;
}

// --- Preview of a text file: encoding, omissions and first lines.

/**
 * @typedef {{code: string, count: number, message: string, examples?: string[]}} Note
 * @typedef {Object<string, string>} ParserOptions  query parameters of POST studio/documents
 */

const MAX_PREVIEW_LINES = 12;
const MAX_PREVIEW_CHARS = 160; // Maximum number of characters that are shown of a line.
const MAX_EXAMPLE_CHARS = 30; // Maximum number of characters that are shown of an omission.

export class ImportSheet {
  /** @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.dialog = getElement(page, '#vw-import', HTMLDialogElement);
    this.title = getElement(page, '#vw-import-title');
    this.encoding = getElement(page, '#vw-import-encoding');
    this.encodings = getElement(page, '#vw-import-encoding select', HTMLSelectElement);
    this.sounds = getElement(page, '#vw-import-sounds');
    this.keepsSounds = getElement(page, '#vw-import-sounds input', HTMLInputElement);
    this.notes = getElement(page, '#vw-import-notes');
    this.preview = getElement(page, '#vw-import-preview');
    this.message = getElement(page, '#vw-import-told');
    this.go = getElement(page, '#vw-import-go', HTMLButtonElement);
    /** @type {ParsedDocument|null} */
    this.found = null;
    this.kinds = new KindSwitches(getElement(page, '#vw-import-kinds'), studio, () => this.change());
    /** @type {(choice: ParserOptions) => Promise<ParsedDocument>} */
    this.reread = () => Promise.reject(new Error('no file is open'));
    /** @type {(chosen: ParsedDocument|null) => void} */
    this.answer = () => {};
    this.turn = 0;
    getElement(page, '#vw-import-close').onclick = () => this.dialog.close();
    this.encodings.onchange = () => this.change();
    this.keepsSounds.onchange = () => this.change();
    this.go.onclick = () => {
      this.answer(this.found);
      this.dialog.close();
    };
    this.dialog.onclose = () => this.answer(null);
  }

  /**
   * Show the preview of a file with its options.
   *
   * The dialog for chapters has its own switches.
   *
   * @param {string} title @param {ParsedDocument} parsed @returns {Promise<ParsedDocument|null>} parsed file, or null if cancelled
   */
  choose(title, parsed) {
    this.reread = parsed.parseAgain;
    this.title.textContent = title;
    const { encodings = [], notes } = parsed;
    this.encoding.hidden = encodings.length < 2;
    this.encodings.replaceChildren(...encodings.map((name) => new Option(name, name)));
    this.sounds.hidden = !notes.some(({ code }) => code === 'sounds');
    this.keepsSounds.checked = false;
    this.kinds.offer(parsed.chapters.length > 1 ? { ...parsed, found: {} } : parsed);
    this.show(parsed);
    this.dialog.showModal();
    return new Promise((resolve) => (this.answer = resolve));
  }

  /** Parse the file again with the selected options. */
  async change() {
    const turn = ++this.turn;
    const choice = {
      ...(this.encoding.hidden ? {} : { encoding: this.encodings.value }),
      ...(this.keepsSounds.checked ? { sounds: '1' } : {}),
      ...this.kinds.choice,
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

  /** Show a parsed file. @param {ParsedDocument} parsed */
  show(parsed) {
    const { t } = this.studio;
    this.found = parsed;
    const cues = parsed.cues ?? [];
    const paragraphs = parsed.chapters.flatMap((chapter) => chapter.paragraphs);
    const first = paragraphs.slice(0, MAX_PREVIEW_LINES).map((text, at) => [cues[at]?.name, text].filter(Boolean).join(': '));
    this.preview.replaceChildren(...first.map((text) => row(text.length > MAX_PREVIEW_CHARS ? `${text.slice(0, MAX_PREVIEW_CHARS)} …` : text)));
    this.notes.replaceChildren(...noteSentences(parsed.notes, t).map(row));
    this.message.textContent = t('importing.paragraphs', { n: paragraphs.length });
    this.go.disabled = paragraphs.length === 0;
  }
}

/**
 * Return notes with their examples in the page's language.
 *
 * Notes with an unknown code are returned unchanged.
 *
 * @param {Note[]} notes @param {(key: string, values?: Object<string, any>) => string} t
 */
export function noteSentences(notes, t) {
  return notes.map(({ code, count, message, examples = [] }) => {
    const key = `importing.note.${code}`;
    const note = t(key, { n: count });
    if (note === key) return message;
    return examples.length ? t('importing.examples', { note, examples: examples.map(shortened).join(' · ') }) : note;
  });
}

/** Return an example, shortened if it is too long. @param {string} example */
function shortened(example) {
  return example.length <= MAX_EXAMPLE_CHARS ? example : `${example.slice(0, MAX_EXAMPLE_CHARS).trimEnd()} …`;
}

/** Return a list element with a text. @param {string} text */
function row(text) {
  return createElement('li', { textContent: text, dir: 'auto' });
}

// --- Dialog for the address of a web page.

export class AddressSheet {
  /** @param {HTMLElement} page */
  constructor(page) {
    this.dialog = getElement(page, '#vw-web', HTMLDialogElement);
    this.field = getElement(page, '#vw-web-address', HTMLInputElement);
    this.error = getElement(page, '#vw-web-error');
    this.go = getElement(page, '#vw-web-go', HTMLButtonElement);
    getElement(page, '#vw-web-close').onclick = () => this.dialog.close();
    this.field.oninput = () => (this.error.textContent = '');
  }

  /**
   * Ask for the address of a web page until the page can be read.
   *
   * @param {(address: string) => Promise<ParsedDocument>} fetchPage @returns {Promise<ParsedDocument|null>} the page, or null if cancelled
   */
  choose(fetchPage) {
    this.error.textContent = '';
    this.dialog.showModal();
    this.field.select();
    return new Promise((resolve) => {
      this.dialog.onclose = () => resolve(null);
      getElement(this.dialog, 'form', HTMLFormElement).onsubmit = async (event) => {
        event.preventDefault();
        this.error.textContent = '';
        this.go.disabled = true;
        try {
          resolve(await fetchPage(webAddress(this.field.value)));
          this.dialog.close();
        } catch (error) {
          this.error.textContent = errorOf(error).message;
        } finally {
          this.go.disabled = false;
        }
      };
    });
  }
}

/** Return an address as the studio accepts it: with a scheme and without a fragment. @param {string} text */
export function webAddress(text) {
  const address = text.trim().replace(/^(?:http:\/\/)?(?!https:\/\/)/iu, 'https://');
  return URL.canParse(address) ? new URL(address).href.replace(/#.*/u, '') : address;
}

// --- Import: the studio parses a file, the user selects chapters and options, and the page reports omissions.

/**
 * @typedef {{title: string, paragraphs: string[], is_notes: boolean}} Chapter
 * @typedef {{title: string, author: string, cover: string, chapters: Chapter[], notes: Note[], encodings?: string[],
 *   cues?: import('./line_text.js').Cue[], found?: Object<string, number>,
 *   parseAgain: (choice: ParserOptions) => Promise<ParsedDocument>}} ParsedDocument  response of POST studio/documents. found: number of items of each
 *   kind of content; reread: parses the document again with other options
 * @typedef {{name: string, file?: File}} Source  a file, or the address of a web page
 * @typedef {{title: string, text: string, lines?: import('./reading.js').ParsedLine[], isDocument?: boolean,
 *   chapters?: Chapter[], book?: import('./document.js').Book}} ImportedText
 *   text: paragraphs separated by empty lines; lines: lines of subtitles or of a chat
 */

export const ACCEPTED = '.txt,.md,.markdown,.srt,.vtt,.ass,.ssa,.ttml,.smi,.sami,.sub,.sbv,.tmp,.mpl,.mpl2,.dfxp,.epub,.docx,.docm,.pdf,.html,.htm,.xhtml,text/plain';
const IS_DOCUMENT = /\.(epub|docx?|dotx?|pdf|x?html?)$/i;
const IS_MARKDOWN = /\.(md|markdown)$/i;
const MAX_NAME_CHARS = 120; // Same limit as in the studio.
const NOTES_MS = 15_000;

export class Importer {
  /**
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.chapters = new ChapterSheet(page, studio);
    this.sheet = new ImportSheet(page, studio);
    this.addresses = new AddressSheet(page);
    const place = /** @type {HTMLElement} */ (page.querySelector('#vw-shared-text'));
    const input = /** @type {HTMLInputElement} */ (page.querySelector('#vw-text-file'));
    const button = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-text-open'));
    input.accept = ACCEPTED;
    button.onclick = () => input.click();
    input.onchange = () => {
      const [file] = input.files ?? [];
      input.value = ''; // Without this, choosing the same file again would fire no change event.
      this.open(file);
    };
    acceptDrops(place, ([file]) => this.open(file));
    getElement(page, '#vw-text-web').onclick = () => this.openAddress();
  }

  /** Import a file into the text field, or as a script. @param {File|undefined} file */
  async open(file) {
    this.useText(await this.readFile(file, DEFAULT_GAP_S)); // Subtitles become a new script, whose lines have the default gap.
  }

  /** Ask for the address of a web page, and import the article of the page. */
  async openAddress() {
    this.useText(await this.readAddress());
  }

  /**
   * Put an imported text into the text field, or make a script from it.
   *
   * A text becomes a script if it is too long for one take, has times, or is a chat.
   *
   * @param {ImportedText|null} imported
   */
  useText(imported) {
    const { studio } = this;
    if (!imported) return;
    if (imported.lines || readChat(imported.text) || [...imported.text.trim()].length > studio.facts.maxChars) {
      return studio.go('script', { text: imported.text, lines: imported.lines, title: imported.title, spokenBy: studio.current?.spokenBy?.() ?? null });
    }
    studio.replaceWithUndo(studio.current ?? studio, studio.isOwnText, () => void (studio.text = imported.text));
    studio.drafts.touch();
  }

  /**
   * Parse a file as text, or show an error.
   *
   * @param {File|undefined} file @param {number} [gap] the script's gap between lines in seconds @returns
   * {Promise<ImportedText|null>} null without a file, after an error, or if the user cancels
   */
  async readFile(file, gap = 0) {
    const found = file && (await this.parseFile(file, IS_MARKDOWN.test(file.name) ? { markdown: '1' } : {}));
    return found ? this.choose(found, titleOf(file.name), IS_DOCUMENT.test(file.name), gap) : null;
  }

  /**
   * Ask for an address and return the article of the web page.
   *
   * @returns {Promise<ImportedText|null>} null if cancelled
   */
  async readAddress() {
    const page = await this.addresses.choose((url) => this.requestText({ name: url }, { url }));
    const found = page && (await this.chooseOptions(page, page.title));
    return found ? this.choose(found, this.addresses.field.value, true) : null;
  }

  /**
   * Let the user select chapters if the document has several.
   *
   * @param {ParsedDocument} parsed @param {string} name title for a document without a title @param {boolean} isDocument
   * @param {number} [gap] @returns {Promise<ImportedText|null>} null if cancelled
   */
  async choose(parsed, name, isDocument, gap = 0) {
    const title = (parsed.title || name).slice(0, MAX_NAME_CHARS);
    const chosen = parsed.chapters.length > 1 ? await this.chapters.choose(title, parsed) : parsed.chapters;
    if (!chosen) return null;
    const paragraphs = chosen.flatMap((chapter) => chapter.paragraphs);
    const lines = parsed.cues?.length ? cuesToLines(paragraphs, parsed.cues, gap) : undefined;
    const { author, cover } = parsed;
    return { title, text: paragraphs.join('\n\n'), lines, isDocument, chapters: chosen, book: { author, cover } };
  }

  /**
   * Return all rows of a table or a list as text.
   *
   * @param {File} file
   * @returns {Promise<string|null>} null after an error or if cancelled
   */
  async table(file) {
    const found = await this.parseFile(file, { as_is: '1' });
    return found && found.chapters.flatMap(({ paragraphs }) => paragraphs).join('\n');
  }

  /**
   * Let the studio parse a file.
   *
   * If there are options, the user selects them. Notes and errors are shown.
   *
   * @param {File} file @param {ParserOptions} [query] @returns {Promise<ParsedDocument|null>}
   */
  async parseFile(file, query = {}) {
    try {
      const found = await this.requestText({ name: file.name, file }, query);
      return await this.chooseOptions(query.as_is ? { ...found, found: {} } : found, file.name);
    } catch (error) {
      this.studio.toast(`${file.name}: ${errorOf(error).message}`, { isOfPage: true });
      return null;
    }
  }

  /**
   * Let the user select options for the parser, if the document has any.
   *
   * Without options, the notes about the document are shown.
   *
   * @param {ParsedDocument} parsed @param {string} name @returns {Promise<ParsedDocument|null>} parsed document, or null if cancelled
   */
  async chooseOptions(parsed, name) {
    const { studio } = this;
    const hasKinds = parsed.chapters.length <= 1 && kindsOf(parsed).length > 0;
    if (hasKinds || (parsed.encodings ?? []).length > 1 || parsed.notes.some(({ code }) => code === 'sounds')) return this.sheet.choose(name, parsed);
    const warning = noteSentences(parsed.notes, studio.t).join(' ');
    if (warning) studio.toast(warning, { isOfPage: true, stayMs: NOTES_MS });
    return parsed;
  }

  /**
   * Request the parsed text of a file or a web page from the studio.
   *
   * @param {Source} source
   * @param {ParserOptions} query
   * @returns {Promise<ParsedDocument>}
   */
  async requestText({ name, file }, query) {
    const { studio } = this;
    const leave = !file || IS_DOCUMENT.test(name) ? studio.toast(studio.t('importing.reading', { name }), { isOfPage: true }) : null;
    try {
      const response = await api.request(`studio/documents?${new URLSearchParams(query)}`, { method: 'POST', body: file });
      return { ...(await response.json()), parseAgain: (/** @type {ParserOptions} */ choice) => this.requestText({ name, file }, { ...query, ...choice }) };
    } finally {
      leave?.();
    }
  }
}

/** Return a file name without its extension. @param {string} name */
function titleOf(name) {
  return name.replace(/\.[^.]*$/, '').slice(0, MAX_NAME_CHARS);
}
