/** The Clone room: a voice from reference audio, uploaded or recorded here (Base). */

import { microphoneObstacle, Recorder } from '../recorder.js';
import { FieldError, fillLanguages } from './fields.js';

export class CloneRoom {
  static id = 'clone';
  id = 'clone';
  mode = 'base';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    Object.assign(this, { root, studio });
    const page = root;
    this.complain = (field, sentence) => studio.complain(field, sentence, this.id);
    this.record = page.querySelector('#vw-clone-record');
    this.file = page.querySelector('#vw-clone-file');
    this.level = page.querySelector('#vw-clone-level');
    this.name = page.querySelector('#vw-clone-name');
    this.audio = page.querySelector('#vw-clone-audio');
    this.transcript = page.querySelector('#vw-clone-transcript');
    this.xVectorOnly = page.querySelector('#vw-clone-xvector');
    this.language = page.querySelector('#vw-clone-language');
    /** @type {Blob|null} */
    this.reference = null;
    /** @type {Recorder|null} */
    this.recorder = null;
    this.listen();
  }

  listen() {
    this.record.onclick = () => (this.recorder ? this.finishRecording() : this.startRecording());
    this.file.onchange = () => {
      const [file] = this.file.files;
      if (file) this.take(file, file.name);
      this.file.value = ''; // so that choosing the same file again is a change
    };
    this.xVectorOnly.onchange = () => {
      this.transcript.disabled = this.xVectorOnly.checked;
      this.complain('ref_text', '');
    };
    const obstacle = microphoneObstacle();
    this.record.disabled = obstacle !== null;
    if (obstacle) this.name.textContent = obstacle;
  }

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (card) fillLanguages(this.language, card, this.studio.t);
  }

  get maxSeconds() {
    return this.studio.limits.max_reference_s ?? 60;
  }

  /** base64 makes four bytes of three, and the rest of the message needs some room. */
  get maxBytes() {
    const { max_config_bytes: most } = this.studio.limits;
    return most ? (most - 65536) * 0.75 : Infinity;
  }

  /** The fields of session.config that are this room's. */
  config() {
    if (this.recorder) throw new FieldError('ref_audio', 'Stop the recording first.');
    if (!this.reference) throw new FieldError('ref_audio', 'Record or upload the voice to clone first.');
    const ref_text = this.transcript.value.trim();
    const only = this.xVectorOnly.checked;
    if (!ref_text && !only) {
      const sentence = 'Write down what is said in the reference audio, or choose x-vector only.';
      throw new FieldError('ref_text', sentence);
    }
    return {
      language: this.language.value,
      x_vector_only_mode: only,
      ...(!only && { ref_text }),
    };
  }

  async speak({ clicked }) {
    const { studio, mode, reference } = this;
    const take = studio.say({ room: this.id, mode, config: this.config(), text: studio.text, seed: studio.nextSeed(), reference });
    studio.stage.play(take, { clicked });
  }

  async startRecording() {
    this.complain('ref_audio', '');
    this.audio.pause();
    const recorder = new Recorder({
      maxSeconds: this.maxSeconds,
      onLevel: (level, seconds) => {
        this.level.value = level;
        this.name.textContent = `${seconds.toFixed(1)} s`;
      },
      onFull: () => this.finishRecording(),
    });
    this.record.disabled = true;
    try {
      await recorder.start();
    } catch (refusal) {
      this.complain('ref_audio', refusal.message);
      return;
    } finally {
      this.record.disabled = false;
    }
    this.recorder = recorder;
    this.record.textContent = 'Stop recording';
    this.record.classList.add('vw-live');
    this.level.hidden = false;
  }

  async finishRecording() {
    const recorder = this.recorder;
    if (!recorder) return;
    this.recorder = null;
    this.record.textContent = 'Record';
    this.record.classList.remove('vw-live');
    this.level.hidden = true;
    this.take(await recorder.stop(), `recorded, ${recorder.seconds.toFixed(1)} s`);
  }

  /** Keep a reference and offer it for listening. @param {Blob} blob @param {string} name */
  take(blob, name) {
    if (blob.size > this.maxBytes) {
      const limit = Math.floor(this.maxBytes / 2 ** 20);
      this.complain('ref_audio', `The file has ${(blob.size / 2 ** 20).toFixed(1)} MB; the limit is ${limit} MB. Trim it.`);
      return;
    }
    this.complain('ref_audio', '');
    this.reference = blob;
    this.name.textContent = name;
    URL.revokeObjectURL(this.audio.src);
    this.audio.src = URL.createObjectURL(blob);
    this.audio.hidden = false;
  }
}
