/**
 * Change of the playback speed at constant pitch, with the WSOLA algorithm.
 *
 * Most samples are unchanged. To skip or repeat audio, the output cross-fades to the most similar position nearby.
 *
 * At a rate of 1, no sample changes. The code runs on the audio thread (worklet.js), so it allocates memory only in the
 * constructor.
 */

const HOP_S = 0.0125; // Length in seconds of a step and of a cross-fade.
const REACH_S = 0.0125; // Search range in each direction. Both together cover one period of 40 Hz.
const BUFFER_HOPS = 8;

/** Change of the playback speed at constant pitch, with the WSOLA algorithm. */
export class TimeStretch {
  end = 0; // Index of the end of the data in the buffer.
  at = 0; // Position in the buffer at which the audio would continue without a jump.
  // Distance in samples from `at` to the position that matches the speed exactly.
  lag = 0;
  // Number of samples in `out`.
  outCount = 0;
  // Number of samples of `out` that were already read.
  readCount = 0;

  /** Create a stretch without data. @param {number} rate sample rate in Hz */
  constructor(rate) {
    this.hop = Math.round(HOP_S * rate);
    this.reach = Math.round(REACH_S * rate);
    this.buffer = new Float32Array(BUFFER_HOPS * this.hop);
    this.out = new Float32Array(this.hop);
    this.fade = Float32Array.from(this.out, (_, i) => 0.5 - 0.5 * Math.cos((Math.PI * (i + 0.5)) / this.hop));
    /** Number of input samples after the current position that one step may need. */
    this.lookahead = 4 * this.hop;
  }

  clear() {
    this.end = this.at = this.lag = this.outCount = this.readCount = 0;
  }

  /** Number of samples that were appended and not read yet. */
  get bufferedSamples() {
    return this.end - this.at + this.outCount - this.readCount;
  }

  /** Number of input samples that must be appended before the next step. */
  get neededSamples() {
    return Math.max(0, this.lookahead - (this.end - this.at));
  }

  /**
   * Append input samples to the buffer.
   *
   * @param {Int16Array} pcm
   * @param {number} from index of the first sample
   * @param {number} count number of samples, at most `neededSamples`
   */
  append(pcm, from, count) {
    this.makeRoom(count);
    for (let i = 0; i < count; i++) this.buffer[this.end + i] = pcm[from + i] / 32768;
    this.end += count;
  }

  /**
   * Move the buffered samples to the start of the buffer if new samples do not fit.
   *
   * @param {number} count number of samples to add
   */
  makeRoom(count) {
    if (this.end + count <= this.buffer.length) return;
    const first = Math.max(0, this.at - 2 * this.hop - this.reach); // First sample that is still needed.
    this.buffer.copyWithin(0, first, this.end);
    this.at -= first;
    this.end -= first;
  }

  /**
   * Write output samples to `target` and return how many were written.
   *
   * @param {Float32Array} target @param {number} from index of the first sample in `target` @param {number} rate input samples per output sample @returns
   * {number} number of written samples
   */
  read(target, from, rate) {
    if (this.readCount === this.outCount) this.make(rate);
    const count = Math.min(target.length - from, this.outCount - this.readCount);
    for (let i = 0; i < count; i++) target[from + i] = this.out[this.readCount + i];
    this.readCount += count;
    return count;
  }

  /** Compute the next block of output samples. @param {number} rate input samples per output sample */
  make(rate) {
    const { buffer, out, fade, at, hop } = this;
    this.readCount = 0;
    this.outCount = Math.min(hop, this.end - at);
    if (rate === 1) this.lag = 0;
    // Jump that would match the speed exactly at the middle of this step.
    const due = this.lag + (hop * (rate - 1)) / 2;
    const step = 2 * Math.abs(due) >= hop && this.outCount === hop ? this.bestPosition(Math.round(due)) : 0;
    if (step === 0) out.set(buffer.subarray(at, at + this.outCount));
    else for (let i = 0; i < hop; i++) out[i] = buffer[at + i] * (1 - fade[i]) + buffer[at + step + i] * fade[i];
    this.at += step + this.outCount;
    this.lag += this.outCount * (rate - 1) - step;
  }

  /**
   * Return the distance to the samples that are most similar to the next samples.
   *
   * @param {number} middle expected distance in samples
   */
  bestPosition(middle) {
    const { buffer, at, hop } = this;
    const first = Math.max(middle - this.reach, -at);
    const last = Math.min(middle + this.reach, this.end - at - hop);
    let bestScore = -Infinity;
    let best = 0;
    for (let step = first; step <= last; step++) {
      let product = 0;
      let power = 1e-6;
      for (let i = 0; i < hop; i++) {
        const other = buffer[at + step + i];
        product += buffer[at + i] * other;
        power += other * other;
      }
      // The penalty prefers the expected offset if all offsets match equally well, as in silence.
      const score = product / Math.sqrt(power) - 1e-6 * Math.abs(step - middle);
      if (score > bestScore) [bestScore, best] = [score, step];
    }
    return best;
  }
}
