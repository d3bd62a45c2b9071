/**
 * AudioWorklet of the player, which plays queued PCM without gaps and counts underruns.
 *
 * States: idle -> buffering -> playing -> draining -> idle. Playback starts when `target` samples are buffered. It also
 * starts if the time since the first chunk exceeds `hold` (in samples). If the queue becomes empty before the end of the take, the
 * worklet ramps to silence, doubles `target` and buffers again. It continues earlier if no audio arrives for
 * MAX_TARGET_S. Except for these ramps, the output at a rate of 1 is exactly the received samples: int16 / 32768.
 *
 * For other rates, `TimeStretch` changes the speed. While a take is generated, a rate above 1 approaches 1 as the buffer
 * becomes empty. Therefore a faster rate causes no underrun.
 *
 *     Messages in:  {type: 'begin', take, target, hold?} {type: 'push', take, pcm: Int16Array} {type: 'end', take}
 *                   {type: 'rate', rate}: set the speed of this take and the following takes
 *                   {type: 'rest'}: count the next gap in the audio as a pause and not as an underrun
 *                   {type: 'stop'} {type: 'report', id}: send the counters now
 *     Messages out: {type: 'counters', ...Counters} ten times per second of audio, and at each change of the state.
 *
 * @typedef {Object} Counters
 * @property {number} take
 * @property {'idle'|'buffering'|'playing'|'draining'} state
 * @property {number} played            number of played samples of this take
 * @property {number} buffered          number of samples in the queue
 * @property {number} underruns         number of times that the queue was empty before more audio arrived
 * @property {number} underrunSamples   number of inserted samples of silence
 * @property {number|null} firstTime    context time in seconds at which the take's first sample was played
 * @property {number} rate              current speed
 * @property {number} target            number of buffered samples at which playback starts or restarts
 * @property {boolean} finished         true if the take was stopped or played completely
 * @property {number} [id]              id of the 'report' message
 */

import { TimeStretch } from './worklet_stretch.js';

// Length of a ramp to silence: long enough to prevent a click, too short to be heard as a fade.
const RAMP_S = 0.005;
const MAX_TARGET_S = 0.6;
const REPORT_S = 0.1;
// Number of samples that one call of `process` writes.
const QUANTUM_SAMPLES = 128;
// During generation, the speed depends on the buffered audio. It is at most 1 below `LOW_BUFFER_S`, and the chosen
// speed above `AMPLE_S`.
const LOW_BUFFER_S = 0.2;
const AMPLE_S = 0.5;

/** Audio processor that plays queued PCM without gaps and counts underruns. */
class PcmPlayer extends AudioWorkletProcessor {
  /** @type {Int16Array[]} */
  chunks = [];
  // Position in `chunks[0]` in samples.
  offset = 0;
  received = 0; // Number of received samples of this take.
  take = 0;
  target = 0;
  startTarget = 0; // Number of buffered samples that are needed to start this take.
  hold = 0;
  waited = 0; // Time in samples since the arrival of the first chunk, or of the last chunk after an underrun.
  /** @type {string} */
  state = 'idle';
  ended = false;
  finished = false;
  played = 0; // Number of played samples, with a fraction if the speed is not 1.
  last = 0;
  fadeIn = 0;
  starved = 0; // Number of silent samples since the queue became empty. They become an underrun if more audio arrives.
  isEmpty = false;
  isResting = false; // True if the queue is empty because of a pause in the text.
  underruns = 0;
  underrunSamples = 0;
  /** @type {number|null} */
  firstTime = null;
  sinceReport = 0;

  constructor() {
    super();
    this.initial = { ...this }; // Values of all fields at the start of a take.
    this.rate = 1;
    this.ramp = Math.round(RAMP_S * sampleRate);
    this.maxTarget = Math.round(MAX_TARGET_S * sampleRate);
    this.reportEvery = Math.round(REPORT_S * sampleRate);
    this.stretch = new TimeStretch(sampleRate);
    this.tail = 0; // Last value before a cut, from which the output ramps to silence.
    this.tailLeft = 0;
    this.port.onmessage = ({ data }) => this.receive(data);
  }

  /**
   * Discard the previous take and all counters.
   *
   * @param {number} take number of the next take
   * @param {number} target number of buffered samples at which it starts
   * @param {number} hold maximum delay after the first chunk, in samples
   */
  clear(take, target, hold = Infinity) {
    this.stretch.clear();
    Object.assign(this, this.initial, { take, target, startTarget: target, hold, chunks: [] });
  }

  /** Handle a message from the page. @param {any} message */
  receive(message) {
    switch (message.type) {
      case 'begin':
        this.rampToSilence();
        this.clear(message.take, message.target, message.hold);
        this.state = 'buffering';
        break;
      case 'push':
        if (message.take === this.take && !this.finished) this.push(message.pcm);
        break;
      case 'end':
        if (message.take === this.take) this.end();
        break;
      case 'rate':
        this.rate = message.rate;
        break;
      case 'rest':
        this.expectPause();
        break;
      case 'stop':
        this.stop();
        break;
      case 'report':
        this.report(message.id);
        break;
    }
  }

  /** Number of samples that were received but not played yet. */
  get buffered() {
    return this.received - Math.round(this.played);
  }

  /** True if there are samples to play. */
  get hasSound() {
    return this.chunks.length > 0 || this.stretch.bufferedSamples > 0;
  }

  /** Current speed, which is lower than the chosen speed if the buffer is nearly empty. */
  get pace() {
    if (this.rate <= 1 || this.ended) return this.rate;
    const ample = (this.buffered / sampleRate - LOW_BUFFER_S) / (AMPLE_S - LOW_BUFFER_S);
    return 1 + (this.rate - 1) * Math.max(0, Math.min(1, ample));
  }

  /** Add samples to the queue. @param {Int16Array} pcm */
  push(pcm) {
    if (pcm.length === 0) return;
    this.chunks.push(pcm);
    this.received += pcm.length;
    if (this.firstTime !== null && !this.isResting) this.waited = 0;
    if (this.isEmpty) {
      this.isEmpty = false;
      this.fadeIn = this.ramp;
      if (this.isResting) return;
      this.underruns += 1;
      this.target = Math.min(Math.max(this.target, this.ramp) * 2, this.maxTarget);
    }
  }

  /**
   * Count the current or next gap in the audio as a pause, not as an underrun.
   *
   * After the pause, playback starts under the same condition as at the beginning of a take.
   */
  expectPause() {
    this.isResting = true;
    if (this.isEmpty) this.starved = 0;
    this.waited = 0;
    this.target = this.startTarget;
  }

  end() {
    this.ended = true;
    if (this.state === 'playing') this.enter('draining');
    if (this.state === 'buffering' && !this.hasSound) this.finish();
  }

  stop() {
    if (this.state === 'idle') return;
    this.rampToSilence();
    this.chunks = [];
    this.stretch.clear();
    this.received = Math.round(this.played);
    this.finish();
  }

  /** Let the output ramp from its last value to silence, which prevents a click. */
  rampToSilence() {
    if (this.last === 0) return;
    this.tail = this.last;
    this.tailLeft = this.ramp;
    this.last = 0;
  }

  /** Change the state, and report it to the page. @param {string} state */
  enter(state) {
    this.state = state;
    this.report();
  }

  finish() {
    this.finished = true;
    this.enter('idle');
  }

  /**
   * Fill one render quantum with queued samples.
   *
   * @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs
   */
  process(_inputs, outputs) {
    const out = outputs[0][0];
    if (this.state === 'buffering') this.startIfReady();
    let done = 0;
    if (this.state === 'playing' || this.state === 'draining') done = this.render(out);
    if (done < out.length) this.silence(out, done);
    this.sinceReport += out.length;
    if (this.state !== 'idle' && this.sinceReport >= this.reportEvery) this.report();
    return true;
  }

  startIfReady() {
    if (!this.hasSound) return;
    const waited = this.waited >= (this.firstTime === null || this.isResting ? this.hold : this.maxTarget);
    this.waited += QUANTUM_SAMPLES;
    if (this.buffered < this.target && !waited && !this.ended) return;
    if (this.starved > 0) {
      this.underrunSamples += this.starved;
      this.starved = 0;
    }
    this.isResting = false;
    if (this.firstTime === null) this.firstTime = currentTime;
    this.enter(this.ended ? 'draining' : 'playing');
  }

  /** Write queued samples to the output, and return how many samples were written. @param {Float32Array} output */
  render(output) {
    const { pace } = this;
    const done = pace === 1 && this.stretch.bufferedSamples === 0 ? this.copySamples(output) : this.writeStretched(output, pace);
    this.played = this.hasSound ? Math.min(this.played + done * pace, this.received) : this.received;
    for (let i = 0; i < done && this.fadeIn > 0; i++, this.fadeIn--) {
      output[i] *= 1 - this.fadeIn / this.ramp;
    }
    if (done > 0) this.last = output[done - 1];
    return done;
  }

  /** Copy queued samples to the output without changing the speed. @param {Float32Array} output */
  copySamples(output) {
    let done = 0;
    while (done < output.length && this.chunks.length > 0) {
      const count = Math.min(output.length - done, this.chunks[0].length - this.offset);
      const chunk = this.chunks[0];
      for (let i = 0; i < count; i++) output[done + i] = chunk[this.offset + i] / 32768;
      done += count;
      this.drop(count);
    }
    return done;
  }

  /**
   * Write queued samples to the output with changed speed.
   *
   * @param {Float32Array} output @param {number} pace speed, where 1 is unchanged
   */
  writeStretched(output, pace) {
    const { stretch } = this;
    let done = 0;
    let count;
    do {
      while (stretch.neededSamples > 0 && this.chunks.length > 0) {
        const count = Math.min(stretch.neededSamples, this.chunks[0].length - this.offset);
        stretch.append(this.chunks[0], this.offset, count);
        this.drop(count);
      }
      count = stretch.read(output, done, pace);
      done += count;
    } while (count > 0 && done < output.length);
    return done;
  }

  /**
   * Remove played samples from the first chunk of the queue.
   *
   * @param {number} count number of samples, at most the length of the chunk's rest
   */
  drop(count) {
    this.offset += count;
    if (this.offset < this.chunks[0].length) return;
    this.chunks.shift();
    this.offset = 0;
  }

  /**
   * Fill the end of a block with silence, and update the state.
   *
   * @param {Float32Array} output
   * @param {number} from index of the first silent sample
   */
  silence(output, from) {
    if (this.state === 'draining') {
      this.last = 0;
      this.finish();
    } else if (this.state === 'playing') {
      this.rampToSilence();
      this.isEmpty = true;
      this.enter('buffering');
    }
    if (this.state === 'buffering' && this.played > 0 && !this.isResting) this.starved += output.length - from;
    for (let i = from; i < output.length; i++) {
      output[i] = this.tailLeft > 0 ? (this.tail * --this.tailLeft) / this.ramp : 0;
    }
  }

  /** Send the counters to the page. @param {number} [id] id of the 'report' message */
  report(id) {
    this.sinceReport = 0;
    this.port.postMessage({
      type: 'counters',
      take: this.take,
      state: this.state,
      played: Math.round(this.played),
      buffered: this.buffered,
      underruns: this.underruns,
      underrunSamples: this.underrunSamples,
      firstTime: this.firstTime,
      rate: this.pace,
      target: this.target,
      finished: this.finished,
      id,
    });
  }
}

registerProcessor('voicewright-player', PcmPlayer);
