/**
 * Selection of the part of a recording that gives the best clone.
 *
 * The part has up to fifteen seconds of speech between two pauses, without coughs, hums or clipping. The functions that
 * choose the part are pure.
 */

import { FRAME_S, analyseRecording, pauses, speechSpan } from './speech_detection.js';

export const MAX_SELECTION_S = 15; // Maximum duration of a selection. The best part of a longer recording is selected.
const [MIN_PART_S, WANTED_S] = [6, 12];
const PAUSE_MARGIN_S = 0.15; // Margin around speech, because words start and end softly.
const MIN_EDGE_PAUSE_S = 0.16; // Minimum duration of a pause in which the selection may start or end.
const MIN_REMOVED_PAUSE_S = 0.8;
const SEARCH_STEP_S = 0.5; // Distance between possible edges in speech without pauses.

/** @typedef {import('./speech_detection.js').RecordingAnalysis} RecordingAnalysis @typedef {import('./speech_detection.js').TimeSpan} Stretch */

/**
 * Return the best part of a long recording, or all speech of a short recording.
 *
 * @param {RecordingAnalysis} analysis @param {number} [longest] longest speech in seconds that is returned completely
 * @returns {Stretch|null} the part, or null if there is no speech
 */
export function bestPart(analysis, longest = MAX_SELECTION_S) {
  const voiced = speechSpan(analysis);
  if (!voiced) return null;
  const { seconds } = analysis;
  const whole = { start: Math.max(0, voiced.start - PAUSE_MARGIN_S), end: Math.min(seconds, voiced.end + PAUSE_MARGIN_S) };
  if (whole.end - whole.start <= longest) return whole;
  const rate = rating(analysis);
  let best = { ...whole, score: -Infinity };
  for (const [start, end] of candidates(analysis, whole)) {
    const score = rate(start, end);
    if (score > best.score) best = { start, end, score };
  }
  return { start: best.start, end: best.end };
}

/**
 * Yield the possible parts as pairs of start and end in seconds.
 *
 * Parts start and end in pauses. Additional parts start every half second, for speech without pauses.
 *
 * @param {RecordingAnalysis} analysis
 * @param {Stretch} range
 * @returns {Generator<[number, number]>}
 */
function* candidates(analysis, range) {
  const rests = pauses(analysis, MIN_EDGE_PAUSE_S);
  const margin = (/** @type {Stretch} */ { start, end }) => Math.min(PAUSE_MARGIN_S, (end - start) / 2);
  const begins = [range.start, ...rests.map((rest) => rest.end - margin(rest))];
  const ends = [...rests.map((rest) => rest.start + margin(rest)), range.end];
  for (const start of begins) {
    for (const end of ends) if (end - start >= MIN_PART_S && end - start <= MAX_SELECTION_S) yield [start, end];
  }
  for (let start = range.start; start + WANTED_S <= range.end; start += SEARCH_STEP_S) yield [start, start + WANTED_S];
}

/**
 * Return a function that rates a part of a recording by its speech and its faults.
 *
 * A higher rating is better.
 *
 * @param {RecordingAnalysis} analysis
 * @returns {(start: number, end: number) => number}
 */
function rating(analysis) {
  const { speech, levels, clipped, bursts, hums, loud } = analysis;
  const voiced = sums(speech);
  const cut = sums(clipped);
  const soft = sums(Uint8Array.from(speech, (is, frame) => (is && levels[frame] < loud - 22 ? 1 : 0)));
  const idle = pauses(analysis, MIN_REMOVED_PAUSE_S);
  const frame = (/** @type {number} */ at) => Math.max(0, Math.min(speech.length, Math.round(at / FRAME_S)));
  return (start, end) => {
    const [from, to] = [frame(start), frame(end)];
    const length = end - start;
    const bad = shared(hums, start, end) + 0.5 * Math.max(0, shared(idle, start, end) - MIN_REMOVED_PAUSE_S);
    const coughs = bursts.filter((burst) => burst.end > start && burst.start < end).length;
    // An edge inside a word lowers the rating as much as a cough.
    const torn = [from, to].filter((edge) => speech[edge] === 1 && speech[edge - 1] === 1).length;
    return (
      (FRAME_S * (voiced[to] - voiced[from] - 0.3 * (soft[to] - soft[from]))) / Math.max(length, WANTED_S) -
      (2 * bad) / length -
      (8 * (cut[to] - cut[from]) * FRAME_S) / length -
      0.15 * Math.min(coughs, 3) -
      0.15 * torn -
      0.01 * Math.abs(length - WANTED_S)
    );
  };
}

/** Return the sum of the flags before each frame. @param {Uint8Array} flags */
function sums(flags) {
  const before = new Uint32Array(flags.length + 1);
  for (let i = 0; i < flags.length; i++) before[i + 1] = before[i] + flags[i];
  return before;
}

/**
 * Return the total duration of the spans that is within a part, in seconds.
 *
 * @param {Stretch[]} stretches
 * @param {number} start start of the part in seconds
 * @param {number} end end of the part in seconds
 */
function shared(stretches, start, end) {
  return stretches.reduce((sum, one) => sum + Math.max(0, Math.min(end, one.end) - Math.max(start, one.start)), 0);
}

/**
 * Return the coughs, hums and long pauses of a part.
 *
 * Each fault has the span of time to remove. Spans that are already removed are not returned.
 *
 * @param {RecordingAnalysis} analysis @param {{start: number, end: number, cuts: Stretch[]}} part
 * @returns {{code: 'cough'|'hum'|'pause', at: number, seconds: number, out: Stretch}[]} faults in order of time
 */
export function faultsOf(analysis, { start, end, cuts }) {
  const isIn = (/** @type {Stretch} */ one) => one.end > start + 0.02 && one.start < end - 0.02;
  const isLeft = (/** @type {Stretch} */ one) => cuts.some((cut) => cut.start < one.end && one.start < cut.end);
  const found = [];
  for (const [code, stretches] of /** @type {['cough'|'hum', Stretch[]][]} */ ([['cough', analysis.bursts], ['hum', analysis.hums]])) {
    for (const one of stretches) if (isIn(one) && !isLeft(one)) found.push({ code, at: one.start, seconds: one.end - one.start, out: padded(one) });
  }
  const within = (/** @type {Stretch} */ one) => ({ start: Math.max(start, one.start), end: Math.min(end, one.end) });
  const silent = pauses(analysis, MIN_REMOVED_PAUSE_S).map(within).filter((one) => one.end - one.start >= MIN_REMOVED_PAUSE_S && !isLeft(one));
  for (const one of silent) {
    // An overlapping fault is already reported.
    if (found.some(({ out }) => out.start < one.end && one.start < out.end)) continue;
    const out = { start: one.start + 0.2, end: one.end - 0.2 };
    found.push({ code: /** @type {'pause'} */ ('pause'), at: one.start, seconds: one.end - one.start, out });
  }
  return found.sort((one, other) => one.at - other.at);
}

/** Extend a time span by 30 ms in both directions. @param {Stretch} one */
function padded({ start, end }) {
  return { start: Math.max(0, start - 0.03), end: end + 0.03 };
}

// --- Selection of the suggested part and removal of faults, both with undo.

const MAX_RECORDING_S = 20; // Maximum duration of a recording, in which even a slow reader can read the suggested text.
const MIN_REPORTED_SILENCE_S = 0.3;
// Maximum distance between a fault and an edge of the selection at which the edge is moved past the fault. Other faults
// are cut out.
const AT_EDGE_S = 0.6;

/** @typedef {ReturnType<typeof faultsOf>[number]} Fault @typedef {import('./reference.js').Reference} Reference */

/** Selection of the part of a recording that the runtime receives as reference audio. */
export class PartSelector {
  /**
   * Create a selector without a recording.
   *
   * @param {import('../app/studio.js').Studio} studio @param {() => void} onChanged called when the selection changes
   */
  constructor(studio, onChanged) {
    this.studio = studio;
    this.onChanged = onChanged;
    this.analyse(null);
  }

  /** Analyse another recording and find its best part. @param {Reference|null} reference */
  analyse(reference) {
    this.reference = reference;
    this.analysis = reference?.pcm?.length ? analyseRecording(reference.pcm) : null;
    this.best = this.analysis && bestPart(this.analysis, reference?.source === 'recording' ? MAX_RECORDING_S : MAX_SELECTION_S);
  }

  /** True if the recording is so long that only its best part is suggested. */
  get isLong() {
    return Boolean(this.best && this.reference && this.reference.seconds > MAX_SELECTION_S);
  }

  get bestSeconds() {
    return this.best ? this.best.end - this.best.start : 0;
  }

  /** Select the suggested part, and offer undo. @returns {boolean} true if speech was excluded */
  selectBest() {
    const { best, reference, studio } = this;
    if (!best || !reference || reference.seconds - this.bestSeconds < MIN_REPORTED_SILENCE_S) return false;
    const isPart = this.isPart(best);
    const sentence = isPart
      ? studio.t('clone.chosen', { all: Math.round(reference.seconds), s: Math.round(this.bestSeconds) })
      : studio.t('clone.trimmed', { s: (reference.seconds - this.bestSeconds).toFixed(1) });
    this.undoable(sentence, () => reference.select(best));
    return isPart;
  }

  /** Return true if there is speech outside a part. @param {{start: number, end: number}} part */
  isPart({ start, end }) {
    const isOutside = (/** @type {number} */ at) => at < start || at >= end;
    return Boolean(this.analysis?.speech.some((is, frame) => is === 1 && isOutside(frame * FRAME_S)));
  }

  chooseBest() {
    const { best, reference, studio } = this;
    if (!best || !reference) return;
    this.undoable(studio.t('clone.best_chosen', { s: Math.round(this.bestSeconds) }), () => reference.select(best));
  }

  /** Return the faults of the current selection. @returns {Fault[]} */
  faults() {
    return this.analysis && this.reference ? faultsOf(this.analysis, this.reference.selection) : [];
  }

  /**
   * Remove faults from the selection, and offer undo.
   *
   * @param {Fault[]} faults @param {string} sentence text of the toast
   */
  leaveOut(faults, sentence) {
    this.undoable(sentence, () => {
      for (const { out } of faults) this.cut(out);
    });
  }

  /** Remove a time span from the selection. @param {import('./speech_detection.js').TimeSpan} span */
  cut(span) {
    const { reference } = this;
    if (!reference) return;
    const { start, end, cuts } = reference.selection;
    if (span.start - start < AT_EDGE_S && end - span.end > 1) reference.select({ start: span.end, end, cuts });
    else if (end - span.end < AT_EDGE_S && span.start - start > 1) reference.select({ start, end: span.start, cuts });
    else reference.cutOut(span);
  }

  /** Run an action that changes the selection, and offer undo. @param {string} sentence @param {() => void} action */
  undoable(sentence, action) {
    if (!this.reference) return;
    const before = this.reference.selection;
    action();
    this.onChanged();
    this.offerUndo(before, sentence);
  }

  /** Offer to restore a selection. @param {import('./reference.js').Reference['selection']} before @param {string} sentence */
  offerUndo(before, sentence) {
    const { reference, studio } = this;
    const back = () => {
      if (!reference || this.reference !== reference) return;
      reference.select(before);
      this.onChanged();
    };
    studio.undo.offer(back, sentence);
  }
}
