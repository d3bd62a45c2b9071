/** Transcript of a recording, typed or recognised, and the comparison of both texts. */

import { createElement } from '../common/elements.js';
import { api, errorOf } from '../common/api.js';
import { errorSentence } from '../common/server_messages.js';
import { MISMATCH } from './audio_checks.js';

// --- Similarity of texts, used to detect a transcript in the wrong field. All functions are pure.

const ALIKE = 0.75;
const MIN_COMPARED_LETTERS = 8;

/**
 * Return true if two texts have most pairs of adjacent letters in common.
 *
 * @param {string} first @param {string} second
 */
export function areSimilar(first, second) {
  const [a, b] = [first, second].map(letters);
  if (Math.min(a.length, b.length) < MIN_COMPARED_LETTERS) return a === b && a.length > 0;
  const [ours, theirs] = [pairs(a), pairs(b)];
  let shared = 0;
  for (const [pair, count] of ours) shared += Math.min(count, theirs.get(pair) ?? 0);
  return (2 * shared) / (a.length + b.length - 2) >= ALIKE;
}

/** Return the letters and digits of a text in lower case. @param {string} text */
function letters(text) {
  return text.normalize('NFKC').toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
}

/** Count the pairs of adjacent letters in a text, by pair. @param {string} text @returns {Map<string, number>} */
function pairs(text) {
  const found = new Map();
  for (let i = 0; i + 1 < text.length; i++) {
    const pair = text.slice(i, i + 2);
    found.set(pair, (found.get(pair) ?? 0) + 1);
  }
  return found;
}

// --- Comparison of a transcript with the result of speech recognition. All functions are pure.

/**
 * Compare the words of a transcript with the words that speech recognition has found.
 *
 * @param {string} expected @param {string} recognised @param {string} [language] language of the page, for word boundaries
 * @returns {{words: {word: string, heard: boolean}[], heard: number, extra: string[]}} extra: words that are only in the recognised text
 */
export function compareWords(expected, recognised, language) {
  const [ours, theirs] = [expected, recognised].map((text) => wordsOf(text, language));
  // Longest common subsequence: number of matching words in the rest of both texts, for each pair of positions.
  const isSame = (/** @type {number} */ i, /** @type {number} */ k) => normalised(ours[i]) === normalised(theirs[k] ?? '');
  const fits = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i--) {
    for (let k = theirs.length - 1; k >= 0; k--) {
      fits[i][k] = isSame(i, k) ? fits[i + 1][k + 1] + 1 : Math.max(fits[i + 1][k], fits[i][k + 1]);
    }
  }
  /** @type {string[]} */
  const extra = [];
  let k = 0;
  const words = ours.map((word, i) => {
    while (k < theirs.length && !isSame(i, k) && fits[i][k + 1] === fits[i][k]) extra.push(theirs[k++]);
    const heard = isSame(i, k);
    if (heard) k++;
    return { word, heard };
  });
  return { words, heard: fits[0][0], extra: [...extra, ...theirs.slice(k)] };
}

/** Return the words of a text, without spaces and punctuation. @param {string} text @param {string} [language] */
function wordsOf(text, language) {
  return [...new Intl.Segmenter(language, { granularity: 'word' }).segment(text)].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment);
}

/** Return a word in lower case and in the Unicode form NFKC, for comparisons. @param {string} word */
function normalised(word) {
  return word.normalize('NFKC').toLowerCase();
}

// --- The transcript field, with speech recognition and its comparison.

const PATH = 'studio/transcribe';
const POLL_MS = 1000;
const MAX_LISTED_WORDS = 3; // Maximum number of differing words in a message.
// Minimum fraction of the words of a correct transcript that are in the recognised text. The recogniser makes errors.
const MIN_COMMON_SHARE = 0.75;

/** Transcript field of a recording, with speech recognition and a comparison. */
export class Transcript {
  /**
   * Create the transcript from the elements of the Clone room.
   *
   * @param {HTMLElement} root panel of the room
   * @param {import('../app/studio.js').Studio} studio
   * @param {() => void} onChanged
   */
  constructor(root, studio, onChanged) {
    const find = (/** @type {string} */ name) => /** @type {HTMLElement} */ (root.querySelector(`#vw-clone-${name}`));
    this.studio = studio;
    this.onChanged = onChanged;
    this.field = /** @type {HTMLTextAreaElement} */ (find('transcript'));
    this.button = /** @type {HTMLButtonElement} */ (find('transcribe'));
    this.note = find('asr');
    this.how = find('asr-how');
    this.match = find('heard');
    this.model = find('model');
    /**
     * Last result of speech recognition, and the selection to which it belongs.
     *
     * @type {{text: string, selection: string}|null}
     */
    this.result = null;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    this.field.oninput = () => {
      this.showNote('');
      this.paint();
      onChanged();
    };
    this.button.onclick = () => this.transcribe();
    /** @type {HTMLElement} */ (this.model.firstElementChild).onclick = () => this.requestModel(this.feature.model?.state === 'fetching' ? 'DELETE' : 'POST');
  }

  get room() {
    return /** @type {import('./room.js').CloneRoom} */ (this.studio.room('clone'));
  }

  /** @returns {NonNullable<import('../app/preferences.js').Features['transcribe']>} */
  get feature() {
    return this.studio.me.features.transcribe ?? { available: false, how: '', model: null };
  }

  /** Recognised text of the selected part, or null if there is none yet. */
  get recognised() {
    return this.result && this.result.selection === this.selection ? this.result.text : null;
  }

  get selection() {
    return JSON.stringify(this.room.reference?.selection);
  }

  clear() {
    this.field.value = '';
    this.result = null;
    this.showNote('');
    this.paint();
  }

  /** Show a note below the transcript, or hide the note if the sentence is empty. @param {string} sentence */
  showNote(sentence) {
    this.note.hidden = !sentence;
    this.note.textContent = sentence;
  }

  /**
   * Fill in a transcript, with a note about its source.
   *
   * @param {string} text @param {string} note sentence about the source of the text
   */
  fillIn(text, note) {
    this.field.value = text;
    this.showNote(note);
    this.paint();
    this.onChanged();
  }

  /**
   * Return a sentence that says if the transcript matches the recording.
   *
   * If the recording was not transcribed yet, the result is the transcript itself.
   */
  summary() {
    const { heard, words } = this.compared();
    if (words.length === 0) return this.field.value.trim();
    return this.matches ? this.studio.t('clone.heard', { n: heard, all: words.length }) : this.studio.t(MISMATCH);
  }

  /** True if speech recognition has transcribed the selected part. */
  get isTranscribed() {
    return this.compared().words.length > 0;
  }

  /** True if the recognised text and the transcript agree on most words. */
  get matches() {
    const { heard, words, extra } = this.compared();
    return heard >= MIN_COMMON_SHARE * Math.max(words.length, heard + extra.length);
  }

  compared() {
    const written = this.field.value.trim();
    const { recognised } = this;
    if (recognised === null || !written) return { heard: 0, words: [], extra: [] };
    return compareWords(written, recognised, this.studio.words.language);
  }

  paint() {
    const { studio, match } = this;
    const { available, how } = this.feature;
    this.paintModel();
    this.button.hidden = !available;
    this.button.textContent = studio.t(this.field.value.trim() ? 'clone.check_words' : 'clone.transcribe');
    this.how.hidden = available || !how; // The server sends instructions to the host only.
    const { heard, words, extra } = this.compared();
    match.hidden = words.length === 0;
    if (match.hidden) return;
    const missing = words.filter((one) => !one.heard).map(({ word }) => word);
    const said = studio.t('clone.heard', { n: heard, all: words.length });
    const [bar, sentence] = /** @type {HTMLElement[]} */ ([...match.children]);
    bar.ariaLabel = said;
    bar.replaceChildren(...words.map((one) => createElement('i', { className: one.heard ? '' : 'vw-not' })));
    const { matches } = this;
    const strong = createElement('b', { textContent: matches ? `${said}.` : studio.t(MISMATCH) });
    sentence.classList.toggle('vw-clone-advice', !matches);
    sentence.replaceChildren(strong, this.wordsSentence('clone.only_heard', matches ? [] : extra), this.wordsSentence('clone.not_heard', missing));
  }

  /**
   * Return a sentence that quotes some words, or '' if there are no words.
   *
   * @param {string} key @param {string[]} words
   */
  wordsSentence(key, words) {
    if (words.length === 0) return '';
    const quoted = words.slice(0, MAX_LISTED_WORDS).map((word) => this.studio.t('clone.quoted', { word }));
    return ` ${this.studio.t(key, { words: quoted.join(', ') + (words.length > MAX_LISTED_WORDS ? ' …' : '') })}`;
  }

  /** Show the download of the speech recognition model, which only the host can start. */
  paintModel() {
    const { state = 'here', got = 0, of = 1 } = this.feature.model ?? {};
    const isFetching = state === 'fetching';
    this.model.hidden = state === 'here';
    const [button, bar, note] = /** @type {[HTMLElement, HTMLProgressElement, HTMLElement]} */ (/** @type {unknown} */ (this.model.children));
    const [mb, all] = [got, of].map((bytes) => Math.round(bytes / 1e6));
    button.textContent = this.studio.t(isFetching ? 'real_voices.stop' : 'clone.get_model', { all });
    bar.hidden = !isFetching;
    bar.value = of ? got / of : 0; // Recognisers of plug-ins do not report the size of their model.
    note.textContent = this.studio.t(isFetching ? 'clone.model_got' : 'clone.model_hint', { mb, all });
    if (isFetching) this.timer ??= setTimeout(() => this.requestModel(), POLL_MS);
  }

  /**
   * Start or stop the download of the speech recognition model, or poll its state.
   *
   * When the download is complete, the recording is transcribed.
   *
   * @param {'GET'|'POST'|'DELETE'} [method] POST to start, DELETE to stop, GET to poll
   */
  async requestModel(method = 'GET') {
    const { room, studio } = this;
    const before = this.feature.model?.state;
    if (method === 'POST') room.showError('ref_text', '');
    try {
      studio.me.features.transcribe = await api.asHost(studio.realVoices.key, `${PATH}/model`, { method });
    } catch (error) {
      room.showError('ref_text', errorOf(error).message);
    }
    clearTimeout(this.timer);
    this.timer = undefined;
    this.paint();
    const { state, problem } = this.feature.model ?? {};
    if (before !== 'fetching' || state === before) return;
    if (problem) room.showError('ref_text', errorSentence(problem));
    if (state === 'here') this.transcribe();
  }

  /** Compare an accepted transcript with the recording, if speech recognition is available. */
  check() {
    if (this.feature.available && this.recognised === null && !this.button.disabled) this.transcribe(true);
  }

  /**
   * Transcribe the recording with speech recognition.
   *
   * An existing transcript is not replaced, but compared with the result.
   *
   * @param {boolean} [isQuiet] true to show no error
   */
  async transcribe(isQuiet = false) {
    const { studio, button, room, selection } = this;
    const { reference } = room;
    if (!reference) return;
    room.showError('ref_text', '');
    button.disabled = true;
    this.showNote(studio.t('clone.transcribing'));
    try {
      const path = `${PATH}?language=${encodeURIComponent(room.language.value)}`;
      const answer = await api.blob(path, { method: 'POST', body: reference.sent() });
      const { text, by } = JSON.parse(await answer.text());
      if (reference !== room.reference || selection !== this.selection) return this.showNote('');
      this.useResult(text, by);
      room.view.paintSteps();
    } catch (error) {
      this.showNote('');
      if (!isQuiet) room.showError('ref_text', errorOf(error).message);
    } finally {
      button.disabled = false;
    }
  }

  /**
   * Use the result of speech recognition as the transcript, or compare both texts.
   *
   * @param {string} text @param {string} recogniser
   */
  useResult(text, recogniser) {
    const { studio, selection } = this;
    this.result = text ? { text, selection } : null;
    if (!text) return this.showNote(studio.t('clone.nothing_heard', { by: recogniser }));
    if (this.field.value.trim()) this.showNote('');
    else return this.fillIn(text, studio.t('clone.transcribed', { by: recogniser }));
    this.paint();
  }
}
