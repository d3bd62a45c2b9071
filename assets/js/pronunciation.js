/** The visitor's pronunciation dictionary: kept by the studio, applied to every text before it is spoken. Event: 'change'. */

import { api } from './api.js';
import { errorOf } from './errors.js';
import { pronounced } from './pronouncing.js';
import { mergedWords } from './word_list.js';

/** @typedef {import('./pronouncing.js').Entry} Entry @typedef {{words: Entry[], updated_at: number|null}} Kept */

const ROUTE = 'studio/pronunciation';

export class Pronunciation extends EventTarget {
  /** @type {Entry[]} */
  words = [];
  /** The version that this page knows; 0: there was none. */
  version = 0;
  /** What is being kept, one after another. @type {Promise<unknown>} */
  keeping = Promise.resolve();

  /** @param {Kept|null} kept null: the studio has none to give */
  constructor(kept) {
    super();
    if (kept) this.take(kept);
  }

  /** What is sent for a text; null: the text itself. @param {string} text @returns {string|null} */
  spoken(text) {
    const { text: spoken, count } = pronounced(text, this.words);
    return count > 0 ? spoken : null;
  }

  /** How many places of a text are said otherwise. @param {string} text */
  count(text) {
    return pronounced(text, this.words).count;
  }

  /** Take what the studio keeps by now; another window may have changed it. */
  async refresh() {
    this.take(await api.get(ROUTE));
  }

  /**
   * Keep a list in the place of this one. Where another window has changed it meanwhile, both are kept.
   *
   * @param {Entry[]} words @returns {Promise<boolean>} whether another window had
   * @throws {import('./api.js').StudioError} it cannot be kept
   */
  keep(words) {
    const kept = this.keeping.then(() => this.put(words));
    this.keeping = kept.catch(() => {});
    return kept;
  }

  /** @param {Entry[]} words */
  async put(words) {
    try {
      this.take(await api.put(ROUTE, { words, updated_at: this.version }));
      return false;
    } catch (error) {
      if (errorOf(error).status !== 409) throw error;
    }
    const theirs = await api.get(ROUTE);
    const merged = mergedWords(this.words, words, theirs.words);
    this.take(await api.put(ROUTE, { words: merged, updated_at: theirs.updated_at }));
    return true;
  }

  /** @param {Kept} kept */
  take({ words, updated_at }) {
    this.words = words;
    this.version = updated_at ?? 0;
    this.dispatchEvent(new Event('change'));
  }
}
