/** Files that become text: the studio reads them, chapters and encodings are chosen, and what is left out is said. */

import { api } from './api.js';
import { takeDrops } from './drops.js';
import { errorOf } from './errors.js';
import { noteSentences } from './import_sheet.js';
import { readChat } from './script/chat.js';
import { GAP_S } from './script/document.js';
import { cuesToLines } from './script/subtitles.js';

/**
 * @typedef {{title: string, paragraphs: string[], is_notes: boolean}} Chapter
 * @typedef {{title: string, chapters: Chapter[], notes: import('./import_sheet.js').Note[], encodings?: string[],
 *   cues?: import('./script/subtitles.js').Cue[]}} Found  as POST studio/documents gives it
 * @typedef {{title: string, text: string, lines?: import('./script/reading.js').ReadLine[], isDocument?: boolean}} Imported
 *   text: paragraphs between empty lines; lines: of subtitles
 */

export const ACCEPTED = '.txt,.md,.markdown,.srt,.vtt,.ass,.ssa,.ttml,.smi,.sami,.sub,.epub,.docx,.html,.htm,.xhtml,text/plain';
const IS_DOCUMENT = /\.(epub|docx?|dotx?|x?html?)$/i;
const IS_MARKDOWN = /\.(md|markdown)$/i;
const LONGEST_TITLE = 120; // Characters, as the studio stores names.
const NOTES_MS = 15_000;

export class Importing {
  /**
   * @param {HTMLElement} page @param {import('./studio.js').Studio} studio
   * @param {import('./chapter_sheet.js').ChapterSheet} chapters @param {import('./import_sheet.js').ImportSheet} sheet
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
    takeDrops(place, ([file]) => this.open(file));
  }

  /** A file's text into the shared field, or into a script where it is too long for one take, has times, or is a chat. @param {File|undefined} file */
  async open(file) {
    const { studio } = this;
    const read = await this.read(file, GAP_S); // Text with times becomes a new script.
    if (!read) return;
    if (read.lines || readChat(read.text) || [...read.text.trim()].length > studio.facts.most) {
      return studio.go('script', { text: read.text, lines: read.lines, title: read.title, spokenBy: studio.current?.spokenBy?.() ?? null });
    }
    const isOwn = studio.text.trim() !== '' && !Object.values(studio.presets.texts).includes(studio.text);
    studio.replacing(studio.current ?? studio, isOwn, () => void (studio.text = read.text));
    studio.drafts.touch();
  }

  /**
   * A file as text; what is wrong with it is said.
   *
   * @param {File|undefined} file @param {number} [between] seconds that a script puts between its lines anyway
   * @returns {Promise<Imported|null>} null: there is none, or it is not wanted
   */
  async read(file, between = 0) {
    const found = file && (await this.find(file, IS_MARKDOWN.test(file.name) ? { markdown: '1' } : {}));
    if (!file || !found) return null;
    const title = (found.title || titleOf(file)).slice(0, LONGEST_TITLE);
    const chosen = found.chapters.length > 1 ? await this.chapters.choose(title, found.chapters) : found.chapters;
    if (!chosen) return null;
    const paragraphs = chosen.flatMap((chapter) => chapter.paragraphs);
    const lines = found.cues?.length ? cuesToLines(paragraphs, found.cues, between) : undefined;
    return { title, text: paragraphs.join('\n\n'), lines, isDocument: IS_DOCUMENT.test(file.name) };
  }

  /** The text of a table or a list, every row of it. @param {File} file @returns {Promise<string|null>} as of read */
  async table(file) {
    const found = await this.find(file, { as_is: '1' });
    return found && found.chapters.flatMap(({ paragraphs }) => paragraphs).join('\n');
  }

  /**
   * Have a file read. What its user has to choose is asked, other notes and what is wrong are said.
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

/** A file's name without what it ends with. @param {File} file */
function titleOf({ name }) {
  return name.replace(/\.[^.]*$/, '').slice(0, LONGEST_TITLE);
}
