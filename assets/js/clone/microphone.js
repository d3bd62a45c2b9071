/** The Clone room's recorder: a countdown, a text to read, a level, a clock. Events: 'recorded' with the samples, 'refused' with a key. */

import { need } from '../elements.js';
import { Emitter } from '../emitter.js';
import { errorOf } from '../errors.js';
import { microphoneObstacle, Recorder } from '../recorder.js';

const COUNT = 3;
const BEAT_MS = 700;

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
    /** @type {'idle'|'counting'|'recording'} */
    this.state = 'idle';
    this.button.onclick = () => this.start();
    this.halt.onclick = () => (this.state === 'counting' ? this.cancel() : this.finish());
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
    this.halt.textContent = studio.t(state === 'counting' ? 'clone.cancel' : 'clone.stop_recording');
    this.live.hidden = state === 'idle';
    this.level.hidden = state !== 'recording';
    this.count.hidden = state !== 'counting';
  }

  /** @param {'idle'|'counting'|'recording'} state */
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
    this.enter('counting');
    this.halt.focus();
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
      this.emit('refused', errorOf(refusal).message);
    }
  }

  /** Forget it, before anything was heard. */
  cancel() {
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
