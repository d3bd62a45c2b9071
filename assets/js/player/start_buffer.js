/**
 * Size of the start buffer, computed from the arrival times of recent takes.
 *
 * A take is the audio of one request. If the runtime is barely faster than real time, every chunk is late. The buffer
 * then grows after one take, and it is larger for longer takes. If only single chunks of a take are late, the take is
 * treated as an outlier. The buffer grows only if this happens in two takes. On a fast runtime, playback therefore
 * starts early. On a slow runtime, it starts late but without gaps.
 *
 * Takes that are generated in parallel share the runtime, so each number of parallel takes has separate data.
 */

import { SAMPLE_RATE } from '../common/audio.js';

// Smallest start buffer: one codec frame, which suffices if generation is faster than playback.
export const MIN_TARGET = 0.08 * SAMPLE_RATE;
// Largest start buffer. A gap during playback is better than a longer wait for the start.
export const MAX_TARGET = 1.5 * SAMPLE_RATE;
const MAX_TAKES = 5; // Number of previous takes from which the start buffer is computed.
const MAX_LENGTH_RATIO = 1.25; // Maximum ratio between the length of a take and the estimate from its text.
const END_SHARE = 2 / 3; // Chunks after this fraction of a take count as its end.

/** Arrival time (performance.now()) and number of samples of each chunk. @typedef {{arrivedAt: number, samples: number}[]} Arrivals */

/**
 * Return the smallest start buffer with which playback would have had no gaps.
 *
 * @param {Arrivals} arrivals
 * @returns {number} number of samples
 */
export function neededStart(arrivals) {
  // The loop runs from the last chunk to the first. `latest` is the time before which playback must not start, because
  // otherwise a later chunk would arrive after all audio before it was played.
  const received = [0];
  for (const { samples } of arrivals) received.push(received[received.length - 1] + samples);
  let latest = -Infinity;
  let needed = received[1] ?? 0;
  for (let i = arrivals.length - 1; i >= 0; i--) {
    const begun = arrivals[i].arrivedAt;
    // Playback can start at chunk i if each later chunk arrives before all audio in front of it has been played.
    if (latest <= begun) needed = received[i + 1];
    else break;
    latest = Math.max(latest, arrivals[i].arrivedAt - (received[i] / SAMPLE_RATE) * 1000);
  }
  return needed;
}

/**
 * Return the shortest delay after the first chunk for playback without gaps.
 *
 * The result is in samples. It is usually less than a chunk: if the second chunk is 5 ms late, a delay of 5 ms is
 * enough.
 *
 * @param {Arrivals} arrivals
 */
export function neededHold(arrivals) {
  return Math.max(0, ...lagsOf(arrivals));
}

/**
 * Return the lateness of each chunk in samples.
 *
 * A chunk is late if it arrives after the end of the audio before it. The lateness of an early chunk is negative.
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
 * Return arrival times in which the largest delay is reduced to the second largest.
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
 * Estimate the start buffer for audio of another length from these arrival times.
 *
 * Shorter audio needs only the buffer for its chunks. Longer audio needs a larger buffer if the delay of the chunks was
 * still growing at the end.
 *
 * @param {Arrivals} arrivals
 * @param {number} [expected]  number of samples of the other take, or 0 for the same length
 * @returns {BufferNeed}
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

/** Minimum buffer and minimum delay before playback, in samples. @typedef {{start: number, hold: number}} BufferNeed */

export class Pace {
  /**
   * Arrivals of the last takes (newest first) by number of parallel takes.
   *
   * @type {Map<number, {whole: Arrivals, steady: Arrivals}[]>}
   */
  known = new Map();

  /**
   * Add the arrival times of a complete take, which is the audio of one request.
   *
   * @param {Arrivals} arrivals
   * @param {number} [parallel]  number of parallel takes, including this take
   */
  learn(arrivals, parallel = 1) {
    const takes = [{ whole: arrivals, steady: withoutWorst(arrivals) }, ...(this.known.get(parallel) ?? [])];
    this.known.set(parallel, takes.slice(0, MAX_TAKES));
  }

  /** Return the largest number of parallel takes with known times, up to `parallel`. @param {number} parallel */
  nearest(parallel) {
    return Math.max(...[...this.known.keys()].filter((count) => count <= parallel));
  }

  /**
   * Return how much audio must be buffered before the next playback starts.
   *
   * Playback starts when `target` samples are buffered. If this takes too long, it starts at the duration of `hold`
   * samples after the arrival of the first chunk.
   *
   * @param {{planned?: number, parallel?: number}} [take]  planned: expected number of samples, or 0 if unknown
   */
  startCondition({ planned = 0, parallel = 1 } = {}) {
    const takes = this.known.get(this.nearest(parallel)) ?? [];
    const expected = planned * MAX_LENGTH_RATIO;
    const whole = takes.map((take) => needOf(take.whole, expected));
    const steady = takes.map((take) => needOf(take.steady, expected));
    // Use the larger of two values: the largest need of a take without its worst chunk, and the second largest need of
    // a complete take.
    const needed = (/** @type {keyof BufferNeed} */ what) => {
      const [, twice = 0] = whole.map((need) => need[what]).sort((one, other) => other - one);
      return Math.max(twice, ...steady.map((need) => need[what]));
    };
    return { target: Math.min(MAX_TARGET, Math.max(MIN_TARGET, needed('start'))), hold: Math.min(MAX_TARGET, needed('hold')) };
  }
}
