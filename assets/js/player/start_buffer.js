/**
 * Size of the start buffer, learned from the arrival times of the last takes.
 *
 * A runtime that is about as slow as playback delays every chunk. This raises the buffer at once, more for a longer
 * next take. A single late chunk in one take counts as chance and is ignored; late chunks in two takes are not. So
 * playback starts early on a fast runtime, and late instead of with gaps on a slow one. Parallel takes share the
 * runtime, so they are learned separately.
 */

import { SAMPLE_RATE } from '../common/audio.js';

// One codec frame, which is enough if the runtime is faster than playback.
export const MIN_TARGET = 0.08 * SAMPLE_RATE;
// Beyond this, a gap is preferable to a longer wait.
export const MAX_TARGET = 1.5 * SAMPLE_RATE;
const MAX_TAKES = 5; // Number of earlier takes that are used.
const MAX_LENGTH_RATIO = 1.25; // Maximum ratio of a take's length to the length estimated from its text.
const END_SHARE = 2 / 3; // Chunks after this fraction of a take belong to its end.

/** Arrival time (performance.now()) and samples of each chunk. @typedef {{arrivedAt: number, samples: number}[]} Arrivals */

/**
 * Return the smallest start buffer with which a take would have played without a gap.
 *
 * @param {Arrivals} arrivals
 * @returns {number} samples
 */
export function neededStart(arrivals) {
  // Backwards: `latest` is the latest start for which all later chunks arrive in time, relative to the audio before
  // them.
  const received = [0];
  for (const { samples } of arrivals) received.push(received[received.length - 1] + samples);
  let latest = -Infinity;
  let needed = received[1] ?? 0;
  for (let i = arrivals.length - 1; i >= 0; i--) {
    const begun = arrivals[i].arrivedAt;
    // Start at chunk i is possible if each later chunk arrives before the audio before it has been played.
    if (latest <= begun) needed = received[i + 1];
    else break;
    latest = Math.max(latest, arrivals[i].arrivedAt - (received[i] / SAMPLE_RATE) * 1000);
  }
  return needed;
}

/**
 * Return the shortest delay between a take's first chunk and its start, in samples.
 *
 * It is usually less than a chunk: if the second chunk is 5 ms late, a delay of 5 ms is enough.
 *
 * @param {Arrivals} arrivals
 */
export function neededHold(arrivals) {
  return Math.max(0, ...lagsOf(arrivals));
}

/**
 * Return each chunk's lateness in samples.
 *
 * It is relative to the end of the audio before the chunk, and negative if the chunk is early.
 *
 * @param {Arrivals} arrivals
 */
function lagsOf(arrivals) {
  let received = 0;
  return arrivals.map(({ arrivedAt, samples }) => {
    received += samples;
    return ((arrivedAt - arrivals[0].arrivedAt) / 1000) * SAMPLE_RATE - (received - samples);
  });
}

/**
 * Return the arrivals with the latest chunk moved to the lateness of the second latest.
 *
 * @param {Arrivals} arrivals @returns {Arrivals}
 */
export function withoutWorst(arrivals) {
  const late = arrivals.slice(1).map(({ arrivedAt }, i) => arrivedAt - arrivals[i].arrivedAt - (arrivals[i].samples / SAMPLE_RATE) * 1000);
  const [worst = 0, second = 0] = [...late].sort((one, other) => other - one);
  const from = late.indexOf(worst) + 1;
  const by = Math.max(0, worst - second);
  return arrivals.map(({ arrivedAt, samples }, i) => ({ arrivedAt: i < from ? arrivedAt : arrivedAt - by, samples }));
}

/**
 * Return the buffer for a take of another length with the same arrivals.
 *
 * A shorter take needs the buffer of its beginning. A longer take needs more if this one was still falling behind at
 * its end.
 *
 * @param {Arrivals} arrivals
 * @param {number} [expected]  samples of the other take; 0: the same length
 * @returns {Need}
 */
export function needOf(arrivals, expected = 0) {
  /** @type {Arrivals} */
  const beginning = [];
  let received = 0;
  for (const arrival of arrivals) {
    if (expected && received >= expected) break;
    beginning.push(arrival);
    received += arrival.samples;
  }
  const need = { start: neededStart(beginning), hold: neededHold(beginning) };
  const atItsEnd = Math.max(...lagsOf(beginning).slice(Math.floor(END_SHARE * beginning.length)));
  if (received >= expected || need.hold === 0 || atItsEnd < need.hold) return need;
  return { start: (need.start * expected) / received, hold: (need.hold * expected) / received };
}

/** @typedef {{start: number, hold: number}} Need  samples */

export class Pace {
  /** Arrivals of the last takes, newest first, by the number of parallel takes. @type {Map<number, {whole: Arrivals, steady: Arrivals}[]>} */
  known = new Map();

  /** @param {Arrivals} arrivals @param {number} [parallel]  number of parallel takes, including this one */
  learn(arrivals, parallel = 1) {
    const takes = [{ whole: arrivals, steady: withoutWorst(arrivals) }, ...(this.known.get(parallel) ?? [])];
    this.known.set(parallel, takes.slice(0, MAX_TAKES));
  }

  /** Return the largest known number of parallel takes up to `parallel`. @param {number} parallel */
  nearest(parallel) {
    return Math.max(...[...this.known.keys()].filter((count) => count <= parallel));
  }

  /**
   * Return the start condition of the next take.
   *
   * It is `target` buffered samples, or `hold` samples of time since its first chunk.
   *
   * @param {{planned?: number, parallel?: number}} [take]  planned: expected samples; 0: unknown
   */
  plan({ planned = 0, parallel = 1 } = {}) {
    const takes = this.known.get(this.nearest(parallel)) ?? [];
    const expected = planned * MAX_LENGTH_RATIO;
    const whole = takes.map((take) => needOf(take.whole, expected));
    const steady = takes.map((take) => needOf(take.steady, expected));
    // The need of any take without its worst chunk, or of two takes with it.
    const needed = (/** @type {keyof Need} */ what) => {
      const [, twice = 0] = whole.map((need) => need[what]).sort((one, other) => other - one);
      return Math.max(twice, ...steady.map((need) => need[what]));
    };
    return { target: Math.min(MAX_TARGET, Math.max(MIN_TARGET, needed('start'))), hold: Math.min(MAX_TARGET, needed('hold')) };
  }
}
