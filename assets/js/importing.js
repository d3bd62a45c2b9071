/** Files that become text: plain text and subtitles are read here, EPUB and DOCX by the studio; of a book chapters are chosen. */

import { api } from './api.js';
import { takeDrops } from './drops.js';
import { errorOf } from './errors.js';
import { GAP_S } from './script/document.js';
import { areSubtitles, subtitlesToText } from './script/subtitles.js';

/**
 * @typedef {{title: string, text: string, isTimed?: boolean, isDocument?: boolean}} Imported  text: paragraphs between empty lines
 * @typedef {{title: string, paragraphs: string[]}} Chapter
 */

export const ACCEPTED = '.txt,.md,.srt,.vtt,.epub,.docx,text/plain';
const BY_THE_STUDIO = /\.(epub|docx?|dotx?)$/i;
const LONGEST_TITLE = 120; // characters, as the studio keeps names

export class Importing {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio @param {import('./chapter_sheet.js').ChapterSheet} sheet */
  constructor(page, studio, sheet) {
    this.studio = studio;
    this.sheet = sheet;
    const place = /** @type {HTMLElement} */ (page.querySelector('#vw-shared-text'));
    const input = /** @type {HTMLInputElement} */ (page.querySelector('#vw-text-file'));
    const button = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-text-open'));
    input.accept = ACCEPTED;
    button.onclick = () => input.click();
    input.onchange = () => {
      const [file] = input.files ?? [];
      input.value = ''; // so that choosing the same file again is a change
      this.open(file);
    };
    takeDrops(place, ([file]) => this.open(file));
  }

  /** A file's text into the shared field, or into a script where it is too long for one take or has times. @param {File|undefined} file */
  async open(file) {
    const { studio } = this;
    const read = await this.read(file, GAP_S); // what has times becomes a new script
    if (!read) return;
    if (read.isTimed || [...read.text.trim()].length > studio.facts.most) {
      return studio.go('script', { text: read.text, title: read.title, spokenBy: studio.current?.spokenBy?.() ?? null });
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
    if (!file) return null;
    const { t } = this.studio;
    try {
      const read = BY_THE_STUDIO.test(file.name) ? await this.chapters(file) : await this.plain(file, between);
      if (read && !read.text.trim()) this.studio.toast(t('importing.empty', { name: file.name }), { isOfPage: true });
      return read?.text.trim() ? read : null;
    } catch (error) {
      this.studio.toast(`${file.name}: ${errorOf(error).message}`, { isOfPage: true });
      return null;
    }
  }

  /** @param {File} file @param {number} between @returns {Promise<Imported>} */
  async plain(file, between) {
    const text = await file.text();
    if (text.includes('\0')) throw new Error(this.studio.t('importing.unknown'));
    const isTimed = areSubtitles(text);
    return { title: titleOf(file), text: isTimed ? subtitlesToText(text, between) : text, isTimed };
  }

  /** @param {File} file @returns {Promise<Imported|null>} */
  async chapters(file) {
    const { t, toast } = this.studio;
    const leave = toast.call(this.studio, t('importing.reading', { name: file.name }), { isOfPage: true });
    /** @type {{title: string, chapters: Chapter[]}} */
    let read;
    try {
      read = await (await api.ask('studio/documents', { method: 'POST', body: file })).json();
    } finally {
      leave();
    }
    const title = (read.title || titleOf(file)).slice(0, LONGEST_TITLE);
    const chosen = read.chapters.length > 1 ? await this.sheet.choose(title, read.chapters) : read.chapters;
    if (!chosen) return null;
    return { title, text: chosen.flatMap(({ paragraphs }) => paragraphs).join('\n\n'), isDocument: true };
  }
}

/** A file's name without what it ends with. @param {File} file */
function titleOf({ name }) {
  return name.replace(/\.[^.]*$/, '').slice(0, LONGEST_TITLE);
}
