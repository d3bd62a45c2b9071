/**
 * The microphone, as samples of 24 kHz mono.
 *
 * It records at whatever rate the device has and converts once at the end: Firefox refuses to join a
 * microphone to a context of another rate.
 */

import { errorOf } from './errors.js';
import { SAMPLE_RATE, toInt16 } from './wav.js';

/** The key of a sentence why there is no microphone here, or null if there may be one. @returns {string|null} */
export function microphoneObstacle() {
  if (!window.isSecureContext) return 'clone.microphone.insecure';
  if (!navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode) return 'clone.microphone.none_for_pages';
  return null;
}

export class Recorder {
  /**
   * @param {Object} options
   * @param {number} options.maxSeconds            it stops by itself after that
   * @param {(level: number, seconds: number) => void} options.onLevel  peak in [0, 1], seconds so far
   * @param {() => void} options.onFull
   */
  constructor({ maxSeconds, onLevel, onFull }) {
    this.maxSeconds = maxSeconds;
    this.onLevel = onLevel;
    this.onFull = onFull;
    /** @type {Float32Array[]} */
    this.blocks = [];
    this.seconds = 0;
    /** @type {MediaStream|null} */
    this.stream = null;
    /** @type {AudioContext|null} */
    this.context = null;
  }

  /** Ask for the microphone; nothing is recorded yet. Rejects with the key of a sentence where it is refused. */
  async open() {
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        // A voice to clone is wanted as it is, not as a telephone call would like it.
        audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
      });
    } catch (refusal) {
      throw new Error(refusalKey(errorOf(refusal)), { cause: refusal });
    }
    this.stream = stream;
    const context = new AudioContext();
    this.context = context;
    await context.audioWorklet.addModule(new URL('./capture_worklet.js', import.meta.url));
  }

  /** Begin, with the microphone that was opened. */
  async start() {
    const { stream, context } = this;
    if (!stream || !context) throw new Error('The microphone was not opened');
    const tap = new AudioWorkletNode(context, 'voicewright-capture', {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: 'explicit',
    });
    tap.port.onmessage = ({ data }) => this.hear(data, context.sampleRate);
    context.createMediaStreamSource(stream).connect(tap);
    await context.resume();
  }

  /** @param {Float32Array} block @param {number} rate of its samples */
  hear(block, rate) {
    if (this.seconds >= this.maxSeconds) return;
    this.blocks.push(block);
    this.seconds += block.length / rate;
    this.onLevel(Math.min(1, peak(block)), this.seconds);
    if (this.seconds >= this.maxSeconds) this.onFull();
  }

  /** Give the microphone back and return what was heard, mono, 24 kHz. @returns {Promise<Int16Array>} */
  async stop() {
    const { stream, context } = this;
    if (!stream || !context) return new Int16Array(); // The recorder was never opened.
    for (const track of stream.getTracks()) track.stop();
    const rate = context.sampleRate;
    await context.close();
    const samples = await resample(join(this.blocks), rate);
    return toInt16(samples);
  }
}

/** @param {Float32Array} block */
function peak(block) {
  let highest = 0;
  for (const sample of block) highest = Math.max(highest, Math.abs(sample));
  return highest;
}

/** @param {Float32Array[]} blocks */
function join(blocks) {
  const all = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let at = 0;
  for (const block of blocks) {
    all.set(block, at);
    at += block.length;
  }
  return all;
}

/** @param {Float32Array<ArrayBuffer>} samples @param {number} rate */
async function resample(samples, rate) {
  if (samples.length === 0 || rate === SAMPLE_RATE) return samples;
  const length = Math.ceil((samples.length / rate) * SAMPLE_RATE);
  const offline = new OfflineAudioContext(1, length, SAMPLE_RATE);
  const buffer = offline.createBuffer(1, samples.length, rate);
  buffer.copyToChannel(samples, 0);
  const source = offline.createBufferSource();
  source.buffer = buffer;
  source.connect(offline.destination);
  source.start();
  return (await offline.startRendering()).getChannelData(0);
}

/** @param {Error} refusal */
function refusalKey(refusal) {
  /** @type {Object<string, string>} */
  const keys = { NotFoundError: 'clone.microphone.not_found', NotAllowedError: 'clone.microphone.refused' };
  return keys[refusal.name] ?? 'clone.microphone.busy';
}
