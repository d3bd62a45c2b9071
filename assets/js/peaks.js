/** The lowest and highest sample of each 10 ms of a take, kept beside it and grown with it. */

import { SAMPLE_RATE } from './wav.js';

export const BIN = SAMPLE_RATE / 100;

/** @type {WeakMap<import('./take.js').Take, Peaks>} */
const known = new WeakMap();

export class Peaks {
  /** Those of a take, brought up to its last chunk. @param {import('./take.js').Take} take */
  static of(take) {
    const peaks = known.get(take) ?? new Peaks();
    known.set(take, peaks);
    for (; peaks.chunks < take.chunks.length; peaks.chunks++) peaks.append(take.chunks[peaks.chunks]);
    return peaks;
  }

  constructor() {
    /** @type {number[]} */
    this.low = [];
    /** @type {number[]} */
    this.high = [];
    this.samples = 0;
    this.chunks = 0;
  }

  /** @param {Int16Array} pcm */
  append(pcm) {
    for (const sample of pcm) {
      const bin = Math.floor(this.samples / BIN);
      const value = sample / 32768;
      if (bin === this.low.length) {
        this.low.push(value);
        this.high.push(value);
      } else {
        if (value < this.low[bin]) this.low[bin] = value;
        if (value > this.high[bin]) this.high[bin] = value;
      }
      this.samples += 1;
    }
  }
}
