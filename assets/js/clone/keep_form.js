/** Form that saves a recording as a voice, and the fields of its request. */

import { api, errorOf } from '../common/api.js';
import { Emitter, getElement, onSubmit } from '../common/elements.js';
import { FieldError } from '../common/fields.js';
import { Take } from '../player/take.js';

// --- Fields of a recording for speech requests and for stored voices.

/** Fields of a recording for speech requests and for stored voices. */
export class CloneRequest {
  /** Create the request fields of a Clone room. @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
  }

  /**
   * The reference recording: recorded by the microphone or loaded from a file.
   *
   * @throws {FieldError} There is no recording, or recording is still running.
   */
  get reference() {
    const { microphone, reference, studio } = this.room;
    if (microphone.state !== 'idle') throw new FieldError('ref_audio', studio.t('clone.stop_first'));
    if (!reference) throw new FieldError('ref_audio', studio.t('clone.record_first'));
    return reference;
  }

  /**
   * Return the fields of `session.config` for a clone of the recording.
   *
   * @param {string} [ref_text] transcript of the recording
   * @throws {FieldError} There is no transcript yet.
   */
  config(ref_text = this.room.transcript.value.trim()) {
    const { xvector, language, studio } = this.room;
    const only = xvector.checked;
    if (!ref_text && !only) throw new FieldError('ref_text', studio.t('clone.words_first'));
    return { language: language.value, x_vector_only_mode: only, ...(!only && { ref_text }) };
  }

  /**
   * Return the audio and the fields that are stored with the voice.
   *
   * The name and the consent are not included.
   *
   * @throws {FieldError} A field is missing.
   */
  storedFields() {
    const { reference } = this;
    const { ref_text = '' } = this.config();
    const { source, start, end, cuts, seconds } = reference;
    const without = cuts.map((cut) => `${cut.start.toFixed(2)} to ${cut.end.toFixed(2)}`).join(', ');
    const chosen = `${start.toFixed(2)} to ${end.toFixed(2)} of ${seconds.toFixed(2)} s${without && `, without ${without} s`}`;
    /** @type {Object<string, string>} */
    const provenance = reference.pcm && !reference.isWhole ? { source, trim: chosen } : { source };
    const fields = { language: this.room.language.value, ...(ref_text && { ref_text }) };
    return { sound: reference.sent(), fields, provenance };
  }
}

// --- Comparison of the original recording and its clone with the same text, before the voice is saved.

const PREVIEW_SEED = 7; // Constant seed, so that the clone always sounds the same.

/** Playback of a recording and of its clone, so that the user can compare them. */
export class Comparison {
  /** Last take of a clone that was played, or null. @type {Take|null} */
  last = null;

  /** Connect the play button for the clone in a Clone room. @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
    this.stage = room.studio.stage;
    this.button = getElement(room.root, '#vw-clone-play-clone');
    this.button.onclick = () => this.onPress();
    this.stage.addEventListener('change', () => this.follow());
  }

  /** True if the last played clone has the current recording and transcript. */
  get isCurrent() {
    const { last, room } = this;
    return last?.reference === room.request.reference.sent() && last.config.ref_text === room.request.config().ref_text;
  }

  /** True if the clone of the current recording and transcript was played or has failed. */
  get wasPlayed() {
    const { last } = this;
    return this.isCurrent && last !== null && (last.samples > 0 || last.state === 'failed');
  }

  get isSounding() {
    return this.stage.isPlaying && this.stage.take === this.last;
  }

  /** Remember the clone that is playing, even if it speaks another text. */
  follow() {
    const { take } = this.stage;
    if (this.stage.isPlaying && take instanceof Take && take.reference) this.last = take;
    this.button.dataset.icon = this.isSounding ? 'pause' : 'play';
  }

  onPress() {
    // A press during the wait for the audio asks for the audio and must not pause it.
    if (this.isSounding) return void (this.last?.samples && this.stage.pause());
    const { studio } = this.room;
    studio.errorMessages.clear();
    studio.errorMessages.guard(() => this.playClone(), 'clone');
  }

  /**
   * Generate the transcript with the cloned voice and play it, to compare both recordings.
   *
   * @throws {FieldError} There is no transcript, or no connection.
   */
  playClone() {
    const { room, stage } = this;
    const { studio, request, mode } = room;
    if (this.wasPlayed && this.last?.state === 'done') return stage.play(this.last);
    const { reference } = request;
    const config = request.config();
    const text = config.ref_text ?? room.view.readingText;
    studio.stop();
    const label = studio.t(reference.source === 'recording' ? 'clone.clone_of_recording' : 'clone.clone_of', { name: reference.name });
    const take = studio.speech.say({ room: room.id, mode, config, text, seed: PREVIEW_SEED, label, reference: reference.sent(), isSample: true });
    this.last = take;
    stage.play(take, { clicked: performance.now() });
  }
}

// --- Form that saves the reference audio as a voice, with name and consent. Events: 'kept' with the voice, 'refused' with the field.

/**
 * Form with name and consent that saves the reference audio as a voice.
 *
 * @extends {Emitter<{kept: import('../speak/voices.js').StoredVoice, refused: string}>}
 */
export class KeepForm extends Emitter {
  /**
   * Create the form from the elements of the Clone room.
   *
   * @param {HTMLElement} root  panel of the room
   * @param {import('../app/studio.js').Studio} studio
   * @param {Comparison} comparison
   * @param {() => {sound: Blob, fields: Object<string, string>, provenance: Object<string, string>}} getReference  returns the reference or throws FieldError
   */
  constructor(root, studio, comparison, getReference) {
    super();
    this.comparison = comparison;
    this.studio = studio;
    this.getReference = getReference;
    this.form = getElement(root, '#vw-clone-keep', HTMLFormElement);
    this.name = getElement(root, '#vw-clone-keep-name', HTMLInputElement);
    this.consent = getElement(root, '#vw-clone-consent', HTMLInputElement);
    this.blend = getElement(root, '#vw-clone-blend', HTMLInputElement);
    this.button = getElement(root, '#vw-clone-keep-button', HTMLButtonElement);
    onSubmit(this.form, () => this.submit());
  }

  /** Clear the name and both consents, because the next recording may be of another speaker. */
  forget() {
    this.consent.checked = this.blend.checked = false;
    this.name.value = '';
  }

  async submit() {
    const { studio } = this;
    studio.errorMessages.clear();
    this.button.disabled = true;
    try {
      const voice = await this.save();
      await studio.voices.refresh();
      this.emit('kept', voice);
    } catch (thrown) {
      const error = errorOf(thrown);
      const field = error.field ?? error.param ?? 'keep';
      this.emit('refused', field);
      studio.errorMessages.showMessage(field, error, 'clone');
      // The dock may cover the error message.
      this.form.querySelector('.vw-error:not(:empty)')?.scrollIntoView({ block: 'nearest' });
    } finally {
      this.button.disabled = false;
    }
  }

  async save() {
    const { studio, name, consent } = this;
    const { sound, fields, provenance } = this.getReference();
    const unnamed = name.value.trim() ? null : new FieldError('name', studio.t('clone.name_first'));
    // Show the errors of both fields, because the exception contains only one of them.
    if (unnamed && !consent.checked) studio.errorMessages.showMessage(unnamed.field, unnamed, 'clone');
    if (!consent.checked) throw new FieldError('consent', studio.t('clone.consent_first'));
    if (unnamed) throw unnamed;
    const { comparison } = this;
    if (!comparison.wasPlayed) {
      // Do not start the clone again while it is being generated.
      if (!(comparison.isSounding && comparison.isCurrent)) comparison.playClone();
      throw new FieldError('keep', studio.t('clone.hear_first'));
    }
    const form = new FormData();
    form.append('audio_sample', sound, 'reference.wav');
    const words = studio.t('clone.consent_words', { date: new Date().toISOString().slice(0, 10) });
    const all = { ...fields, name: name.value, consent: words, provenance: JSON.stringify(this.blend.checked ? provenance : { ...provenance, blend: 'no' }) };
    for (const [field, value] of Object.entries(all)) form.append(field, value);
    return api.form('v1/audio/voices', form);
  }
}
