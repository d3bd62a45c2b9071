/** Sentences on what went wrong, each at the field that it is about. */

import { all } from './elements.js';

/** Names of the wire under which an error stands in a room, by the name that the server gives. @type {Object<string, string>} */
const PLACE = { input: 'text', speaker: 'voice', instruct: 'instructions' };

export class Complaints {
  /** What holds only for as long as the runtime is away, by its place; and what is said there once it is back. @type {Map<HTMLElement, {sentence: string, then: string}>} */
  awaiting = new Map();
  /** What is said since it is back, by its place: not true any more where it goes away again. @type {Map<HTMLElement, string>} */
  since = new Map();

  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.page = page;
    this.studio = studio;
  }

  /**
   * Show a sentence at its place: an element, or the name of a field; at the Speak row where the room has no such place.
   *
   * @param {HTMLElement|string} place @param {Error|string} error @param {string} [room] id; the current one
   * @returns {HTMLElement|null} where it stands; null: on a toast, or nowhere
   */
  say(place, error, room = this.studio.current?.id) {
    const sentence = typeof error === 'string' ? error : error.message;
    const holder = place instanceof HTMLElement ? place : this.holder(place, room);
    if (!holder) {
      if (sentence) this.studio.toast(sentence);
      return null;
    }
    holder.textContent = sentence;
    if (sentence && holder !== place) holder.closest('details')?.setAttribute('open', '');
    return holder;
  }

  /**
   * The same of a runtime that is away: once it is back another sentence takes its place, or none.
   *
   * @param {HTMLElement|string} place @param {Error|string} error @param {string} then @param {string} [room]
   */
  sayUntilBack(place, error, then, room) {
    const holder = this.say(place, error, room);
    if (holder) this.awaiting.set(holder, { sentence: holder.textContent ?? '', then });
  }

  /** The runtime is back. */
  back() {
    for (const [holder, { sentence, then }] of this.awaiting) {
      if (holder.textContent !== sentence) continue;
      holder.textContent = then;
      this.since.set(holder, then);
    }
    this.awaiting.clear();
  }

  /** The runtime is away, perhaps again. */
  away() {
    for (const [holder, then] of this.since) if (holder.textContent === then) holder.textContent = '';
    this.since.clear();
  }

  /** @param {string} place @param {string|undefined} room @returns {HTMLElement|null} */
  holder(place, room) {
    const { current, dock } = this.studio;
    if (!current || room !== current.id) return null;
    const find = (/** @type {string} */ field) => [current.root, dock.root].flatMap((root) => all(root, `[data-error-for="${CSS.escape(field)}"]`));
    return [...find(PLACE[place] ?? place), ...find('request')][0] ?? null;
  }

  /** Take back what was said of a field, since something else is written there now. @param {HTMLElement} field */
  mended(field) {
    for (let around = field.parentElement; around && around !== this.page; around = around.parentElement) {
      const places = around.querySelectorAll(':scope > [data-error-for]');
      for (const place of places) place.textContent = '';
      if (places.length > 0) return;
    }
  }

  clear() {
    for (const place of this.page.querySelectorAll('[data-error-for]')) place.textContent = '';
  }
}
