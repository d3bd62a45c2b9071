/** Form that saves a take as a voice, and warns if the take is too short to clone. */

import { errorOf } from '../common/api.js';
import { Emitter, getElement, onSubmit } from '../common/elements.js';
import { newVoiceName } from './names.js';

/**
 * Minimum duration in seconds of a reference recording for a good clone.
 *
 * The runtime's advice uses the same limit.
 */
export const SHORTEST_REFERENCE = 3;

/**
 * Minimum duration in seconds of a reference recording (VOICEWRIGHT_MIN_REFERENCE_S).
 *
 * The server refuses shorter recordings.
 */
export const MIN_REFERENCE_S = 1;

/** Return true if a take is too short to clone it well. @param {{seconds: number}} take */
export const isShort = (take) => take.seconds < SHORTEST_REFERENCE;

/**
 * Form in a take's card that saves the take as a voice, and warns about short takes.
 *
 * Events: 'kept' with {card, voice, isAsked}, 'longer' with {card} if the user requests a longer text, 'closed' with {card}.
 * `isAsked` is true if the form was still open for this card when the voice was saved.
 *
 * @typedef {import('./card.js').TakeCard} TakeCard
 * @typedef {{card: TakeCard}} CardEvent
 */

/**
 * Form in the card of a take that saves the take as a voice.
 *
 * @extends {Emitter<{kept: CardEvent & {voice: import('./card.js').SavedVoice, isAsked: boolean}, longer: CardEvent, closed: CardEvent}>}
 */
export class DesignKeepForm extends Emitter {
  /**
   * Create the form from the elements of the Design room.
   *
   * @param {HTMLElement} root panel of the room @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    super();
    this.studio = studio;
    this.form = getElement(root, '#vw-design-keep-form', HTMLFormElement);
    this.short = getElement(root, '#vw-design-short');
    this.why = getElement(root, '#vw-design-short-why');
    this.name = getElement(root, '#vw-design-name', HTMLInputElement);
    this.button = getElement(root, '#vw-design-keep', HTMLButtonElement);
    this.nameError = getElement(root, '#vw-design-name-error');
    this.keepError = getElement(root, '[data-error-for=keep]');
    /** @type {TakeCard|null} */
    this.card = null;
    /** Card whose form was closed last, and which still has a fixed height, or null. @type {TakeCard|null} */
    this.closedCard = null;
    /** True while the form is saving a voice. */
    this.isKeeping = false;
    /**
     * True if the form was submitted again while `isKeeping` was true.
     *
     * After the running save, the form is submitted once more with its new content.
     */
    this.isResubmitted = false;
    onSubmit(this.form, () => this.save());
    this.form.onkeydown = (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation(); // Escape closes only the form and does not also stop playback.
      this.close();
    };
    getElement(root, '#vw-design-keep-not').onclick = () => this.close();
    getElement(root, '#vw-design-longer').onclick = () => {
      const { card } = this;
      this.close();
      if (card) this.emit('longer', { card });
    };
    this.name.oninput = () => this.showErrors('', '');
  }

  /**
   * Open the form in the card of a take, with a suggested name.
   *
   * @param {TakeCard} card
   * @param {string} preset name of the preset with the same description, or ''
   */
  open(card, preset) {
    this.close();
    this.releaseHeight();
    this.card = card;
    const existing = this.studio.voices.list.map(({ name }) => name);
    this.name.value = newVoiceName(preset, card.description, existing);
    this.showErrors('', '');
    card.nameLabel.append(this.form);
    card.article.classList.add('vw-design-take-asks');
    this.form.hidden = false;
    this.refresh();
    this.name.focus({ preventScroll: true });
    this.name.select();
    this.form.scrollIntoView({ block: 'nearest' });
  }

  close() {
    const { card } = this;
    this.isResubmitted = false;
    this.form.hidden = true;
    this.card = null;
    if (!card) return;
    card.article.classList.remove('vw-design-take-asks');
    this.emit('closed', { card });
  }

  /** Release the height of the last card, which was fixed to avoid movement on the page. */
  releaseHeight() {
    this.closedCard?.fixHeight(false);
    this.closedCard = null;
  }

  /** Close the form if it is in a card that was removed. @param {TakeCard} card */
  forget(card) {
    if (card === this.card) this.close();
  }

  refresh() {
    if (!this.card) return;
    const { take } = this.card;
    this.short.hidden = !isShort(take);
    const isTooShort = take.seconds < MIN_REFERENCE_S;
    const values = { s: take.seconds.toFixed(1), least: MIN_REFERENCE_S };
    this.why.textContent = this.studio.t(isTooShort ? 'design.too_short' : 'design.short', values);
    this.button.disabled = isTooShort;
  }

  /**
   * Show or clear the error messages of the form.
   *
   * @param {string} name error message for the name @param {string} otherError other error message
   */
  showErrors(name, otherError) {
    this.nameError.textContent = name;
    this.keepError.textContent = otherError;
    this.name.setAttribute('aria-invalid', String(Boolean(name)));
  }

  async save() {
    const { card, studio } = this;
    if (!card) return;
    if (this.isKeeping) return void (this.isResubmitted = true);
    const name = this.name.value.trim();
    if (!name) return this.showError('name', studio.t('design.name_first'));
    if (studio.voices.find(name)) return this.showError('name', studio.t('design.name_taken'));
    this.showErrors('', '');
    this.isKeeping = true;
    try {
      const { take } = card;
      await take.stored();
      if (!take.id) throw new Error(studio.t('design.not_stored'));
      const voice = await studio.api.post(`studio/takes/${take.id}/voice`, { name });
      await studio.voices.refresh();
      const isAsked = this.card === card;
      if (isAsked) {
        this.releaseHeight();
        this.closedCard = card;
        card.fixHeight(true);
        this.close();
      }
      this.emit('kept', { card, voice: studio.voices.find(voice.id) ?? voice, isAsked });
    } catch (thrown) {
      const error = errorOf(thrown);
      // The form belongs to another take now, so show the error in the card.
      if (this.card !== card) studio.errorMessages.showMessage(card.error, error);
      else this.showError(error.param === 'name' ? 'name' : 'rest', error.message);
    } finally {
      this.isKeeping = false;
      const isWanted = this.isResubmitted;
      this.isResubmitted = false;
      if (isWanted) this.save();
    }
  }

  /** Show an error at the name, or at the end of the form. @param {'name'|'rest'} place @param {string} sentence */
  showError(place, sentence) {
    this.showErrors(place === 'name' ? sentence : '', place === 'name' ? '' : sentence);
    if (place === 'name') this.name.focus({ preventScroll: true });
    this.form.scrollIntoView({ block: 'nearest' }); // Scroll again, because the error message has made the form taller.
  }
}
