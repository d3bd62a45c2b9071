/**
 * Audio player of the page, which plays one take at a time as its chunks arrive.
 *
 * A take is the audio of one request. The receiver of a take calls `begin`, `push` and `end`. The page calls `start` at
 * the user's first click or key press, because creating the AudioContext and the worklet takes up to 0.4 s.
 *
 * @typedef {import('./worklet.js').Counters} Counters
 * @typedef {WorkletOutput|ScheduledOutput} Output
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { ScheduledOutput, WorkletOutput } from './outputs.js';

/**
 * AudioContext with the number of device underruns, which not every browser reports. @typedef {AudioContext &
 * {playbackStats?: {underrunEvents: number}}} Context
 */

// Latency hint that requests the shortest device buffer. The default buffer is twice as long (20 ms more).
const MIN_LATENCY = 0;
const USUAL = 'interactive';

/** Audio player of the page, which plays one take at a time as its chunks arrive. */
export class Player extends EventTarget {
  constructor() {
    super();
    /** @type {Context|null} */
    this.context = null;
    /**
     * Requested buffer of the audio device.
     *
     * The shortest buffer is requested only if the browser reports underruns.
     *
     * @type {AudioContextOptions['latencyHint']}
     */
    this.latency = 'playbackStats' in AudioContext.prototype ? MIN_LATENCY : USUAL;
    /** @type {Promise<void>|null} */
    this.opening = null;
    /** @type {Output|null} */
    this.output = null;
    this.take = 0;
    this.pace = new Pace();
    /** @type {Counters|null} */
    this.counters = null;
    this.countedAt = 0; // Time of the last counters by the clock of the AudioContext.
    this.isPlaying = false; // True if a take was started and has not ended.
    this.isExact = false;
    /** @type {GainNode|null} */
    this.gain = null;
    this.loudness = 1;
    this.speed = 1;
  }

  get volume() {
    return this.loudness;
  }

  /** Volume from 0 to 1, where 1 leaves the samples unchanged. */
  set volume(volume) {
    this.loudness = volume;
    if (this.gain) this.gain.gain.value = volume;
  }

  /** True if the output can change the speed at constant pitch, or is not open yet. */
  get canStretch() {
    return !this.output || this.isExact;
  }

  get rate() {
    return this.speed;
  }

  /** Speed from 0.75 to 2 at constant pitch, where 1 leaves the samples unchanged. */
  set rate(rate) {
    this.speed = rate;
    this.whenOpen((output) => output.speed(rate));
  }

  /**
   * Open the audio output, or resume it.
   *
   * Browsers allow this only after a click or a key press. If opening failed, the next call tries again.
   */
  async start() {
    const opening = (this.opening ??= this.openOutput());
    try {
      await opening;
    } catch (error) {
      if (this.opening === opening) {
        this.opening = null;
        this.context?.close().catch(() => {});
        this.context = null;
      }
      throw error;
    }
    if (this.context && this.context.state !== 'running') await this.context.resume();
  }

  async openOutput() {
    const context = makeContext(this.latency);
    this.context = context;
    this.isExact = Boolean(context.audioWorklet) && context.sampleRate === SAMPLE_RATE;
    const gain = context.createGain();
    this.gain = gain;
    gain.gain.value = this.loudness;
    const onCounters = (/** @type {Counters} */ counters) => this.count(counters);
    this.output = this.isExact ? await WorkletOutput.open(gain, onCounters) : new ScheduledOutput(gain, onCounters);
    this.output.speed(this.speed);
    gain.connect(context.destination);
  }

  /**
   * Use the browser's default device buffer for the following takes.
   *
   * This is called after a take. It has an effect only if the shortest buffer has caused underruns.
   */
  async useDefaultBuffer() {
    const torn = this.context;
    if (this.isPlaying || this.latency !== MIN_LATENCY || !torn?.playbackStats?.underrunEvents) return;
    const { gain, output, isExact } = this;
    this.latency = USUAL;
    this.output = null; // Later actions now wait until the new output is open.
    this.opening = this.openOutput().catch(() => {
      // Restore the old output, because no new one could be opened.
      Object.assign(this, { context: torn, gain, output, isExact });
    });
    await this.opening;
    if (this.context !== torn) await torn.close();
  }

  /**
   * Run an action on the audio output, now or as soon as the output is open.
   *
   * @param {(output: Output) => void} action
   */
  whenOpen(action) {
    if (this.output) action(this.output);
    // The caller of `start` handles the error.
    else this.opening?.then(() => this.output && action(this.output)).catch(() => {});
  }

  /**
   * Stop the previous take, and start a new one.
   *
   * The result is the number of the new take, for `push` and `end`.
   *
   * @param {Parameters<Pace['startCondition']>[0]} [coming] properties of the take that are known in advance
   */
  begin(coming) {
    this.take += 1;
    this.counters = null;
    this.isPlaying = true;
    const { take } = this;
    const { target, hold } = this.pace.startCondition(coming);
    this.whenOpen((output) => output.begin(take, target, hold));
    return take;
  }

  /** Add samples to the queue, if they belong to the current take. @param {number} take @param {Int16Array} pcm */
  push(take, pcm) {
    if (take === this.take) this.whenOpen((output) => output.push(take, pcm));
  }

  /** Report that the player has received all samples of a take. @param {number} take */
  end(take) {
    if (take === this.take) this.whenOpen((output) => output.end(take));
  }

  /** Count the next gap in the audio as a pause in the speech, not as an underrun. */
  expectPause() {
    this.whenOpen((output) => output.expectPause());
  }

  /** Stop the playback immediately. */
  stop() {
    this.isPlaying = false;
    this.whenOpen((output) => output.stop());
  }

  /** Store the counters that the output reports for the current take. @param {Counters} counters */
  count(counters) {
    if (counters.take !== this.take) return;
    const finished = counters.finished && !this.counters?.finished;
    this.counters = counters;
    this.countedAt = this.now;
    if (finished) this.isPlaying = false;
    this.dispatchEvent(new CustomEvent('counters', { detail: counters }));
    if (!finished) return;
    this.dispatchEvent(new CustomEvent('finished', { detail: counters }));
    this.useDefaultBuffer().catch(() => {}); // A failure to close the old context has no effect on the new one.
  }

  /** Time of the audio context in seconds, or 0 before the context exists. */
  get now() {
    return this.context?.currentTime ?? 0;
  }

  /** Return the number of samples that were played, interpolated since the last report. */
  position() {
    if (!this.counters) return 0;
    const { state, played, buffered } = this.counters;
    if (state !== 'playing' && state !== 'draining') return played;
    const since = (this.now - this.countedAt) * SAMPLE_RATE * this.counters.rate;
    return Math.min(played + since, played + buffered);
  }

  /**
   * Return the time at which the first sample of the take was audible.
   *
   * The time is on the clock of performance.now().
   *
   * @returns {number|null} time in milliseconds, or null before playback
   */
  audibleAt() {
    const first = this.counters?.firstTime ?? null;
    if (first === null || !this.context) return null;
    // The output timestamp includes the latency of the device. Older Safari returns zeros, so the context time is used.
    const { contextTime = 0, performanceTime } = this.context.getOutputTimestamp?.() ?? {};
    if (!performanceTime) return performance.now() + (first - this.now) * 1000;
    return contextTime < first ? null : performanceTime + (first - contextTime) * 1000;
  }
}

/**
 * Create an AudioContext at 24 kHz.
 *
 * If the browser refuses, use the device's rate.
 *
 * @param {AudioContextOptions['latencyHint']} latencyHint @returns {Context}
 */
function makeContext(latencyHint) {
  try {
    return new AudioContext({ sampleRate: SAMPLE_RATE, latencyHint });
  } catch {
    return new AudioContext({ latencyHint });
  }
}

// --- Size of the start buffer, computed from the arrival times of recent takes.
//
// A take is the audio of one request. If the runtime is barely faster than real time, every chunk is late. The buffer
// then grows after one take, and it is larger for longer takes. If only single chunks of a take are late, the take is
// treated as an outlier. The buffer grows only if this happens in two takes. On a fast runtime, playback therefore
// starts early. On a slow runtime, it starts late but without gaps.
//
// Takes that are generated in parallel share the runtime, so each number of parallel takes has separate data.

// Smallest start buffer: one codec frame, which suffices if generation is faster than playback.
export const MIN_TARGET = 0.08 * SAMPLE_RATE;
// Largest start buffer. A gap during playback is better than a longer wait for the start.
export const MAX_TARGET = 1.5 * SAMPLE_RATE;
const MAX_TAKES = 5; // Number of previous takes from which the start buffer is computed.
const MAX_LENGTH_RATIO = 1.25; // Maximum ratio between the length of a take and the estimate from its text.
const END_SHARE = 2 / 3; // Fraction of the chunks after which the end of a take begins.

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
