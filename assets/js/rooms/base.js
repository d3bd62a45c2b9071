/** The Base room: a voice from reference audio, uploaded or recorded here. The audio leaves the page only to speak. */

import { microphoneObstacle, Recorder } from '../recorder.js';
import { dataUrl } from '../wav.js';
import { FieldError, fillLanguages } from './fields.js';

/** @typedef {import('./fields.js').ModelCard} ModelCard */

export class BaseRoom {
  mode = 'base';

  /**
   * @param {ParentNode} page
   * @param {(field: string, sentence: string) => void} complain
   */
  constructor(page, complain) {
    this.complain = complain;
    this.record = page.querySelector('#vw-b-record');
    this.file = page.querySelector('#vw-b-file');
    this.level = page.querySelector('#vw-b-level');
    this.name = page.querySelector('#vw-b-name');
    this.audio = page.querySelector('#vw-b-audio');
    this.transcript = page.querySelector('#vw-b-transcript');
    this.xVectorOnly = page.querySelector('#vw-b-xvector');
    this.language = page.querySelector('#vw-b-language');
    this.maxSeconds = 60;
    this.maxBytes = Infinity;
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

  /** @param {ModelCard} card */
  offer(card) {
    fillLanguages(this.language, card);
  }

  /** @param {Object<string, number>} limits */
  limit(limits) {
    this.maxSeconds = limits.max_reference_s ?? this.maxSeconds;
    // base64 makes four bytes of three, and the rest of the message needs some room.
    this.maxBytes = limits.max_config_bytes ? (limits.max_config_bytes - 65536) * 0.75 : this.maxBytes;
  }

  /** The fields of session.config that are this room's. */
  async config() {
    if (this.recorder) throw new FieldError('ref_audio', 'Stop the recording first.');
    if (!this.reference) throw new FieldError('ref_audio', 'Record or upload the voice to clone first.');
    const ref_text = this.transcript.value.trim();
    const only = this.xVectorOnly.checked;
    if (!ref_text && !only) {
      const sentence = 'Write down what is said in the reference audio, or choose x-vector only.';
      throw new FieldError('ref_text', sentence);
    }
    return {
      task_type: 'Base',
      language: this.language.value,
      ref_audio: await dataUrl(this.reference),
      x_vector_only_mode: only,
      ...(!only && { ref_text }),
    };
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
