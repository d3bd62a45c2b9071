/**
 * Speak room of the page, which speaks a text with a selected voice and a style.
 *
 * Speakers use a CustomVoice checkpoint. Stored voices use a Base checkpoint. With a style, they use a CustomVoice
 * checkpoint that supports stored voices.
 */

import { getElement } from '../common/elements.js';
import { FieldError, fillChips, fillLanguages, selectValue, pressChip, modeFor } from '../common/fields.js';
import { TypedSpeech } from './typed_speech.js';
import { showVoice, VoicePicker } from './voice_picker.js';
import { keyOf } from './voices.js';

/** @typedef {import('./voices.js').Choice} Choice */
/** @typedef {{mode: string, voice: string, name?: string, kind?: string}} ChosenVoice */

/** Speak room of the page, which speaks a text with a selected voice and a style. */
export class SpeakersRoom {
  static id = 'speakers';
  id = 'speakers';
  /** @type {import('../player/take.js').Mode[]} */
  modes = ['custom_voice', 'base'];
  takesTags = true;
  takesAnyLength = true;

  /**
   * Create the Speak room from its panel on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.chip = getElement(root, '#vw-speakers-voice', HTMLButtonElement);
    this.deleted = getElement(root, '#vw-speakers-deleted');
    this.language = getElement(root, '#vw-speakers-language', HTMLSelectElement);
    this.instruct = getElement(root, '#vw-speakers-instruct', HTMLTextAreaElement);
    this.hint = getElement(root, '#vw-speakers-hint');
    this.graftBox = getElement(root, '#vw-speakers-graft');
    this.graft = getElement(root, '#vw-speakers-graft input', HTMLInputElement);
    this.chips = getElement(root, '#vw-speakers-chips');
    /** Voice that the user has chosen, even if it is unavailable. @type {ChosenVoice|null} */
    this.chosenVoice = null;
    /** Voice that was chosen before, for the case that the chosen voice is deleted. @type {ChosenVoice|null} */
    this.previousVoice = null;
    this.offered = '';
    const callbacks = { chosen: () => this.chosen?.key ?? '', choose: (/** @type {Choice} */ choice) => this.choose(choice) };
    this.picker = new VoicePicker(getElement(root, '#vw-speakers-picker'), studio, callbacks);
    studio.voicePopover.attach(this.chip, callbacks);
    this.typed = new TypedSpeech(this, studio.page);
    studio.catalogue.addEventListener('change', () => this.updateForm());
    this.suggestStyles();
    this.language.onchange = () => this.suggestText();
    this.instruct.addEventListener('input', () => this.markStyle());
  }

  suggestStyles() {
    fillChips(this.chips, this.studio.presets.instructs, (text) => this.suggest(text));
    this.markStyle();
  }

  /** Set the text of the style field. @param {string} text */
  setStyle(text) {
    this.instruct.value = text;
    this.markStyle();
  }

  /** Mark the suggested style that equals the text of the style field. */
  markStyle() {
    pressChip(this.chips, this.instruct.value);
  }

  onLanguage() {
    this.suggestStyles();
  }

  // --- Voice

  /** Mode of the chosen voice. @returns {'custom_voice'|'base'} */
  get mode() {
    return this.chosen?.mode ?? 'custom_voice';
  }

  get card() {
    return this.studio.cards.get(this.mode);
  }

  /**
   * Voice that the room uses now, or null if no voice is available.
   *
   * It is the chosen voice, the previously chosen voice, or the first available voice.
   *
   * @returns {Choice|null}
   */
  get chosen() {
    const { catalogue, voices } = this.studio;
    for (const wanted of [this.chosenVoice, this.previousVoice]) {
      const found = wanted && catalogue.find(keyOf(wanted.mode, wanted.voice));
      if (found && !found.why) return found;
      // Stored voices are listed shortly after the speakers. Until then, no other voice replaces the chosen voice.
      if (wanted?.mode === 'base' && !voices.isListed) return unlistedChoice(wanted);
    }
    return catalogue.first;
  }

  /** Name of the chosen voice if it was deleted, or ''. */
  get deletedName() {
    const { chosenVoice, studio } = this;
    const isDeleted = chosenVoice?.mode === 'base' && studio.voices.isListed && !studio.voices.find(chosenVoice.voice);
    return (isDeleted && chosenVoice.name) || '';
  }

  /** Choose a voice for this room. @param {Choice} choice */
  choose({ mode, voice, name, kind }) {
    const { chosen } = this;
    if (chosen && chosen.key !== keyOf(mode, voice)) this.previousVoice = chosen;
    this.chosenVoice = { mode, voice, name, kind };
    this.updateForm();
    this.picker.mark();
    this.studio.refresh();
  }

  offer() {
    this.offered = '';
    this.updateForm();
  }

  /** Update the form after a change of the voice, the checkpoint or the language. */
  updateForm() {
    const { chosen, card, studio } = this;
    const deleted = this.deletedName;
    const is = `${chosen?.key} ${chosen?.name} ${deleted} ${card?.id} ${studio.words.language}`;
    if (is === this.offered) return;
    this.offered = is;
    showVoice(this.chip, chosen);
    this.chip.ariaLabel = studio.t('picker.choose', { name: chosen?.name ?? '' });
    this.deleted.textContent = deleted && chosen ? studio.t('speakers.deleted', { name: deleted, now: chosen.name }) : '';
    if (card) fillLanguages(this.language, card, studio.t);
    const why = this.noStyleReason();
    this.instruct.disabled = this.instruct.hidden = this.chips.hidden = why !== '';
    const isOwn = chosen?.mode === 'base';
    this.hint.hidden = why === '' && !isOwn;
    this.hint.textContent = why || (isOwn ? studio.t('speakers.styled', { name: chosen.name }) : '');
    this.graftBox.hidden = why !== '' || !isOwn || !studio.cards.get('custom_voice')?.grafts_voices;
    if (studio.current === this) studio.variation.offer(card);
  }

  /** Return the reason why the chosen voice supports no style, or '' if it does. */
  noStyleReason() {
    const { chosen, card, studio } = this;
    if (studio.catalogue.supportsStyle(chosen?.mode)) return '';
    if (chosen?.mode === 'base') return studio.t('speakers.own_manner', { name: chosen.name });
    return !card || card.takes_instruct ? '' : studio.t('speakers.no_instruct', { model: studio.realVoices.nameOf(card.id) });
  }

  /** True if style tags in the text have an effect with the chosen voice. */
  get followsTags() {
    return this.chosen?.mode === 'custom_voice' && this.noStyleReason() === '';
  }

  // --- Text

  /**
   * Replace a sample sentence by the sample sentence of the selected language.
   *
   * A text that the user has written is not replaced.
   */
  suggestText() {
    const { texts } = this.studio.presets;
    const sample = texts[this.language.value.toLowerCase()];
    if (sample && Object.values(texts).includes(this.studio.text)) this.studio.text = sample;
  }

  /** Use a suggested style, or remove the style if it is already used. @param {string} text */
  suggest(text) {
    const { studio, instruct } = this;
    const isOwn = instruct.value.trim() !== '' && !studio.presets.instructs.some((one) => one.text === instruct.value);
    const manner = text === instruct.value ? '' : text; // A second press removes the style.
    studio.undo.replacing(this, isOwn, () => this.setStyle(manner));
  }

  /** Return the text that the player shows before the first take. */
  line() {
    return this.studio.facts.line(this.chosen?.name ?? '');
  }

  draft() {
    return { voice: this.chosenVoice, language: this.language.value, instruct: this.instruct.value, graft: this.graft.checked };
  }

  /**
   * Restore the voice and the settings of a stored draft.
   *
   * @param {{voice: ChosenVoice|null, language: string, instruct: string, graft?: boolean}} draft
   */
  recall({ voice, language, instruct, graft = false }) {
    this.chosenVoice = voice ?? this.chosenVoice;
    this.updateForm();
    selectValue(this.language, language);
    this.setStyle(instruct);
    this.graft.checked = graft;
  }

  // --- Speaking

  /** Return the fields of `session.config` for a voice and the settings of this room. @param {Choice} chosen */
  config({ voice }) {
    const instructions = this.instruct.disabled ? '' : this.instruct.value.trim();
    const isGrafted = instructions !== '' && !this.graftBox.hidden && this.graft.checked;
    return { voice, language: this.language.value, ...(instructions && { instructions }), ...(isGrafted && { graft: true }) };
  }

  /** Return the voice and the style of this room for the lines of a script, or null. */
  spokenBy() {
    const { chosen } = this;
    if (!chosen) return null;
    const voice = { mode: chosen.mode, voice: chosen.voice, language: this.language.value };
    return { voice, instruct: this.instruct.disabled ? '' : this.instruct.value.trim() };
  }

  /** Return the request that a press of the primary button would send, or null. */
  presentRequest() {
    const { studio, chosen, mode } = this;
    if (!chosen) return null;
    const config = { ...this.config(chosen), ...studio.variation.sampling };
    return { mode: modeFor(mode, config.instructions), config, text: studio.text };
  }

  /**
   * Generate and play the text.
   *
   * A text that is too long for one request becomes a script.
   *
   * @param {{clicked: number}} options
   */
  async speak({ clicked }) {
    const { studio, chosen } = this;
    const present = this.presentRequest();
    if (!chosen || !present) throw new FieldError('voice', studio.t('picker.nobody'));
    if (studio.facts.isTooLong) return studio.go('script', { text: studio.text, spokenBy: this.spokenBy(), isPlayed: true });
    const asked = { room: this.id, ...present, seed: studio.variation.nextSeed(), label: chosen.name };
    studio.stage.play(studio.speech.say(asked), { clicked });
    studio.catalogue.remember(chosen);
  }

  /** True while text is spoken as the user types. */
  get isTyping() {
    return this.typed.isOn;
  }

  /**
   * Speak the typed text that was not sent yet, and end the request.
   *
   * The result is false if nothing was typed.
   */
  finishTyping() {
    return this.typed.isOn && this.typed.finish();
  }

  stop() {
    this.typed.end();
  }

  leave() {
    this.typed.finish();
  }

  /**
   * Open the room, with a voice if one is given.
   *
   * @param {{voice?: string}} given id of a stored voice, or name of any voice
   */
  async enter({ voice }) {
    if (!voice) return;
    const { catalogue, voices } = this.studio;
    // The voice may be new, so load the list again.
    if (!catalogue.findByName(voice)) await voices.refresh().catch(() => {});
    this.chooseIfAvailable(catalogue.findByName(voice));
  }

  /** Choose a voice, or show the reason why it cannot be used. @param {Choice|null} choice */
  chooseIfAvailable(choice) {
    const { studio } = this;
    const why = choice ? choice.why : studio.t('picker.gone');
    if (why) studio.toasts.show(why);
    else if (choice) {
      this.choose(choice);
      this.picker.reveal();
    }
  }

  /**
   * Restore the form from a stored take, and return a function that undoes this.
   *
   * @param {import('../app/studio.js').RestoredTake} take @returns {import('../app/studio.js').UndoFunction}
   */
  restore({ mode, config }) {
    const { catalogue } = this.studio;
    // These voices are kept for undo, because a draft contains at most one of them.
    const { chosenVoice, previousVoice } = this;
    this.chooseIfAvailable(catalogue.find(keyOf(mode, config.voice ?? '')) ?? catalogue.findByName(config.voice ?? ''));
    this.language.value = config.language ?? 'auto';
    this.setStyle(config.instructions ?? '');
    this.graft.checked = Boolean(config.graft);
    return () => {
      Object.assign(this, { chosenVoice, previousVoice });
      this.updateForm();
      this.picker.mark();
      this.studio.refresh();
    };
  }
}

/**
 * Return a catalogue entry for a stored voice that has not been loaded yet.
 *
 * @param {ChosenVoice} wanted @returns {Choice}
 */
function unlistedChoice({ voice, name = '', kind }) {
  const known = { tags: [], about: '', why: '', language: null, sample: null, isCommon: false };
  return { ...known, key: keyOf('base', voice), mode: 'base', voice, name, kind: kind === 'designed' ? 'designed' : 'recorded' };
}
