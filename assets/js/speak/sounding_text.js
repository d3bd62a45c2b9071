/**
 * Times at which sentences are spoken, estimated from text lengths and audio pauses.
 *
 * The models do not report the times of words. The functions are pure.
 *
 * @typedef {{from: number, to: number}} TextRange  range in characters of a text, or in seconds of audio
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { expectedSeconds, isSyllabic, sentencesIn, untagged } from '../common/text.js';
import { Take } from '../player/take.js';
import { Peaks } from '../player/waveform.js';

const CLAUSE = /(?<=[,;:—–…](?=\s)|[，；：、—…])/u;
const SPOKEN = /[\p{L}\p{N}]/u;
// Duration of a bin of `Peaks`.
const BIN_S = 0.01;
const MAX_SILENT_SHARE = 0.06; // Fraction of the loudest bin below which a bin is silent.
const MIN_PAUSE_S = 0.1;
const LONG_PAUSE_S = 0.5; // Maximum duration of a pause that is used. Longer pauses count as pauses of this duration.
const PACE_WEIGHT_S = 2; // Weight of the usual pace, in seconds of measured audio.
// Cost of the end of a sentence without a pause, and discount for a pause of LONG_PAUSE_S.
const NO_PAUSE_COST = 0.3;
const WORTH = 0.4;
const MIN_SEARCH_S = 1; // Minimum distance before and after the expected end of a clause in which pauses are searched.
const FAR = 0.25;

/**
 * Return the character ranges of the sentences of a text.
 *
 * Text without letters belongs to the sentence before it.
 *
 * @param {string} text @returns {TextRange[]}
 */
export function sentencesOf(text) {
  /** @type {TextRange[]} */
  const sentences = [];
  for (const sentence of sentencesIn(text)) {
    const last = sentences.at(-1);
    const from = last?.to ?? 0;
    if (!last || SPOKEN.test(sentence)) sentences.push({ from, to: from + sentence.length });
    else last.to += sentence.length;
  }
  return sentences;
}

/** Split a sentence into clauses, whose ends can be aligned with pauses in the audio. @param {string} sentence */
export function clausesOf(sentence) {
  return sentence.split(CLAUSE).filter((clause) => SPOKEN.test(clause));
}

/**
 * Return the time ranges of the pauses in generated audio, in seconds.
 *
 * @param {{low: number[], high: number[]}} peaks @returns {TextRange[]}
 */
export function pausesOf({ low, high }) {
  let loudest = 0;
  for (let bin = 0; bin < low.length; bin++) loudest = Math.max(loudest, high[bin] - low[bin]);
  /** @type {TextRange[]} */
  const pauses = [];
  let begun = -1;
  for (let bin = 0; bin <= low.length; bin++) {
    const isQuiet = bin < low.length && high[bin] - low[bin] < MAX_SILENT_SHARE * loudest;
    if (isQuiet && begun < 0) begun = bin;
    if (isQuiet || begun < 0) continue;
    if ((bin - begun) * BIN_S >= MIN_PAUSE_S) pauses.push({ from: begun * BIN_S, to: bin * BIN_S });
    begun = -1;
  }
  return pauses;
}

/**
 * Return the estimated start time of each clause in seconds.
 *
 * The end of a clause is aligned with the pause that fits the expected durations best.
 *
 * @param {number[]} lengths  expected duration of each clause in seconds
 * @param {TextRange[]} pauses
 * @param {number|null} total  duration of the take in seconds, or null during generation
 * @param {number} [usualPace]  known pace of the voice: actual duration divided by expected duration
 * @returns {number[]} start times in seconds
 */
export function startTimesOf(lengths, pauses, total, usualPace = 1) {
  const sum = lengths.reduce((all, length) => all + length, 0);
  if (total !== null) return startTimesForPace(lengths, pauses, total / sum);
  // The pace is unknown during generation: estimate it from a first pass with the usual pace, then compute the start
  // times again.
  const first = startTimesForPace(lengths, pauses, usualPace);
  const last = first.findLastIndex((at) => at > 0 && pauses.some(({ to }) => to === at));
  if (last < 0) return first;
  const spoken = lengths.slice(0, last).reduce((all, length) => all + length, 0);
  return startTimesForPace(lengths, pauses, (first[last] + PACE_WEIGHT_S * usualPace) / (spoken + PACE_WEIGHT_S));
}

/** @typedef {{time: number, cost: number, before: End|null}} End */

/**
 * Return the estimated start times of clauses for a given pace.
 *
 * @param {number[]} lengths
 * @param {TextRange[]} pauses
 * @param {number} pace
 * @returns {number[]}
 */
function startTimesForPace(lengths, pauses, pace) {
  /** @type {End[]} */
  let ends = [{ time: 0, cost: 0, before: null }];
  let guess = 0;
  for (const length of lengths.slice(0, -1)) {
    guess += length * pace;
    const reach = MIN_SEARCH_S + FAR * guess;
    const places = pauses.filter(({ to }) => Math.abs(to - guess) <= reach).map(({ from, to }) => ({ time: to, cost: -WORTH * Math.min(1, (to - from) / LONG_PAUSE_S) }));
    /** @type {End[]} */
    const next = [...places, { time: NaN, cost: NO_PAUSE_COST }].flatMap((place) => cheapest(ends, place, length * pace));
    ends = next.length > 0 ? next : cheapest(ends, { time: NaN, cost: NO_PAUSE_COST }, length * pace);
  }
  /** @type {End|null} */
  let end = ends.reduce((one, other) => (other.cost < one.cost ? other : one));
  const found = [];
  for (; end; end = end.before) found.unshift(end.time);
  return found;
}

/**
 * Return the best sequence of clause ends whose last end is at a given place.
 *
 * If the end is not at a pause, it is at the expected end of the clause.
 *
 * @param {End[]} ends ends of the previous clause @param {{time: number, cost: number}} place @param {number} expected duration
 * in seconds @returns {End[]} at most one end
 */
function cheapest(ends, { time, cost }, expected) {
  /** @type {End|null} */
  let best = null;
  for (const before of ends) {
    const here = Number.isNaN(time) ? before.time + expected : time;
    if (here <= before.time) continue;
    const away = Math.log((here - before.time) / expected);
    const sum = before.cost + cost + away * away * Math.min(4, 1 + expected);
    if (!best || sum < best.cost) best = { time: here, cost: sum, before };
  }
  return best ? [best] : [];
}

// --- Pace of each voice relative to the expected pace. It is learned from complete takes and used to estimate lengths.

// Minimum expected duration of a text from which the pace is learned. The pace of shorter texts varies too much.
const MIN_PACE_S = 3;
// Minimum and maximum pace that is learned. Beyond them, the text was probably not spoken correctly.
const MIN_PACE = 0.5;
const MAX_PACE = 2;

/** Speaking rates of voices, learned from complete takes. */
export class VoicePaces {
  /** Paces by mode, voice and kind of writing system. @type {Map<string, number>} */
  known = new Map();

  /** Learn the pace of a voice from a complete take. @param {SpokenTake & {seconds: number}} take a complete take */
  learn(take) {
    const text = take.sent.trim();
    const expected = expectedSeconds(text);
    // Texts with pause tags are ignored, because a requested pause would make the voice seem slower.
    if (expected < MIN_PACE_S || wordsOf(take) !== text) return;
    const pace = take.seconds / expected;
    if (pace >= MIN_PACE && pace <= MAX_PACE) this.known.set(keyOf(take), pace);
  }

  /** Return the known pace of a take's voice in this writing system, or undefined. @param {SpokenTake} take */
  paceOf(take) {
    return this.known.get(keyOf(take));
  }

  /** Return the expected number of samples for the text of a take. @param {SpokenTake} take */
  samplesOf(take) {
    return Math.round(expectedSeconds(wordsOf(take)) * (this.paceOf(take) ?? 1) * SAMPLE_RATE);
  }
}

/** @typedef {Pick<import('../player/take.js').Take, 'mode'|'config'|'sent'>} SpokenTake */

/** Return the text of a take that is spoken, without tags. @param {SpokenTake} take */
function wordsOf({ config, sent }) {
  return (config.tags ? untagged(sent) : sent).trim();
}

/** Return the key under which the pace of a take's voice is stored. @param {SpokenTake} take */
function keyOf({ mode, config, sent }) {
  return `${mode} ${config.voice ?? ''} ${isSyllabic(sent) ? 'syllables' : 'letters'}`;
}

// --- Highlight of the spoken sentence. Behind the field is an invisible copy of the text, which shows only the mark.

const SAME = /** @type {const} */ (['font', 'letterSpacing', 'wordSpacing', 'textAlign', 'direction', 'tabSize', 'paddingBlock', 'paddingInline']);
const MIN_JUMP_S = 1; // Minimum change of the position, backwards or forwards, that counts as a seek.
const SCROLL_MARGIN_PX = 40; // Distance between the edge of the field and the mark after scrolling.

/** Mark of the sentence that is being spoken, in the text field. */
export class SentenceHighlight {
  /** Index of the last marked sentence of the take, or -1. */
  index = -1;
  /**
   * Parsed text of a take: its sentences, and for each clause its sentence and duration.
   *
   * @type {{take: import('../player/take.js').Take, sentences: TextRange[], clauses: {index: number, length: number}[]}|null}
   */
  parsedText = null;
  at = 0; // Last known position in the take in seconds.
  /** Range that is shown, with the text of the field. @type {string|null} */
  shownKey = null;

  /**
   * Mark the spoken sentence in the text field whenever the playback position changes.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.field = /** @type {HTMLTextAreaElement} */ (page.querySelector('#vw-text'));
    this.mirror = /** @type {HTMLElement} */ (page.querySelector('#vw-text-mirror'));
    this.mark = document.createElement('mark');
    studio.stage.player.addEventListener('counters', () => this.follow());
    studio.stage.addEventListener('change', () => this.follow());
    this.field.addEventListener('input', () => this.follow());
    this.field.addEventListener('scroll', () => (this.mirror.scrollTop = this.field.scrollTop));
    new ResizeObserver(() => this.placeHighlight()).observe(this.field);
  }

  follow() {
    const { stage } = this.studio;
    const { take } = stage;
    const isShown = take instanceof Take && stage.isPlaying && take.room !== 'script';
    if (isShown && take === this.typed.take && this.typed.lastText === this.field.value) this.showRange(this.typedRange(take, stage.at / SAMPLE_RATE));
    else if (isShown && take.text === this.field.value) this.showRange(this.rangeAt(take, stage.at / SAMPLE_RATE));
    else this.showRange(null);
  }

  /**
   * Return the character range of the sentence that is spoken at a time.
   *
   * @param {import('../player/take.js').Take} take
   * @param {number} at time in seconds
   */
  rangeAt(take, at) {
    const { sentences, clauses } = this.textOf(take);
    const lengths = clauses.map(({ length }) => length);
    const total = take.state === 'done' ? take.seconds : null;
    const beginnings = startTimesOf(lengths, pausesOf(Peaks.of(take)), total, this.studio.paces.paceOf(take));
    const found = clauses[beginnings.findLastIndex((begun) => begun <= at)]?.index ?? sentences.length - 1;
    // Later audio may improve the estimate, but the highlight must not move backwards during playback.
    const index = at >= this.at && at - this.at < MIN_JUMP_S ? Math.max(found, this.index) : found;
    this.at = at;
    this.index = index;
    return sentences[index];
  }

  get typed() {
    return this.studio.speakRoom.typed;
  }

  /**
   * Return the character range of the typed clause that is spoken at a time, or null.
   *
   * @param {import('../player/take.js').Take} take
   * @param {number} at time in seconds
   */
  typedRange(take, at) {
    const pauses = pausesOf(Peaks.of(take));
    /** @param {number[]} lengths @param {number} start @param {number|null} total */
    const beginnings = (lengths, start, total) => {
      const later = pauses.filter(({ from }) => from > start).map(({ from, to }) => ({ from: from - start, to: to - start }));
      return startTimesOf(lengths, later, total, this.studio.paces.paceOf(take));
    };
    return this.typed.rangeAt(beginnings, at);
  }

  /** Parse the text of a take into sentences and clauses. @param {import('../player/take.js').Take} take */
  textOf(take) {
    if (this.parsedText?.take === take) return this.parsedText;
    const sentences = sentencesOf(take.text);
    const clauses = sentences.flatMap(({ from, to }, index) =>
      clausesOf(take.text.slice(from, to)).map((text) => ({ index, length: expectedSeconds(untagged(this.studio.pronunciation.spokenText(text) ?? text)) })),
    );
    this.index = -1;
    this.parsedText = { take, sentences, clauses };
    return this.parsedText;
  }

  /** Highlight a range of the text field. @param {TextRange|null} range null to remove the mark */
  showRange(range) {
    const { value } = this.field;
    const is = range && `${range.from} ${range.to} ${value}`;
    if (is === this.shownKey) return;
    this.shownKey = is;
    if (!range) return this.mirror.replaceChildren();
    const { from, to } = range;
    const words = value.slice(from, to);
    const end = from + words.trimEnd().length;
    this.mark.textContent = value.slice(from, end);
    this.mirror.replaceChildren(value.slice(0, from), this.mark, `${value.slice(end)}\n`);
    this.placeHighlight();
    reveal(this.field, this.mark);
  }

  /**
   * Give the invisible copy of the text the position and style of the text field.
   *
   * The highlight is drawn in this copy.
   */
  placeHighlight() {
    if (!this.shownKey) return;
    const { field, mirror } = this;
    const style = getComputedStyle(field);
    for (const name of SAME) mirror.style[name] = style[name];
    const { offsetTop, offsetLeft, clientWidth, clientHeight } = field;
    for (const [name, value] of Object.entries({ top: offsetTop, left: offsetLeft, width: clientWidth, height: clientHeight })) {
      mirror.style.setProperty(name, `${value}px`);
    }
    mirror.scrollTop = field.scrollTop;
  }
}

/**
 * Scroll a text field to its highlight, unless the user is typing in the field.
 *
 * @param {HTMLElement} field @param {HTMLElement} mark
 */
export function reveal(field, mark) {
  if (document.activeElement === field) return;
  const isSeen = mark.offsetTop >= field.scrollTop && mark.offsetTop + mark.offsetHeight <= field.scrollTop + field.clientHeight;
  if (!isSeen) field.scrollTo({ top: mark.offsetTop - SCROLL_MARGIN_PX, behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
}
