/** Import of files and web pages as text, with dialogs for options and chapters. */

import { api, errorOf } from '../common/api.js';
import { createElement, getElement, getElements, onSubmit } from '../common/elements.js';
import { acceptFiles } from '../common/files.js';
import { expectedSeconds } from '../common/text.js';
import { DEFAULT_GAP_S, MAX_LINES } from './document.js';
import { cuesToLines } from './line_text.js';
import { readChat } from './reading.js';

// --- Switches for the kinds of content in a document.

/** Kinds of content and their defaults (`ContentChoice` in studio/documents/values.py). @type {Object<string, boolean>} */
const KINDS = { note_marks: false, page_numbers: false, code: false, tables: true, captions: true, list_numbers: true };

/** Switches that choose which kinds of a file's content become text. */
class KindSwitches {
  /**
   * Create one switch for each kind of content.
   *
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

  /** Show a switch for each kind of content that a document contains. @param {ParsedDocument} document */
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

  /** Selected kinds of content as query parameters of POST studio/documents. @returns {ParserOptions} */
  get choice() {
    return Object.fromEntries([...this.place.querySelectorAll('input')].map(({ name, checked }) => [name, checked ? '1' : '0']));
  }
}

/** Return the names of the kinds of content that a document contains. @param {ParsedDocument} document */
function kindsOf({ found = {} }) {
  return Object.keys(KINDS).filter((kind) => found[kind] > 0);
}

// --- Dialog for the selection of chapters.

// Maximum number of characters of a line. Longer paragraphs are split into several lines, as in reading.js.
const MAX_LINE_CHARS = 600;
const MAX_TITLE_CHARS = 60; // Maximum length of the text that replaces a missing chapter title.

/** Dialog in which the user chooses the chapters of an imported file. */
export class ChapterSheet {
  /**
   * Find the elements of the dialog on the page.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
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
   * Open the dialog in which the user selects chapters of a document.
   *
   * Footnotes and endnotes are one chapter, which is not selected by default.
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

  /**
   * Show the chapters of a document.
   *
   * If they fit into a script, all chapters except the notes are selected.
   *
   * @param {Chapter[]} chapters
   */
  show(chapters) {
    this.chapters = chapters;
    this.error.textContent = '';
    this.list.replaceChildren(...chapters.map((chapter, index) => this.row(chapter, index)));
    const fits = linesOf(chapters.filter((chapter) => !chapter.is_notes)) <= MAX_LINES;
    this.pick((chapter) => fits && !chapter.is_notes);
  }

  /** Let the studio parse the document again with the selected kinds of content. */
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
   * Show the chapters of a document that was parsed again.
   *
   * The selection is kept, even if the number of chapters has changed.
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

  /** Return the list item of a chapter, with its checkbox. @param {Chapter} chapter @param {number} index */
  row({ title, paragraphs, is_notes: isNotes }, index) {
    const box = createElement('input', { type: 'checkbox', name: String(index) });
    const named = isNotes ? this.studio.t('importing.notes') : title || preview(paragraphs[0]);
    const name = createElement('span', { textContent: named, dir: 'auto' });
    const time = createElement('small', { textContent: this.studio.facts.time(secondsOf(paragraphs)) });
    return createElement('li', {}, [createElement('label', { className: 'vw-check' }, [box, name, time])]);
  }

  /**
   * Select the chapters for which a function returns true, and deselect the others.
   *
   * @param {(chapter: Chapter) => boolean} isWanted
   */
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

  /** Show the size of the selection, or an error if it is too large for a script. */
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

/** Return the number of script lines that several chapters need. @param {Chapter[]} chapters */
function linesOf(chapters) {
  return chapters.flatMap(({ paragraphs }) => paragraphs).reduce((sum, text) => sum + Math.ceil(text.length / MAX_LINE_CHARS), 0);
}

/** Return the estimated duration of paragraphs in seconds. @param {string[]} paragraphs */
function secondsOf(paragraphs) {
  return expectedSeconds(paragraphs.join(' '));
}

/** Return the beginning of a text, without a cut inside a word. @param {string} text */
function preview(text) {
  return text.length <= MAX_TITLE_CHARS ? text : `${text.slice(0, MAX_TITLE_CHARS).replace(/\s+\S*$/u, '')} …`;
}

// --- Preview of a text file: encoding, omissions and first lines.

/**
 * @typedef {{code: string, count: number, message: string, examples?: string[]}} Note
 * @typedef {Object<string, string>} ParserOptions  query parameters of POST studio/documents
 */

const MAX_PREVIEW_LINES = 12;
const MAX_PREVIEW_CHARS = 160; // Maximum length in characters of a line's preview.
const MAX_EXAMPLE_CHARS = 30; // Maximum length in characters of the example of an omission.

/** Dialog with the options and a preview of an imported text. */
export class ImportSheet {
  /**
   * Find the elements of the dialog on the page.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
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
   * Open the dialog with a preview of a parsed file and with the parser options.
   *
   * For a file with several chapters, the kinds of content are selected in the dialog for chapters.
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

  /** Let the studio parse the file again with the selected options. */
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

  /** Show the first lines of a parsed file and the notes about it. @param {ParsedDocument} parsed */
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
 * Return the notes about a parsed file in the page's language, with their examples.
 *
 * A note with an unknown code is returned in English.
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

/** Return an example text, shortened if it is too long. @param {string} example */
function shortened(example) {
  return example.length <= MAX_EXAMPLE_CHARS ? example : `${example.slice(0, MAX_EXAMPLE_CHARS).trimEnd()} …`;
}

/** Return a list element with a text. @param {string} text */
function row(text) {
  return createElement('li', { textContent: text, dir: 'auto' });
}

// --- Dialog for the address of a web page.

/** Dialog for the address of a web page that is imported as text. */
export class AddressSheet {
  /** Find the elements of the dialog on the page. @param {HTMLElement} page */
  constructor(page) {
    this.dialog = getElement(page, '#vw-web', HTMLDialogElement);
    this.field = getElement(page, '#vw-web-address', HTMLInputElement);
    this.error = getElement(page, '#vw-web-error');
    this.go = getElement(page, '#vw-web-go', HTMLButtonElement);
    getElement(page, '#vw-web-close').onclick = () => this.dialog.close();
    this.field.oninput = () => (this.error.textContent = '');
  }

  /**
   * Ask for the address of a web page, until the page was read or the user cancels.
   *
   * @param {(address: string) => Promise<ParsedDocument>} fetchPage function that reads a page
   * @returns {Promise<ParsedDocument|null>} the page, or null if cancelled
   */
  choose(fetchPage) {
    this.error.textContent = '';
    this.dialog.showModal();
    this.field.select();
    return new Promise((resolve) => {
      this.dialog.onclose = () => resolve(null);
      onSubmit(getElement(this.dialog, 'form'), async () => {
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
      });
    });
  }
}

/** Return a web address with a scheme and without a fragment, as the studio accepts it. @param {string} text */
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
 *   kind of content; parseAgain: parses the document again with other options
 * @typedef {{name: string, file?: File}} Source  a file, or the address of a web page
 * @typedef {{title: string, text: string, lines?: import('./reading.js').ParsedLine[], isDocument?: boolean,
 *   chapters?: Chapter[], book?: import('./document.js').Book}} ImportedText
 *   text: paragraphs separated by empty lines; lines: lines of subtitles or of a chat
 */

export const ACCEPTED = '.txt,.md,.markdown,.srt,.vtt,.ass,.ssa,.ttml,.smi,.sami,.sub,.sbv,.tmp,.mpl,.mpl2,.dfxp,.epub,.docx,.docm,.pdf,.html,.htm,.xhtml,text/plain';
const IS_DOCUMENT = /\.(epub|docx?|dotx?|pdf|x?html?)$/i;
const IS_MARKDOWN = /\.(md|markdown)$/i;
const MAX_NAME_CHARS = 120; // Maximum length of a script's name in characters, as in the studio.
const NOTES_MS = 15_000;
// Maximum duration of the notice. It is closed when the file has been read, which may take minutes.
const READING_MS = 600_000;

/** Import of files and web pages as text for the Script room. */
export class Importer {
  /** True while a file is parsed, during which no other file is opened. */
  isReading = false;

  /**
   * Create the import and its dialogs from the elements of a page.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.chapters = new ChapterSheet(page, studio);
    this.sheet = new ImportSheet(page, studio);
    this.addresses = new AddressSheet(page);
    const input = getElement(page, '#vw-text-file', HTMLInputElement);
    input.accept = ACCEPTED;
    getElement(page, '#vw-text-open').onclick = () => input.click();
    acceptFiles(input, ([file]) => this.open(file), getElement(page, '#vw-shared-text'));
    for (const one of getElements(page, '#vw-text-file, #vw-script-file')) one.addEventListener('click', (event) => this.isReading && event.preventDefault());
    getElement(page, '#vw-text-web').onclick = () => this.openAddress();
  }

  /** Import a file into the text field, or as a new script. @param {File|undefined} file */
  async open(file) {
    this.useText(await this.readFile(file, DEFAULT_GAP_S)); // Subtitles become a new script, whose lines have the default gap.
  }

  /** Ask for the address of a web page, and import the text of the page. */
  async openAddress() {
    this.useText(await this.readAddress());
  }

  /**
   * Put an imported text into the text field, or create a script from it.
   *
   * A script is created if the text is too long for one request, has subtitle times, or is a chat.
   *
   * @param {ImportedText|null} imported
   */
  useText(imported) {
    const { studio } = this;
    if (!imported) return;
    if (imported.lines || readChat(imported.text) || [...imported.text.trim()].length > studio.facts.maxChars) {
      return studio.go('script', { ...imported, spokenBy: studio.current?.spokenBy?.() ?? null });
    }
    studio.undo.replacing(studio.current ?? studio, studio.isOwnText, () => void (studio.text = imported.text));
    studio.drafts.touch();
  }

  /**
   * Read a file as text, with dialogs for options and chapters.
   *
   * @param {File|undefined} file @param {number} [gap] the script's gap between lines in seconds @returns
   * {Promise<ImportedText|null>} null if there is no file, during the import of another file, after an error, or if the user cancels
   */
  async readFile(file, gap = 0) {
    if (!file || this.isReading) return null;
    this.isReading = true;
    const found = await this.parseFile(file, IS_MARKDOWN.test(file.name) ? { markdown: '1' } : {});
    this.isReading = false;
    return found ? this.choose(found, titleOf(file.name), IS_DOCUMENT.test(file.name), gap) : null;
  }

  /**
   * Ask for the address of a web page, and return the text of the page.
   *
   * @returns {Promise<ImportedText|null>} null if the user cancels
   */
  async readAddress() {
    const page = await this.addresses.choose((url) => this.requestText({ name: url }, { url }));
    const found = page && (await this.chooseOptions(page, page.title));
    return found ? this.choose(found, this.addresses.field.value, true) : null;
  }

  /**
   * Return the text of a parsed document.
   *
   * If the document has several chapters, the user selects some of them.
   *
   * @param {ParsedDocument} parsed @param {string} name title for a document without a title @param {boolean} isDocument
   * @param {number} [gap] the script's gap between lines in seconds @returns {Promise<ImportedText|null>} null if cancelled
   */
  async choose(parsed, name, isDocument, gap = 0) {
    const title = (parsed.title || name).slice(0, MAX_NAME_CHARS);
    const chosen = parsed.chapters.length > 1 ? await this.chapters.choose(title, parsed) : parsed.chapters;
    if (!chosen) return null;
    const paragraphs = chosen.flatMap((chapter) => chapter.paragraphs);
    const lines = parsed.cues?.length ? cuesToLines(paragraphs, parsed.cues, gap) : undefined;
    const { author, cover } = parsed;
    return { title, text: paragraphs.join('\n\n'), lines, isDocument: isDocument || chosen.length > 1, chapters: chosen, book: { author, cover } };
  }

  /**
   * Read a table or a list from a file, and return all its rows as text.
   *
   * @param {File} file
   * @returns {Promise<string|null>} null after an error or if cancelled
   */
  async table(file) {
    const found = await this.parseFile(file, { as_is: '1' });
    return found && found.chapters.flatMap(({ paragraphs }) => paragraphs).join('\n');
  }

  /**
   * Let the studio parse a file, and show notes and errors.
   *
   * If the parser has options for the file, the user selects them in a dialog.
   *
   * @param {File} file @param {ParserOptions} [query] @returns {Promise<ParsedDocument|null>}
   */
  async parseFile(file, query = {}) {
    try {
      const found = await this.requestText({ name: file.name, file }, query);
      return await this.chooseOptions(query.as_is ? { ...found, found: {} } : found, file.name);
    } catch (error) {
      this.studio.toasts.show(`${file.name}: ${errorOf(error).message}`, { isOfPage: true });
      return null;
    }
  }

  /**
   * Open the dialog with the parser's options, if there are any for the document.
   *
   * Otherwise show the notes about the document.
   *
   * @param {ParsedDocument} parsed @param {string} name @returns {Promise<ParsedDocument|null>} parsed document, or null if cancelled
   */
  async chooseOptions(parsed, name) {
    const { studio } = this;
    const hasKinds = parsed.chapters.length <= 1 && kindsOf(parsed).length > 0;
    if (hasKinds || (parsed.encodings ?? []).length > 1 || parsed.notes.some(({ code }) => code === 'sounds')) return this.sheet.choose(name, parsed);
    const warning = noteSentences(parsed.notes, studio.t).join(' ');
    if (warning) studio.toasts.show(warning, { isOfPage: true, stayMs: NOTES_MS });
    return parsed;
  }

  /**
   * Send a file or a web address to the studio, and return the parsed document.
   *
   * @param {Source} source
   * @param {ParserOptions} query options of the parser
   * @returns {Promise<ParsedDocument>}
   */
  async requestText({ name, file }, query) {
    const { studio } = this;
    const leave = studio.toasts.show(studio.t('importing.reading', { name }), { isOfPage: true, stayMs: READING_MS });
    try {
      const response = await api.request(`studio/documents?${new URLSearchParams(query)}`, { method: 'POST', body: file });
      return { ...(await response.json()), parseAgain: (/** @type {ParserOptions} */ choice) => this.requestText({ name, file }, { ...query, ...choice }) };
    } finally {
      leave();
    }
  }
}

/** Return a file name without its extension. @param {string} name */
function titleOf(name) {
  return name.replace(/\.[^.]*$/, '').slice(0, MAX_NAME_CHARS);
}
