/**
 * Size of the start buffer, learned from the arrival of the last takes.
 *
 * A runtime that is about as slow as the ear is late all along: that raises it at once, and the more the longer the next take
 * will be. A single chunk that was late, in one take of the last ones, is chance, and no reason to be late each time; in two of
 * them it is none. So the start is early where the runtime is fast, and late rather than torn where it is not. Takes that are
 * made beside others share the runtime with them: what they need says nothing of a take alone.
 */

import { SAMPLE_RATE } from '../common/audio.js';

// One codec frame: with a runtime faster than the ear, the first frame is enough to start.
export const MIN_TARGET = 0.08 * SAMPLE_RATE;
// Beyond this, a gap is preferable to a longer wait.
export const MAX_TARGET = 1.5 * SAMPLE_RATE;
const REMEMBERED = 5; // Takes.
const LONGER = 1.25; // A take may be this much longer than estimated from its text.
const END = 2 / 3; // Share of a take's chunks after which its end begins.

/** Chunks as they came: performance.now(), samples. @typedef {{at: number, samples: number}[]} Arrivals */

/**
 * The least sound that would have played a take without a gap, had it started as soon as that was there.
 *
 * @param {Arrivals} arrivals
 * @returns {number} samples
 */
export function neededStart(arrivals) {
  // Backwards: `latest` is the last moment at which everything from here on would still have come in time, counted
  // as if all sound before had been played by then.
  const received = [0];
  for (const { samples } of arrivals) received.push(received[received.length - 1] + samples);
  let latest = -Infinity;
  let needed = received[1] ?? 0;
  for (let i = arrivals.length - 1; i >= 0; i--) {
    const begun = arrivals[i].at;
    // To start when chunk i has come: each later chunk must come before what was received earlier has been played.
    if (latest <= begun) needed = received[i + 1];
    else break;
    latest = Math.max(latest, arrivals[i].at - (received[i] / SAMPLE_RATE) * 1000);
  }
  return needed;
}

/**
 * The least time, counted in samples, that would have had to pass between a take's first chunk and its start. It is
 * seldom a whole chunk: a second chunk that comes 5 ms late asks for these 5 ms, and not for the chunk to be there.
 *
 * @param {Arrivals} arrivals
 */
export function neededHold(arrivals) {
  return Math.max(0, ...lagsOf(arrivals));
}

/** Return each chunk's lateness in samples, relative to the end of the audio before it; negative if early. @param {Arrivals} arrivals */
function lagsOf(arrivals) {
  let received = 0;
  return arrivals.map(({ at, samples }) => {
    received += samples;
    return ((at - arrivals[0].at) / 1000) * SAMPLE_RATE - (received - samples);
  });
}

/**
 * The same take, had its one late chunk been no later than the second one.
 *
 * @param {Arrivals} arrivals @returns {Arrivals}
 */
export function withoutWorst(arrivals) {
  const late = arrivals.slice(1).map(({ at }, i) => at - arrivals[i].at - (arrivals[i].samples / SAMPLE_RATE) * 1000);
  const [worst = 0, second = 0] = [...late].sort((one, other) => other - one);
  const from = late.indexOf(worst) + 1;
  const by = Math.max(0, worst - second);
  return arrivals.map(({ at, samples }, i) => ({ at: i < from ? at : at - by, samples }));
}

/**
 * Return the buffer that a take of another length with the same arrival would have needed. A shorter one needs that of its beginning; a longer
 * one falls behind by as much more, where this one was still falling behind at its end.
 *
 * @param {Arrivals} arrivals
 * @param {number} [expected]  samples of the other one; 0: as many as this one
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
  const atItsEnd = Math.max(...lagsOf(beginning).slice(Math.floor(END * beginning.length)));
  if (received >= expected || need.hold === 0 || atItsEnd < need.hold) return need;
  return { start: (need.start * expected) / received, hold: (need.hold * expected) / received };
}

/** @typedef {{start: number, hold: number}} Need  samples */

export class Pace {
  /** Arrivals of the last takes, newest first, by the number of parallel takes. @type {Map<number, {whole: Arrivals, steady: Arrivals}[]>} */
  known = new Map();

  /** @param {Arrivals} arrivals @param {number} [company]  takes that were made at once, itself among them */
  learn(arrivals, company = 1) {
    const takes = [{ whole: arrivals, steady: withoutWorst(arrivals) }, ...(this.known.get(company) ?? [])];
    this.known.set(company, takes.slice(0, REMEMBERED));
  }

  /** Return the largest known number of parallel takes up to `company`. @param {number} company */
  nearest(company) {
    return Math.max(...[...this.known.keys()].filter((count) => count <= company));
  }

  /**
   * Return the start condition of the next take: `target` buffered samples, or `hold` samples of time since its first chunk.
   *
   * @param {{planned?: number, company?: number}} [take]  planned: samples that it will have, as far as is known; 0: it is not
   */
  plan({ planned = 0, company = 1 } = {}) {
    const takes = this.known.get(this.nearest(company)) ?? [];
    const expected = planned * LONGER;
    const whole = takes.map((take) => needOf(take.whole, expected));
    const steady = takes.map((take) => needOf(take.steady, expected));
    // The need that any of them had throughout, or two of them at some position.
    const needed = (/** @type {keyof Need} */ what) => {
      const [, twice = 0] = whole.map((need) => need[what]).sort((one, other) => other - one);
      return Math.max(twice, ...steady.map((need) => need[what]));
    };
    return { target: Math.min(MAX_TARGET, Math.max(MIN_TARGET, needed('start'))), hold: Math.min(MAX_TARGET, needed('hold')) };
  }
}
