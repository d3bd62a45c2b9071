/** The Clone room's Record button: a countdown, a level, a clock. Events: 'recorded' with the samples, 'refused' with a key. */

import { microphoneObstacle, Recorder } from '../recorder.js';

const COUNT = 3;
const BEAT_MS = 700;

export class Microphone extends EventTarget {
  /** @param {HTMLElement} root  the room's panel @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    super();
    this.studio = studio;
    this.button = root.querySelector('#vw-clone-record');
    this.level = root.querySelector('#vw-clone-level');
    this.name = root.querySelector('#vw-clone-name');
    this.count = root.querySelector('#vw-clone-count');
    /** @type {'idle'|'counting'|'recording'} */
    this.state = 'idle';
    this.button.onclick = () => ({ idle: () => this.start(), counting: () => this.cancel(), recording: () => this.finish() })[this.state]();
    this.paint();
  }

  get maxSeconds() {
    return this.studio.limits.max_reference_s ?? 60;
  }

  /** Show what the button does now. */
  paint() {
    const { studio, state } = this;
    const obstacle = microphoneObstacle();
    this.button.disabled = obstacle !== null;
    if (obstacle) this.name.textContent = studio.t(obstacle);
    const words = { idle: 'clone.record', counting: 'clone.cancel', recording: 'clone.stop_recording' };
    this.button.textContent = studio.t(words[state]);
    this.button.classList.toggle('vw-live', state === 'recording');
    this.level.hidden = state !== 'recording';
    this.count.hidden = state !== 'counting';
  }

  /** @param {'idle'|'counting'|'recording'} state */
  enter(state) {
    this.state = state;
    this.paint();
  }

  async start() {
    const recorder = new Recorder({
      maxSeconds: this.maxSeconds,
      onLevel: (level, seconds) => {
        this.level.value = level;
        this.name.textContent = this.studio.t('clone.recording_for', { s: seconds.toFixed(1) });
      },
      onFull: () => this.finish(),
    });
    this.recorder = recorder;
    this.dispatchEvent(new Event('begun'));
    this.enter('counting');
    for (let left = COUNT; left > 0 && this.recorder === recorder; left--) {
      this.count.textContent = String(left);
      await new Promise((beat) => setTimeout(beat, BEAT_MS));
    }
    if (this.recorder !== recorder) return;
    try {
      await recorder.start();
      this.enter('recording');
    } catch (refusal) {
      this.cancel();
      this.dispatchEvent(new CustomEvent('refused', { detail: refusal.message }));
    }
  }

  /** Forget it, before anything was heard. */
  cancel() {
    this.recorder = null;
    this.name.textContent = '';
    this.enter('idle');
  }

  async finish() {
    const { recorder } = this;
    if (this.state !== 'recording' || !recorder) return;
    this.recorder = null;
    this.enter('idle');
    const pcm = await recorder.stop();
    this.dispatchEvent(new CustomEvent('recorded', { detail: pcm }));
  }
}
