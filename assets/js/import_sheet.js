/** The sheet that shows what is read in a text file, before it is taken over: its encoding, what is left out, the first lines. */

import { errorOf } from './errors.js';
import { need } from './elements.js';

/**
 * @typedef {{code: string, count: number, message: string, examples?: string[]}} Note
 * @typedef {{encoding?: string, sounds?: string}} Choice  query of POST studio/documents
 * @typedef {import('./importing.js').Found} Found
 */

const MAX_PREVIEW_LINES = 12;
const MAX_PREVIEW_CHARS = 160; // Characters shown of a line.

export class ImportSheet {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
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
    this.told = need(page, '#vw-import-told');
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
   * Show a file that has choices.
   *
   * @param {string} title @param {Found} found @param {(choice: Choice) => Promise<Found>} reread
   * @returns {Promise<Found|null>} null: it is not wanted
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

  /** Read the file again as it is chosen now. */
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
      this.told.textContent = errorOf(error).message;
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
    this.told.textContent = t('importing.paragraphs', { n: paragraphs.length });
    this.go.disabled = paragraphs.length === 0;
  }
}

/** Notes in the page's language; one that it does not know as the studio said it. @param {Note[]} notes @param {(key: string, values?: Object<string, any>) => string} t */
export function noteSentences(notes, t) {
  return notes.map(({ code, count, message, examples = [] }) => {
    const key = `importing.note.${code}`;
    const sentence = t(key, { n: count, examples: examples.join(' · ') });
    return sentence === key ? message : sentence;
  });
}

/** @param {string} text */
function row(text) {
  return Object.assign(document.createElement('li'), { textContent: text, dir: 'auto' });
}
