/**
 * Two audio outputs for PCM chunks with the same methods.
 *
 * `WorkletOutput` plays on the audio thread and is bit-exact. `ScheduledOutput` is used if the page has no AudioWorklet
 * (plain HTTP from another machine), or if the audio context does not run at 24 kHz.
 *
 * @typedef {import('./worklet.js').Counters} Counters
 * @typedef {(counters: Counters) => void} CountersListener
 */

import { SAMPLE_RATE } from '../common/audio.js';

const MAX_TARGET = 0.6 * SAMPLE_RATE;
// Time between scheduling a source and its start. Without it, the first samples would be lost.
const START_DELAY_S = 0.01;

/** Audio output that plays PCM in an AudioWorklet. */
export class WorkletOutput {
  /**
   * Load the worklet and return an output that uses it.
   *
   * @param {AudioNode} target destination of the audio @param {CountersListener} onCounters
   */
  static async open(target, onCounters) {
    await target.context.audioWorklet.addModule(new URL('./worklet.js', import.meta.url));
    return new WorkletOutput(target, onCounters);
  }

  /**
   * Connect the output to a worklet that is already loaded.
   *
   * @param {AudioNode} target destination of the audio @param {CountersListener} onCounters
   */
  constructor(target, onCounters) {
    this.node = new AudioWorkletNode(target.context, 'voicewright-player', {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.node.connect(target);
    this.node.port.onmessage = ({ data }) => onCounters(data);
  }

  /**
   * Start a take: discard previous audio, and wait for samples of this take.
   *
   * @param {number} take number of the take @param {number} target number of buffered samples at which playback starts @param {number} hold maximum
   * delay after the first samples, in samples
   */
  begin(take, target, hold) {
    this.node.port.postMessage({ type: 'begin', take, target, hold });
  }

  /** Send samples of a take to the worklet. @param {number} take @param {Int16Array} pcm */
  push(take, pcm) {
    this.node.port.postMessage({ type: 'push', take, pcm });
  }

  /** Report to the worklet that it has received all samples of a take. @param {number} take */
  end(take) {
    this.node.port.postMessage({ type: 'end', take });
  }

  /** Count the next gap in the audio as a pause in the speech, not as an underrun. */
  expectPause() {
    this.node.port.postMessage({ type: 'rest' });
  }

  /** Set the playback speed, where 1 is the original speed. @param {number} rate */
  speed(rate) {
    this.node.port.postMessage({ type: 'rate', rate });
  }

  stop() {
    this.node.port.postMessage({ type: 'stop' });
  }
}

/** Values of a ScheduledOutput at the start of a take. */
const NEW_TAKE = { scheduled: 0, nextTime: 0, firstTime: null, underruns: 0, underrunSamples: 0, isEmpty: false, ended: false, finished: false };

/** Audio output that schedules buffers, for browsers without an AudioWorklet. */
export class ScheduledOutput {
  take = 0;
  target = 0; // Number of buffered samples at which playback starts.
  /** @type {Int16Array[]} */
  waiting = [];
  /** @type {Set<AudioBufferSourceNode>} */
  sources = new Set();
  scheduled = 0; // Number of samples that were passed to the audio context.
  nextTime = 0; // Time at which the scheduled samples end, by the context's clock.
  /** Context time at which the scheduled samples begin. @type {number|null} */
  firstTime = null;
  underruns = 0;
  underrunSamples = 0;
  isEmpty = false;
  ended = false;
  finished = false;

  /**
   * Create an output that plays into an audio node.
   *
   * @param {AudioNode} target destination of the audio @param {CountersListener} onCounters
   */
  constructor(target, onCounters) {
    this.sink = target;
    this.context = target.context;
    this.onCounters = onCounters;
  }

  /**
   * Start a take: stop the previous take, and wait for samples of this take.
   *
   * @param {number} take @param {number} target number of buffered samples at which playback starts
   */
  begin(take, target) {
    this.stop();
    clearInterval(this.timer);
    Object.assign(this, NEW_TAKE, { take, target, waiting: [], sources: new Set() });
    this.timer = setInterval(() => this.report(), 100);
    this.report();
  }

  /** Add samples to the queue, if they belong to the current take. @param {number} take @param {Int16Array} pcm */
  push(take, pcm) {
    if (take !== this.take || this.finished || pcm.length === 0) return;
    this.waiting.push(pcm);
    this.schedule();
  }

  /** Report that the output has received all samples of a take. @param {number} take */
  end(take) {
    if (take !== this.take) return;
    this.ended = true;
    this.schedule();
    this.report();
  }

  /** Count the next gap in the audio as a pause in the speech, not as an underrun. */
  expectPause() {
    this.isEmpty = true;
  }

  /** Do nothing, because this output cannot change the speed without changing the pitch. */
  speed() {}

  stop() {
    for (const source of this.sources) source.stop();
    this.sources.clear();
    this.waiting = [];
    if (this.take !== 0 && !this.finished) this.finish();
  }

  schedule() {
    const soonest = this.context.currentTime + START_DELAY_S;
    const isEmpty = this.nextTime < soonest;
    if (isEmpty && this.firstTime !== null && this.waiting.length > 0 && !this.isEmpty) {
      this.isEmpty = true;
      this.underruns += 1;
      this.target = Math.min(this.target * 2, MAX_TARGET);
    }
    if (isEmpty && this.count(this.waiting) < this.target && !this.ended) return;
    for (const pcm of this.waiting) this.play(pcm, soonest);
    this.waiting = [];
  }

  /**
   * Schedule samples to be played directly after the samples that are already scheduled.
   *
   * @param {Int16Array} pcm @param {number} earliest earliest context time at which the samples can start
   */
  play(pcm, earliest) {
    if (this.firstTime !== null && this.nextTime < earliest) {
      this.underrunSamples += Math.round((earliest - this.nextTime) * SAMPLE_RATE);
    }
    const at = Math.max(this.nextTime, earliest);
    const buffer = this.context.createBuffer(1, pcm.length, SAMPLE_RATE);
    const channel = buffer.getChannelData(0);
    for (let i = 0; i < pcm.length; i++) channel[i] = pcm[i] / 32768;
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.sink);
    source.onended = () => this.sources.delete(source);
    source.start(at);
    this.sources.add(source);
    this.isEmpty = false;
    this.firstTime ??= at;
    this.nextTime = at + pcm.length / SAMPLE_RATE;
    this.scheduled += pcm.length;
  }

  /** Return the total number of samples in several chunks. @param {Int16Array[]} chunks */
  count(chunks) {
    return chunks.reduce((sum, pcm) => sum + pcm.length, 0);
  }

  finish() {
    this.finished = true;
    clearInterval(this.timer);
    this.report();
  }

  report() {
    const ahead = Math.max(0, this.nextTime - this.context.currentTime) * SAMPLE_RATE;
    const queued = Math.min(this.scheduled, Math.round(ahead));
    const over = this.ended && queued === 0 && this.waiting.length === 0;
    if (over && !this.finished) return this.finish();
    const state = this.finished ? 'idle' : queued === 0 ? 'buffering' : this.ended ? 'draining' : 'playing';
    this.onCounters({
      take: this.take,
      state,
      played: this.scheduled - queued,
      buffered: queued + this.count(this.waiting),
      underruns: this.underruns,
      underrunSamples: this.underrunSamples,
      firstTime: this.firstTime,
      rate: 1,
      target: this.target,
      finished: this.finished,
    });
  }
}
