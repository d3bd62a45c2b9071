/**
 * The page's player: AudioContext, output, and counters of the playing take.
 *
 * The receiver of a take calls `begin`, `push` and `end`. `arm` is called at the first gesture, because creating a
 * context and a worklet takes up to 0.4 s.
 *
 * @typedef {import('./worklet.js').Counters} Counters
 * @typedef {WorkletOutput|ScheduledOutput} Output
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { ScheduledOutput, WorkletOutput } from './outputs.js';
import { Pace } from './start_buffer.js';

/**
 * An AudioContext with the number of the device's underruns, which not every browser has. @typedef {AudioContext &
 * {playbackStats?: {underrunEvents: number}}} Context
 */

// Device buffer in seconds: the shortest available. The browser's default is twice as long and starts 20 ms later.
const MIN_LATENCY = 0;
const USUAL = 'interactive';

export class Player extends EventTarget {
  constructor() {
    super();
    /** @type {Context|null} */
    this.context = null;
    /**
     * The shortest latency is used only if the browser reports underruns. @type {AudioContextOptions['latencyHint']}
     */
    this.latency = 'playbackStats' in AudioContext.prototype ? MIN_LATENCY : USUAL;
    /** @type {Promise<void>|null} */
    this.arming = null;
    /** @type {Output|null} */
    this.output = null;
    this.take = 0;
    this.pace = new Pace();
    /** @type {Counters|null} */
    this.counters = null;
    this.countedAt = 0; // Time of the last count on the context's clock.
    this.sounding = false; // True if a take has started and has not ended.
    this.exact = false;
    /** @type {GainNode|null} */
    this.gain = null;
    this.loudness = 1;
    this.speed = 1;
  }

  get volume() {
    return this.loudness;
  }

  /** Volume from 0 to 1, where 1 does not change samples. */
  set volume(volume) {
    this.loudness = volume;
    if (this.gain) this.gain.gain.value = volume;
  }

  /** True if the output can change the speed, and until the output is known. */
  get canStretch() {
    return !this.output || this.exact;
  }

  get rate() {
    return this.speed;
  }

  /** Speed from 0.75 to 2 at constant pitch, where 1 does not change samples. */
  set rate(rate) {
    this.speed = rate;
    this.whenArmed((output) => output.speed(rate));
  }

  /**
   * Start the context from a user gesture.
   *
   * Later calls resume it or retry after a failure.
   */
  async arm() {
    const arming = (this.arming ??= this.open());
    try {
      await arming;
    } catch (error) {
      if (this.arming === arming) {
        this.arming = null;
        this.context?.close().catch(() => {});
        this.context = null;
      }
      throw error;
    }
    if (this.context && this.context.state !== 'running') await this.context.resume();
  }

  async open() {
    const context = makeContext(this.latency);
    this.context = context;
    this.exact = Boolean(context.audioWorklet) && context.sampleRate === SAMPLE_RATE;
    const gain = context.createGain();
    this.gain = gain;
    gain.gain.value = this.loudness;
    const onCounters = (/** @type {Counters} */ counters) => this.count(counters);
    this.output = this.exact ? await WorkletOutput.open(gain, onCounters) : new ScheduledOutput(gain, onCounters);
    this.output.speed(this.speed);
    gain.connect(context.destination);
  }

  /**
   * Use the browser's default buffer from the next take on.
   *
   * This is called after underruns with the shortest buffer.
   */
  async relax() {
    const torn = this.context;
    if (this.sounding || this.latency !== MIN_LATENCY || !torn?.playbackStats?.underrunEvents) return;
    const { gain, output, exact } = this;
    this.latency = USUAL;
    this.output = null; // Actions from now on wait for the new output.
    this.arming = this.open().catch(() => {
      Object.assign(this, { context: torn, gain, output, exact }); // There is no new output, so the old one is kept.
    });
    await this.arming;
    if (this.context !== torn) await torn.close();
  }

  /** Run actions in order once the output is open. @param {(output: Output) => void} action */
  whenArmed(action) {
    if (this.output) action(this.output);
    // The caller of arm() handles the error.
    else this.arming?.then(() => this.output && action(this.output)).catch(() => {});
  }

  /**
   * Start a new take, cut what was played before, and return the take's number.
   *
   * @param {Parameters<Pace['plan']>[0]} [coming] known properties of the take
   */
  begin(coming) {
    this.take += 1;
    this.counters = null;
    this.sounding = true;
    const { take } = this;
    const { target, hold } = this.pace.plan(coming);
    this.whenArmed((output) => output.begin(take, target, hold));
    return take;
  }

  /** @param {number} take @param {Int16Array} pcm */
  push(take, pcm) {
    if (take === this.take) this.whenArmed((output) => output.push(take, pcm));
  }

  /** @param {number} take */
  end(take) {
    if (take === this.take) this.whenArmed((output) => output.end(take));
  }

  /** Treat the next time without audio as a pause and not as an underrun. */
  rest() {
    this.whenArmed((output) => output.rest());
  }

  /** Stop playback now. */
  stop() {
    this.sounding = false;
    this.whenArmed((output) => output.stop());
  }

  /** @param {Counters} counters */
  count(counters) {
    if (counters.take !== this.take) return;
    const finished = counters.finished && !this.counters?.finished;
    this.counters = counters;
    this.countedAt = this.now;
    if (finished) this.sounding = false;
    this.dispatchEvent(new CustomEvent('counters', { detail: counters }));
    if (!finished) return;
    this.dispatchEvent(new CustomEvent('finished', { detail: counters }));
    this.relax().catch(() => {}); // The context is not used again, even if closing it fails.
  }

  /** Time of the context in seconds, or 0 before it exists. */
  get now() {
    return this.context?.currentTime ?? 0;
  }

  /** Played samples, interpolated by the clock between two reports. */
  position() {
    if (!this.counters) return 0;
    const { state, played, buffered } = this.counters;
    if (state !== 'playing' && state !== 'draining') return played;
    const since = (this.now - this.countedAt) * SAMPLE_RATE * this.counters.rate;
    return Math.min(played + since, played + buffered);
  }

  /**
   * Return the time at which the take's first sample was played.
   *
   * The clock is that of performance.now().
   *
   * @returns {number|null} milliseconds; null before playback
   */
  audibleAt() {
    const first = this.counters?.firstTime ?? null;
    if (first === null || !this.context) return null;
    // The sample that the device plays now, including latency. Older Safari returns zeros; then use the context's time.
    const { contextTime = 0, performanceTime } = this.context.getOutputTimestamp?.() ?? {};
    if (!performanceTime) return performance.now() + (first - this.now) * 1000;
    return contextTime < first ? null : performanceTime + (first - contextTime) * 1000;
  }
}

/** @param {AudioContextOptions['latencyHint']} latencyHint @returns {Context} */
function makeContext(latencyHint) {
  try {
    return new AudioContext({ sampleRate: SAMPLE_RATE, latencyHint });
  } catch {
    return new AudioContext({ latencyHint });
  }
}
