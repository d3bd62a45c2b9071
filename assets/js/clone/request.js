/** What is sent of a recording: with a text that its voice shall say, or to be kept as a voice. */

import { FieldError } from '../rooms/fields.js';

export class CloneRequest {
  /** @param {import('../rooms/clone.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** What was recorded or uploaded. @throws {FieldError} nothing yet */
  get given() {
    const { microphone, reference, studio } = this.room;
    if (microphone.state !== 'idle') throw new FieldError('ref_audio', studio.t('clone.stop_first'));
    if (!reference) throw new FieldError('ref_audio', studio.t('clone.record_first'));
    return reference;
  }

  /** The fields of session.config for that. @throws {FieldError} it has no words yet */
  config() {
    const { transcript, xvector, language, studio } = this.room;
    const ref_text = transcript.value.trim();
    const only = xvector.checked;
    if (!ref_text && !only) throw new FieldError('ref_text', studio.t('clone.words_first'));
    return { language: language.value, x_vector_only_mode: only, ...(!only && { ref_text }) };
  }

  /** What is kept with a voice besides its name and consent. @throws {FieldError} */
  kept() {
    const { given } = this;
    const { ref_text = '' } = this.config();
    const { source, start, end, cuts, seconds } = given;
    const without = cuts.map((cut) => `${cut.start.toFixed(2)} to ${cut.end.toFixed(2)}`).join(', ');
    const chosen = `${start.toFixed(2)} to ${end.toFixed(2)} of ${seconds.toFixed(2)} s${without && `, without ${without} s`}`;
    /** @type {Object<string, string>} */
    const provenance = given.pcm && !given.whole ? { source, trim: chosen } : { source };
    const fields = { language: this.room.language.value, ...(ref_text && { ref_text }) };
    return { sound: given.sent(), fields, provenance };
  }
}
