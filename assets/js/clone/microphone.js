/** Recorder for the microphone, which returns mono samples at 24 kHz. */

import { errorOf } from '../common/api.js';
import { SAMPLE_RATE, toInt16 } from '../common/audio.js';
import { Emitter, getElement } from '../common/elements.js';

// --- The microphone. It records at the device's sample rate and resamples at the end because Firefox does not connect a
// microphone to a context with another rate.

/** Return a message key that says why the microphone is unavailable, or null. @returns {string|null} */
export function microphoneObstacle() {
  if (!window.isSecureContext) return 'clone.microphone.insecure';
  if (!navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode) return 'clone.microphone.none_for_pages';
  return null;
}

/** Recorder for the microphone, which returns mono samples at 24 kHz. */
export class Recorder {
  /**
   * Create a recorder, which does not use the microphone yet.
   *
   * @param {Object} options
   * @param {number} options.maxSeconds            maximum duration of a recording
   * @param {(level: number, seconds: number) => void} options.onLevel  called with the peak in [0, 1] and the recorded seconds
   * @param {() => void} options.onFull
   */
  constructor({ maxSeconds, onLevel, onFull }) {
    this.maxSeconds = maxSeconds;
    this.onLevel = onLevel;
    this.onFull = onFull;
    /** @type {Float32Array<ArrayBuffer>[]} */
    this.blocks = [];
    this.seconds = 0;
    /** @type {MediaStream|null} */
    this.stream = null;
    /** @type {AudioContext|null} */
    this.context = null;
  }

  /** Ask for permission to use the microphone, without recording yet. */
  async open() {
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        // Cloning needs unprocessed audio, so the filters for calls are off.
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

  /** Start the recording after a call of `open`. */
  async start() {
    const { stream, context } = this;
    if (!stream || !context) throw new Error('The microphone was not opened');
    const tap = new AudioWorkletNode(context, 'voicewright-capture', {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: 'explicit',
    });
    tap.port.onmessage = ({ data }) => this.append(data, context.sampleRate);
    context.createMediaStreamSource(stream).connect(tap);
    await context.resume();
  }

  /**
   * Add a block of samples to the recording, up to its maximum duration.
   *
   * @param {Float32Array<ArrayBuffer>} block @param {number} rate sample rate of the block
   */
  append(block, rate) {
    if (this.seconds >= this.maxSeconds) return;
    this.blocks.push(block);
    this.seconds += block.length / rate;
    this.onLevel(Math.min(1, Math.max(...block.map(Math.abs))), this.seconds);
    if (this.seconds >= this.maxSeconds) this.onFull();
  }

  /** Release the microphone and return the recorded samples (mono, 24 kHz). @returns {Promise<Int16Array>} */
  async stop() {
    const { stream, context } = this;
    // There is no recording, because `open` was not called.
    if (!stream || !context) return new Int16Array();
    for (const track of stream.getTracks()) track.stop();
    const rate = context.sampleRate;
    await context.close();
    const samples = new Float32Array(await new Blob(this.blocks).arrayBuffer());
    return toInt16(await resample(samples, rate));
  }
}

/**
 * Resample mono samples from `rate` in Hz to 24 kHz.
 *
 * @param {Float32Array<ArrayBuffer>} samples @param {number} rate sample rate in Hz
 */
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

/** Return the message key for an error of getUserMedia. @param {Error} refusal */
function refusalKey(refusal) {
  /** @type {Object<string, string>} */
  const keys = { NotFoundError: 'clone.microphone.not_found', NotAllowedError: 'clone.microphone.refused' };
  return keys[refusal.name] ?? 'clone.microphone.busy';
}

// --- Recorder of the Clone room, with permission, countdown, text to read, level and clock. Events: 'recorded' with the samples,
// 'refused' with a message key.

const COUNT = 3;
const BEAT_MS = 700;
const MAX_SILENCE_S = 2; // Duration of recorded silence after which the microphone is probably off.
const MIN_LEVEL = 0.003; // Minimum peak of a microphone that is on.

/** @typedef {'idle'|'asking'|'counting'|'recording'} State */

/**
 * Recorder of the Clone room, with permission, countdown and level.
 *
 * @extends {Emitter<{refused: string, recorded: Int16Array}>}
 */
export class Microphone extends Emitter {
  /**
   * Create the controls of the microphone from the elements of the Clone room.
   *
   * @param {HTMLElement} root  panel of the room @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    super();
    this.studio = studio;
    this.button = getElement(root, '#vw-clone-record', HTMLButtonElement);
    this.stopButton = getElement(root, '#vw-clone-stop');
    this.recordingPanel = getElement(root, '#vw-clone-live');
    this.level = getElement(root, '#vw-clone-level', HTMLMeterElement);
    this.status = getElement(root, '#vw-clone-status');
    this.count = getElement(root, '#vw-clone-count');
    /** @type {State} */
    this.state = 'idle';
    this.button.onclick = () => this.start();
    this.stopButton.onclick = () => this.end();
    this.paint();
  }

  get maxSeconds() {
    return this.studio.limits.max_reference_s ?? 60;
  }

  /** Update the buttons and the status of the recorder. */
  paint() {
    const { studio, state } = this;
    const obstacle = microphoneObstacle();
    this.button.disabled = obstacle !== null;
    if (obstacle) this.status.textContent = studio.t(obstacle);
    this.stopButton.textContent = studio.t(state === 'recording' ? 'clone.stop_recording' : 'clone.cancel');
    this.recordingPanel.hidden = state === 'idle';
    this.level.hidden = state !== 'recording';
    // Reserve the space of the countdown, so that nothing moves when it appears.
    if (state === 'recording') this.count.textContent = '';
    if (state === 'asking') this.status.textContent = studio.t('clone.microphone.asking');
  }

  /** Change the state, show it and emit the event 'change'. @param {State} state */
  enter(state) {
    this.state = state;
    this.paint();
    this.dispatchEvent(new Event('change'));
  }

  async start() {
    let loudest = 0;
    const recorder = new Recorder({
      maxSeconds: this.maxSeconds,
      onLevel: (level, seconds) => {
        if (this.recorder !== recorder) return; // A block of samples may arrive after the end of the recording.
        this.level.value = level;
        loudest = Math.max(loudest, level);
        const isSilent = seconds > MAX_SILENCE_S && loudest < MIN_LEVEL;
        this.status.textContent = this.studio.t(isSilent ? 'clone.recording_silent' : 'clone.recording_for', { s: seconds.toFixed(1) });
      },
      onFull: () => this.finish(),
    });
    this.recorder = recorder;
    this.dispatchEvent(new Event('begun'));
    this.count.textContent = '…';
    // Ask for permission before the countdown, so that the browser's dialog does not interrupt it.
    this.enter('asking');
    this.stopButton.focus();
    try {
      await recorder.open();
      // The user has cancelled while the permission dialog was open.
      if (this.recorder !== recorder) return void recorder.stop();
      this.status.textContent = '';
      this.enter('counting');
      for (let left = COUNT; left > 0 && this.recorder === recorder; left--) {
        this.count.textContent = String(left);
        await new Promise((beat) => setTimeout(beat, BEAT_MS));
      }
      if (this.recorder !== recorder) return;
      await recorder.start();
      this.enter('recording');
    } catch (refusal) {
      if (this.recorder !== recorder) return;
      this.cancel();
      this.emit('refused', errorOf(refusal).message);
    }
  }

  /** Stop recording and keep the result, or cancel if recording has not started. */
  end() {
    if (this.state === 'recording') this.finish();
    else if (this.state !== 'idle') this.cancel();
  }

  /** Cancel before the recording starts, and release the microphone. */
  cancel() {
    this.recorder?.stop();
    this.recorder = null;
    this.status.textContent = '';
    this.enter('idle');
    this.button.focus();
  }

  async finish() {
    const { recorder } = this;
    if (this.state !== 'recording' || !recorder) return;
    this.recorder = null;
    this.enter('idle');
    this.status.textContent = '';
    const pcm = await recorder.stop();
    this.emit('recorded', pcm);
  }
}
