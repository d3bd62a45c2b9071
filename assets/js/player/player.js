/**
 * The page's one loudspeaker: the AudioContext's life, the way out of it, and the figures of the take that plays.
 *
 * A take is begun, fed and ended by whoever receives it; `armed` at the first gesture, so that the cost of
 * a context and a worklet (up to 0.4 s) is paid before the first sentence.
 *
 * @typedef {import('./worklet.js').Counters} Counters
 * @typedef {WorkletOutput|ScheduledOutput} Output
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { ScheduledOutput, WorkletOutput } from './outputs.js';
import { Pace } from './start_buffer.js';

/** An AudioContext that says how often its device ran dry; not every browser's does. @typedef {AudioContext & {playbackStats?: {underrunEvents: number}}} Context */

// Of the device's buffer, seconds: the shortest that there is. The browser's own choice is twice that, and is heard 20 ms later.
const SHORTEST = 0;
const USUAL = 'interactive';

export class Player extends EventTarget {
  constructor() {
    super();
    /** @type {Context|null} */
    this.context = null;
    /** The shortest latency is used only if the browser reports its cost. @type {AudioContextOptions['latencyHint']} */
    this.latency = 'playbackStats' in AudioContext.prototype ? SHORTEST : USUAL;
    /** @type {Promise<void>|null} */
    this.arming = null;
    /** @type {Output|null} */
    this.output = null;
    this.take = 0;
    this.pace = new Pace();
    /** @type {Counters|null} */
    this.counters = null;
    this.countedAt = 0; // Time on the context's clock.
    this.sounding = false; // A take has started and has neither ended nor been stopped.
    this.exact = false;
    /** @type {GainNode|null} */
    this.gain = null;
    this.loudness = 1;
    this.speed = 1;
  }

  get volume() {
    return this.loudness;
  }

  /** Volume from 0 to 1; at 1 samples are unchanged. */
  set volume(volume) {
    this.loudness = volume;
    if (this.gain) this.gain.gain.value = volume;
  }

  /** True if there is a way to another rate here; until it is known, there is. */
  get canStretch() {
    return !this.output || this.exact;
  }

  get rate() {
    return this.speed;
  }

  /** Speed from 0.75 to 2 at constant pitch; at 1 samples are unchanged. */
  set rate(rate) {
    this.speed = rate;
    this.whenArmed((output) => output.speed(rate));
  }

  /** Make the context run. Call it from a gesture; later calls only resume, or try again what failed. */
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

  /** A device that runs dry with the shortest buffer has the browser's from the next take on. */
  async relax() {
    const torn = this.context;
    if (this.sounding || this.latency !== SHORTEST || !torn?.playbackStats?.underrunEvents) return;
    const { gain, output, exact } = this;
    this.latency = USUAL;
    this.output = null; // Work started now waits for the new output.
    this.arming = this.open().catch(() => {
      Object.assign(this, { context: torn, gain, output, exact }); // No new output is available; keep the old one.
    });
    await this.arming;
    if (this.context !== torn) await torn.close();
  }

  /** Keep the order of what is asked for while the output is still being opened. @param {(output: Output) => void} action */
  whenArmed(action) {
    if (this.output) action(this.output);
    else this.arming?.then(() => this.output && action(this.output)).catch(() => {}); // The caller of arm() gets the error.
  }

  /** Start a new take; what played before is cut. Returns the take's number. @param {Parameters<Pace['plan']>[0]} [coming] what is known of it */
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

  /** Be silent now. */
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
    this.relax().catch(() => {}); // The released context is not used again, closed or not.
  }

  /** On the context's clock, seconds; 0 before there is one. */
  get now() {
    return this.context?.currentTime ?? 0;
  }

  /** Samples that have been played by now, between two reports as the clock says. */
  position() {
    if (!this.counters) return 0;
    const { state, played, buffered } = this.counters;
    if (state !== 'playing' && state !== 'draining') return played;
    const since = (this.now - this.countedAt) * SAMPLE_RATE * this.counters.rate;
    return Math.min(played + since, played + buffered);
  }

  /**
   * Return the time at which the take's first sample was played, on the clock of performance.now().
   *
   * @returns {number|null} milliseconds, or null before it has
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
