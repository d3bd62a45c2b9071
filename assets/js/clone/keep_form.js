/** Form that creates a voice from a recording, and its request. */

import { api, errorOf } from '../common/api.js';
import { Emitter, need } from '../common/elements.js';
import { FieldError } from '../common/fields.js';

// --- What is sent of a recording: with a text that its voice shall say, or to be kept as a voice.

export class CloneRequest {
  /** @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** Returns the recording or upload. @throws {FieldError} there is none yet */
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

  /** Returns the data stored with a voice in addition to name and consent. @throws {FieldError} */
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

// --- The form that makes a voice of the reference: a name, and the speaker's consent in words. Event: 'kept'
// with the voice.

/** @extends {Emitter<{kept: import('../speak/voices.js').StoredVoice}>} */
export class KeepForm extends Emitter {
  /**
   * @param {HTMLElement} root  the room's panel
   * @param {import('../app/studio.js').Studio} studio
   * @param {() => {sound: Blob, fields: Object<string, string>, provenance: Object<string, string>}} given  throws FieldError
   */
  constructor(root, studio, given) {
    super();
    this.studio = studio;
    this.given = given;
    this.form = need(root, '#vw-clone-keep', HTMLFormElement);
    this.name = need(root, '#vw-clone-keep-name', HTMLInputElement);
    this.consent = need(root, '#vw-clone-consent', HTMLInputElement);
    this.button = need(root, '#vw-clone-keep-button', HTMLButtonElement);
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.submit();
    };
  }

  /** Another recording is another speaker's, for all we know. */
  forget() {
    this.consent.checked = false;
    this.name.value = '';
  }

  async submit() {
    const { studio } = this;
    studio.clearErrors();
    this.button.disabled = true;
    try {
      const voice = await this.keep();
      await studio.voices.refresh();
      this.emit('kept', voice);
    } catch (thrown) {
      const error = errorOf(thrown);
      studio.showError(error.field ?? error.param ?? 'ref_audio', error, 'clone');
    } finally {
      this.button.disabled = false;
    }
  }

  async keep() {
    const { studio, name, consent } = this;
    const { sound, fields, provenance } = this.given();
    const unnamed = name.value.trim() ? null : new FieldError('name', studio.t('clone.name_first'));
    if (unnamed && !consent.checked) studio.showError(unnamed.field, unnamed, 'clone'); // Both errors are shown at once.
    if (!consent.checked) throw new FieldError('consent', studio.t('clone.consent_first'));
    if (unnamed) throw unnamed;
    const form = new FormData();
    form.append('audio_sample', sound, 'reference.wav');
    const words = studio.t('clone.consent_words', { date: new Date().toISOString().slice(0, 10) });
    const all = { ...fields, name: name.value, consent: words, provenance: JSON.stringify(provenance) };
    for (const [field, value] of Object.entries(all)) form.append(field, value);
    return api.form('v1/audio/voices', form);
  }
}
