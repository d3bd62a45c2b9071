/** The Clone room's recorder: the browser's question, a countdown, a text to read, a level, a clock. Events: 'recorded' with the samples, 'refused' with a key. */

import { need } from '../elements.js';
import { Emitter } from '../emitter.js';
import { errorOf } from '../errors.js';
import { microphoneObstacle, Recorder } from '../recorder.js';

const COUNT = 3;
const BEAT_MS = 700;

/** @typedef {'idle'|'asking'|'counting'|'recording'} State */

/** @extends {Emitter<{refused: string, recorded: Int16Array}>} */
export class Microphone extends Emitter {
  /** @param {HTMLElement} root  the room's panel @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    super();
    this.studio = studio;
    this.button = need(root, '#vw-clone-record', HTMLButtonElement);
    this.halt = need(root, '#vw-clone-stop');
    this.live = need(root, '#vw-clone-live');
    this.level = need(root, '#vw-clone-level', HTMLMeterElement);
    this.status = need(root, '#vw-clone-status');
    this.count = need(root, '#vw-clone-count');
    /** @type {State} */
    this.state = 'idle';
    this.button.onclick = () => this.start();
    this.halt.onclick = () => this.end();
    this.paint();
  }

  get maxSeconds() {
    return this.studio.limits.max_reference_s ?? 60;
  }

  /** Show what can be done now. */
  paint() {
    const { studio, state } = this;
    const obstacle = microphoneObstacle();
    this.button.disabled = obstacle !== null;
    if (obstacle) this.status.textContent = studio.t(obstacle);
    this.halt.textContent = studio.t(state === 'recording' ? 'clone.stop_recording' : 'clone.cancel');
    this.live.hidden = state === 'idle';
    this.level.hidden = state !== 'recording';
    this.count.hidden = state === 'idle' || state === 'recording'; // Reserves the space before the countdown appears.
    if (state === 'asking') this.status.textContent = studio.t('clone.microphone.asking');
  }

  /** @param {State} state */
  enter(state) {
    this.state = state;
    this.paint();
    this.dispatchEvent(new Event('change'));
  }

  async start() {
    const recorder = new Recorder({
      maxSeconds: this.maxSeconds,
      onLevel: (level, seconds) => {
        this.level.value = level;
        this.status.textContent = this.studio.t('clone.recording_for', { s: seconds.toFixed(1) });
      },
      onFull: () => this.finish(),
    });
    this.recorder = recorder;
    this.dispatchEvent(new Event('begun'));
    this.count.textContent = '…';
    this.enter('asking'); // Before the countdown, so that the browser's permission prompt does not interrupt it.
    this.halt.focus();
    try {
      await recorder.open();
      if (this.recorder !== recorder) return void recorder.stop(); // Cancelled while the browser was asking.
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

  /** What the button beside the text to read does, and leaving the room. */
  end() {
    if (this.state === 'recording') this.finish();
    else if (this.state !== 'idle') this.cancel();
  }

  /** Forget it, before anything was heard; the microphone is given back. */
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
