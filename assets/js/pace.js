/**
 * How much sound to have before starting, learnt from how the last takes came.
 *
 * A runtime that is about as slow as the ear is late all along: that raises it at once. A single chunk that was late, in
 * one take of the last ones, is chance, and no reason to be late each time; in two of them it is none. So the start is early
 * where the runtime is fast, and late rather than torn where it is not.
 */

import { SAMPLE_RATE } from './outputs.js';

// One codec frame: with a runtime faster than the ear, the first frame is enough to start.
export const LEAST = 0.08 * SAMPLE_RATE;
// Who waits longer than this would rather hear a gap.
export const MOST = 1.5 * SAMPLE_RATE;
const REMEMBERED = 5; // takes

/**
 * The least sound that would have played a take without a gap, had it started as soon as that was there.
 *
 * @param {{at: number, samples: number}[]} arrivals  chunks as they came: performance.now(), samples
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
 * @param {{at: number, samples: number}[]} arrivals
 */
export function neededHold(arrivals) {
  let [received, hold] = [0, 0];
  for (const { at, samples } of arrivals) {
    hold = Math.max(hold, ((at - arrivals[0].at) / 1000) * SAMPLE_RATE - received);
    received += samples;
  }
  return hold;
}

/**
 * The same take, had its one late chunk been no later than the second one.
 *
 * @param {{at: number, samples: number}[]} arrivals @returns {{at: number, samples: number}[]}
 */
export function withoutWorst(arrivals) {
  const late = arrivals.slice(1).map(({ at }, i) => at - arrivals[i].at - (arrivals[i].samples / SAMPLE_RATE) * 1000);
  const [worst = 0, second = 0] = [...late].sort((one, other) => other - one);
  const from = late.indexOf(worst) + 1;
  const by = Math.max(0, worst - second);
  return arrivals.map(({ at, samples }, i) => ({ at: i < from ? at : at - by, samples }));
}

/** @typedef {{start: number, hold: number}} Need  samples */

/** A take starts when `target` is there, or when `hold` has passed since its first chunk. */
export class Pace {
  target = LEAST;
  hold = 0;
  /** Of the last takes. @type {{whole: Need, steady: Need}[]} */
  needs = [];

  /** @param {{at: number, samples: number}[]} arrivals */
  learn(arrivals) {
    this.needs = [{ whole: needOf(arrivals), steady: needOf(withoutWorst(arrivals)) }, ...this.needs].slice(0, REMEMBERED);
    this.target = Math.min(MOST, Math.max(LEAST, this.needed('start')));
    this.hold = Math.min(MOST, this.needed('hold'));
  }

  /** What any of the last takes needed all along, or two of them at some place. @param {keyof Need} what @returns {number} samples */
  needed(what) {
    const [, twice = 0] = this.needs.map(({ whole }) => whole[what]).sort((one, other) => other - one);
    return Math.max(twice, ...this.needs.map(({ steady }) => steady[what]));
  }
}

/** @param {{at: number, samples: number}[]} arrivals @returns {Need} */
function needOf(arrivals) {
  return { start: neededStart(arrivals), hold: neededHold(arrivals) };
}
