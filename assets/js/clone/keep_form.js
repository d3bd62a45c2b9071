/** The form that makes a voice of the reference: a name, and the speaker's consent in words. Event: 'kept' with the voice. */

import { api } from '../api.js';
import { need } from '../elements.js';
import { Emitter } from '../emitter.js';
import { errorOf } from '../errors.js';
import { FieldError } from '../rooms/fields.js';

/** @extends {Emitter<{kept: import('../voices.js').StoredVoice}>} */
export class KeepForm extends Emitter {
  /**
   * @param {HTMLElement} root  the room's panel
   * @param {import('../studio.js').Studio} studio
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
    studio.clearComplaints();
    this.button.disabled = true;
    try {
      const voice = await this.keep();
      await studio.voices.refresh();
      this.emit('kept', voice);
    } catch (thrown) {
      const error = errorOf(thrown);
      studio.complain(error.field ?? error.param ?? 'ref_audio', error, 'clone');
    } finally {
      this.button.disabled = false;
    }
  }

  async keep() {
    const { studio, name, consent } = this;
    const { sound, fields, provenance } = this.given();
    const unnamed = name.value.trim() ? null : new FieldError('name', studio.t('clone.name_first'));
    if (unnamed && !consent.checked) studio.complain(unnamed.field, unnamed, 'clone'); // Both errors are shown at once.
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
