/**
 * Change of speed at constant pitch by WSOLA.
 *
 * Most samples are unchanged, and jumps cross-fade to the most similar place nearby.
 *
 * At a rate of 1 samples are unchanged. It runs on the audio thread (worklet.js), so it allocates only in the
 * constructor.
 */

const HOP_S = 0.0125; // Length in seconds of a step and of a cross-fade.
const REACH_S = 0.0125; // Search range of the cross-fade: a period of 40 Hz in both directions together.
const BUFFER_HOPS = 8;

export class Stretch {
  end = 0; // End index of the buffer's content.
  at = 0; // Position in the buffer at which the audio continues unchanged.
  lag = 0; // Distance from `at` to the ideal position.
  outCount = 0; // Number of samples in `out`.
  readCount = 0; // Number of samples of `out` that were read.

  /** @param {number} rate samples a second */
  constructor(rate) {
    this.hop = Math.round(HOP_S * rate);
    this.reach = Math.round(REACH_S * rate);
    this.buffer = new Float32Array(BUFFER_HOPS * this.hop);
    this.out = new Float32Array(this.hop);
    this.fade = Float32Array.from(this.out, (_, i) => 0.5 - 0.5 * Math.cos((Math.PI * (i + 0.5)) / this.hop));
    /** Number of samples after the position that a hop may need. */
    this.lookahead = 4 * this.hop;
  }

  clear() {
    this.end = this.at = this.lag = this.outCount = this.readCount = 0;
  }

  /** Samples that were put in and not taken yet. */
  get ahead() {
    return this.end - this.at + this.outCount - this.readCount;
  }

  /** Number of samples that it needs now. */
  get wanted() {
    return Math.max(0, this.lookahead - (this.end - this.at));
  }

  /** @param {Int16Array} pcm @param {number} from @param {number} count at most `wanted` */
  put(pcm, from, count) {
    this.makeRoom(count);
    for (let i = 0; i < count; i++) this.buffer[this.end + i] = pcm[from + i] / 32768;
    this.end += count;
  }

  /** @param {number} count */
  makeRoom(count) {
    if (this.end + count <= this.buffer.length) return;
    const first = Math.max(0, this.at - 2 * this.hop - this.reach); // First sample that is still needed.
    this.buffer.copyWithin(0, first, this.end);
    this.at -= first;
    this.end -= first;
  }

  /**
   * Write as many samples as available.
   *
   * @param {Float32Array} target @param {number} from @param {number} rate input samples per output sample @returns
   * {number} number of samples written
   */
  take(target, from, rate) {
    if (this.readCount === this.outCount) this.make(rate);
    const count = Math.min(target.length - from, this.outCount - this.readCount);
    for (let i = 0; i < count; i++) target[from + i] = this.out[this.readCount + i];
    this.readCount += count;
    return count;
  }

  /** @param {number} rate */
  make(rate) {
    const { buffer, out, fade, at, hop } = this;
    this.readCount = 0;
    this.outCount = Math.min(hop, this.end - at);
    if (rate === 1) this.lag = 0;
    const due = this.lag + (hop * (rate - 1)) / 2; // At the middle of the current hop.
    const step = 2 * Math.abs(due) >= hop && this.outCount === hop ? this.best(Math.round(due)) : 0;
    if (step === 0) out.set(buffer.subarray(at, at + this.outCount));
    else for (let i = 0; i < hop; i++) out[i] = buffer[at + i] * (1 - fade[i]) + buffer[at + step + i] * fade[i];
    this.at += step + this.outCount;
    this.lag += this.outCount * (rate - 1) - step;
  }

  /** Return the offset to the samples most similar to the next ones, or 0. @param {number} middle expected position */
  best(middle) {
    const { buffer, at, hop } = this;
    const first = Math.max(middle - this.reach, -at);
    const last = Math.min(middle + this.reach, this.end - at - hop);
    let most = -Infinity;
    let found = 0;
    for (let step = first; step <= last; step++) {
      let alike = 0;
      let power = 1e-6;
      for (let i = 0; i < hop; i++) {
        const other = buffer[at + step + i];
        alike += buffer[at + i] * other;
        power += other * other;
      }
      // In silence, all offsets are equally good. The expected position is then used.
      const score = alike / Math.sqrt(power) - 1e-6 * Math.abs(step - middle);
      if (score > most) [most, found] = [score, step];
    }
    return found;
  }
}
