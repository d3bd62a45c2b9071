/** The transcript of a recording: typed, or by speech recognition, and compared with it. */

import { make } from '../common/elements.js';
import { api, errorOf } from '../common/api.js';

// --- Similarity of two texts, to detect a transcript in the wrong field. Pure.

const ALIKE = 0.75;
const MIN_LETTERS = 8; // Letters; a shorter text cannot be compared.

/** @param {string} one @param {string} other */
export function areSimilar(one, other) {
  const [a, b] = [one, other].map(letters);
  if (Math.min(a.length, b.length) < MIN_LETTERS) return a === b && a.length > 0;
  const [ours, theirs] = [pairs(a), pairs(b)];
  let shared = 0;
  for (const [pair, count] of ours) shared += Math.min(count, theirs.get(pair) ?? 0);
  return (2 * shared) / (a.length + b.length - 2) >= ALIKE;
}

/** Return the letters and digits in lower case. @param {string} text */
function letters(text) {
  return text.normalize('NFKC').toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
}

/** Count the pairs of adjacent letters. @param {string} text @returns {Map<string, number>} */
function pairs(text) {
  const found = new Map();
  for (let i = 0; i + 1 < text.length; i++) {
    const pair = text.slice(i, i + 2);
    found.set(pair, (found.get(pair) ?? 0) + 1);
  }
  return found;
}

// --- Comparison of a transcript with the result of speech recognition. Pure.

/**
 * @param {string} written @param {string} heard @param {string} [language] of the page, for word boundaries
 * @returns {{words: {word: string, heard: boolean}[], heard: number}}
 */
export function wordsHeard(written, heard, language) {
  const [ours, theirs] = [written, heard].map((text) => wordsOf(text, language));
  // Longest common subsequence: matching words of the remainders from each pair on.
  const fits = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i--) {
    for (let k = theirs.length - 1; k >= 0; k--) {
      fits[i][k] = plain(ours[i]) === plain(theirs[k]) ? fits[i + 1][k + 1] + 1 : Math.max(fits[i + 1][k], fits[i][k + 1]);
    }
  }
  const words = [];
  for (let i = 0, k = 0; i < ours.length; i++) {
    while (k < theirs.length && plain(ours[i]) !== plain(theirs[k]) && fits[i][k + 1] === fits[i][k]) k++;
    const isHeard = k < theirs.length && plain(ours[i]) === plain(theirs[k]);
    if (isHeard) k++;
    words.push({ word: ours[i], heard: isHeard });
  }
  return { words, heard: fits[0][0] };
}

/** @param {string} text @param {string} [language] */
function wordsOf(text, language) {
  return [...new Intl.Segmenter(language, { granularity: 'word' }).segment(text)].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment);
}

/** @param {string} word */
function plain(word) {
  return word.normalize('NFKC').toLowerCase();
}

// --- The transcript field, with speech recognition and its comparison.

const MAX_NAMED = 3; // Words listed as not heard.
const MIN_HEARD = 0.75; // Minimum share of recognised words for a correct transcript.

export class Transcript {
  /** @param {HTMLElement} root the room's panel @param {import('../app/studio.js').Studio} studio @param {() => void} onChanged */
  constructor(root, studio, onChanged) {
    const find = (/** @type {string} */ name) => /** @type {HTMLElement} */ (root.querySelector(`#vw-clone-${name}`));
    this.studio = studio;
    this.onChanged = onChanged;
    this.field = /** @type {HTMLTextAreaElement} */ (find('transcript'));
    this.button = /** @type {HTMLButtonElement} */ (find('transcribe'));
    this.note = find('asr');
    this.how = find('asr-how');
    this.match = find('heard');
    /** Result of speech recognition; null if none was requested. @type {string|null} */
    this.heard = null;
    this.field.oninput = () => {
      this.say('');
      this.paint();
      onChanged();
    };
    this.button.onclick = () => this.writeDown();
  }

  clear() {
    this.field.value = '';
    this.heard = null;
    this.say('');
    this.paint();
  }

  /** @param {string} sentence */
  say(sentence) {
    this.note.hidden = !sentence;
    this.note.textContent = sentence;
  }

  /** @param {string} text @param {string} note about its source */
  fillIn(text, note) {
    this.field.value = text;
    this.say(note);
    this.paint();
    this.onChanged();
  }

  /** Return the start of the transcript. */
  summary() {
    const { heard, words } = this.compared();
    return words.length > 0 ? this.studio.t('clone.heard', { n: heard, all: words.length }) : this.field.value.trim();
  }

  /** True if a recogniser has transcribed the recording. */
  get isHeard() {
    return this.compared().words.length > 0;
  }

  /** True if the recogniser heard most words of the transcript; it misses some of every recording. */
  get fits() {
    const { heard, words } = this.compared();
    return heard >= MIN_HEARD * words.length;
  }

  compared() {
    const written = this.field.value.trim();
    if (this.heard === null || !written) return { heard: 0, words: [] };
    return wordsHeard(written, this.heard, this.studio.words.language);
  }

  paint() {
    const { studio, match } = this;
    const { available, how } = studio.me.features.transcribe ?? { available: false, how: '' };
    this.button.hidden = !available;
    this.button.textContent = studio.t(this.field.value.trim() ? 'clone.check_words' : 'clone.transcribe');
    this.how.hidden = available || !how; // Only the host sees the instructions.
    const { heard, words } = this.compared();
    match.hidden = words.length === 0;
    if (match.hidden) return;
    const missing = words.filter((one) => !one.heard).map(({ word }) => studio.t('clone.quoted', { word }));
    const said = studio.t('clone.heard', { n: heard, all: words.length });
    const [bar, sentence] = /** @type {HTMLElement[]} */ ([...match.children]);
    bar.ariaLabel = said;
    bar.replaceChildren(...words.map((one) => make('i', { className: one.heard ? '' : 'vw-not' })));
    const strong = document.createElement('b');
    strong.textContent = `${said}.`;
    const named = missing.slice(0, MAX_NAMED).join(', ') + (missing.length > MAX_NAMED ? ' …' : '');
    sentence.replaceChildren(strong, missing.length > 0 ? ` ${studio.t('clone.not_heard', { words: named })}` : '');
  }

  /** Transcribe the recording. An existing transcript stays and is compared with the result. */
  async writeDown() {
    const { studio, button } = this;
    const room = /** @type {import('./room.js').CloneRoom} */ (studio.room('clone'));
    const { reference } = room;
    if (!reference) return;
    room.showError('ref_text', '');
    button.disabled = true;
    this.say(studio.t('clone.transcribing'));
    try {
      const path = `studio/transcribe?language=${encodeURIComponent(room.language.value)}`;
      const answer = await api.blob(path, { method: 'POST', body: reference.sent() });
      const { text, by } = JSON.parse(await answer.text());
      if (reference !== room.reference) return;
      this.take(text, by);
    } catch (error) {
      this.say('');
      room.showError('ref_text', errorOf(error).message);
    } finally {
      button.disabled = false;
    }
  }

  /** @param {string} text @param {string} by */
  take(text, by) {
    const { studio } = this;
    this.heard = text || null;
    if (!text) return this.say(studio.t('clone.nothing_heard', { by }));
    if (this.field.value.trim()) this.say('');
    else return this.fillIn(text, studio.t('clone.transcribed', { by }));
    this.paint();
  }
}
