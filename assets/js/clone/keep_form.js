/** The form that makes a voice of the reference: a name, and the speaker's consent in words. Event: 'kept' with the voice. */

import { api } from '../api.js';
import { FieldError } from '../rooms/fields.js';

export class KeepForm extends EventTarget {
  /**
   * @param {HTMLElement} root  the room's panel
   * @param {import('../studio.js').Studio} studio
   * @param {() => {sound: Blob, fields: Object<string, string>, provenance: Object<string, string>}} given  throws FieldError
   */
  constructor(root, studio, given) {
    super();
    this.studio = studio;
    this.given = given;
    this.form = root.querySelector('#vw-clone-keep');
    this.name = root.querySelector('#vw-clone-keep-name');
    this.consent = root.querySelector('#vw-clone-consent');
    this.button = root.querySelector('#vw-clone-keep-button');
    /** @param {SubmitEvent} event */
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
      this.dispatchEvent(new CustomEvent('kept', { detail: voice }));
    } catch (error) {
      studio.complain(error.field ?? error.param ?? 'ref_audio', error, 'clone');
    } finally {
      this.button.disabled = false;
    }
  }

  async keep() {
    const { studio, name, consent } = this;
    const { sound, fields, provenance } = this.given();
    if (!consent.checked) throw new FieldError('consent', studio.t('clone.consent_first'));
    if (!name.value.trim()) throw new FieldError('name', studio.t('clone.name_first'));
    const form = new FormData();
    form.append('audio_sample', sound, 'reference.wav');
    const words = studio.t('clone.consent_words', { date: new Date().toISOString().slice(0, 10) });
    const all = { ...fields, name: name.value, consent: words, provenance: JSON.stringify(provenance) };
    for (const [field, value] of Object.entries(all)) form.append(field, value);
    return api.form('v1/audio/voices', form);
  }
}
