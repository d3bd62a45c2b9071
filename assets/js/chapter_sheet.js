/** The sheet in which a document's chapters are chosen. */

import { need } from './elements.js';
import { MAX_LINES } from './script/document.js';
import { expectedSeconds } from './speech_rate.js';

/** @typedef {import('./importing.js').Chapter} Chapter */

const LONGEST_LINE = 600; // Characters; a longer paragraph becomes several lines (script/reading.js).
const LONGEST_BEGINNING = 60; // Characters shown of a chapter without a title.

export class ChapterSheet {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
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
   * Ask which chapters. Footnotes and endnotes are a chapter that is not chosen at first.
   *
   * @param {string} title @param {Chapter[]} chapters @returns {Promise<Chapter[]|null>} null: none of them
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
    const label = Object.assign(document.createElement('label'), { className: 'vw-check' });
    const box = Object.assign(document.createElement('input'), { type: 'checkbox', name: String(index) });
    const named = isNotes ? this.studio.t('importing.notes') : title || beginning(paragraphs[0]);
    const name = Object.assign(document.createElement('span'), { textContent: named, dir: 'auto' });
    const time = document.createElement('small');
    time.textContent = this.studio.facts.time(secondsOf(paragraphs));
    label.append(box, name, time);
    row.append(label);
    return row;
  }

  /** Tick chapters. @param {(chapter: Chapter) => boolean} isWanted */
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

  /** Say how much it is, and whether it can be taken. */
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

/** How many lines of a script chapters become. @param {Chapter[]} chapters */
function linesOf(chapters) {
  return chapters.flatMap(({ paragraphs }) => paragraphs).reduce((sum, text) => sum + Math.ceil(text.length / LONGEST_LINE), 0);
}

/** @param {string[]} paragraphs */
function secondsOf(paragraphs) {
  return expectedSeconds(paragraphs.join(' '));
}

/** @param {string} text */
function beginning(text) {
  return text.length <= LONGEST_BEGINNING ? text : `${text.slice(0, LONGEST_BEGINNING).replace(/\s+\S*$/u, '')} …`;
}
