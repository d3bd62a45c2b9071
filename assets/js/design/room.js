/**
 * Design room: three takes of a described voice (VoiceDesign), and variations.
 *
 * A take can be saved as a voice.
 *
 * The three takes are requested together on one WebSocket, so the engine generates them in one batch. Description, language, text
 * and seed determine a take and are stored with the take. Each request adds a set above the other sets, such as clones of a take by
 * Base, or a changed description with the same seeds. Nothing is overwritten.
 */

import { errorOf } from '../common/api.js';
import { SAMPLE_RATE, wavBlob } from '../common/audio.js';
import { getElement } from '../common/elements.js';
import { FieldError, fillLanguages, selectValue, speakerTitle } from '../common/fields.js';
import { CardActions, TakeMenu } from './card_actions.js';
import { BlendForm, DesignedVoices } from './designed_voices.js';
import { KeepForm } from './keep_form.js';
import { TakePlayback } from './listening.js';
import { PresetPicker } from './presets.js';
import { SavedSets, ShownSets } from './sets.js';
import { TakeRequests } from './take_requests.js';

/**
 * @typedef {import('./card.js').TakeCard} TakeCard
 * @typedef {import('../player/take.js').TakeRequest} TakeRequest
 * @typedef {import('../player/take.js').Config} Config
 * @typedef {{description: string, language: string, count?: number, sets?: import('./sets.js').StoredSet[]}} Draft
 */

export class DesignRoom {
  static id = 'design';
  id = 'design';
  /** @type {'voice_design'} */
  mode = 'voice_design';

  /** @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.t = studio.t;
    this.description = getElement(root, '#vw-design-description', HTMLTextAreaElement);
    this.language = getElement(root, '#vw-design-language', HTMLSelectElement);
    this.hint = getElement(root, '#vw-design-hint');
    this.liveRegion = getElement(root, '#vw-design-said');
    this.shownSets = new ShownSets(this);
    this.requests = new TakeRequests(this);
    this.actions = new CardActions(this);
    this.picker = new PresetPicker(root, studio.presets.designs, this.t);
    this.keepForm = new KeepForm(root, studio);
    this.menu = new TakeMenu(getElement(root, '#vw-design-menu'), this.t, {
      again: (card) => this.fromTake(card),
      drop: (card) => this.attempt(() => this.actions.drop(card)),
    });
    this.blend = new BlendForm(root, studio);
    this.designedVoices = new DesignedVoices(root, studio, { again: (voice) => this.restoreVoice(voice) });
    this.playback = new TakePlayback(studio.stage, () => this.shownSets.cards);
    this.savedSets = new SavedSets(this);
    this.describe(studio.presets.designs[0].text);
    this.listen();
    this.refresh();
  }

  listen() {
    this.description.oninput = () => {
      this.hint.textContent = '';
      this.picker.mark(this.description.value);
    };
    this.picker.on('choose', (preset) => this.choose(preset));
    this.keepForm.on('kept', (kept) => this.actions.onKept(kept));
    this.keepForm.on('longer', ({ card }) => this.requests.requestLonger(card));
    this.keepForm.on('closed', ({ card }) => this.actions.focus(card));
  }

  // --- The form.

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (!card) return;
    fillLanguages(this.language, card, this.t);
    this.picker.showPresets(card);
    for (const shown of this.shownSets.cards) shown.canVary = this.canClone;
    this.refresh();
  }

  onLanguage() {
    this.picker.fill();
    this.refresh();
    this.keepForm.refresh();
    this.designedVoices.refresh();
  }

  /** @param {string} description */
  describe(description) {
    this.description.value = description;
    this.picker.mark(description);
  }

  /**
   * Fill the form from a preset.
   *
   * The user's own text is not replaced.
   *
   * @param {import('./presets.js').Design} preset
   */
  choose(preset) {
    const { studio, t } = this;
    const card = studio.cards.get(this.mode);
    const spoken = !card || card.languages.includes(preset.language);
    const own = this.isOwnText;
    studio.replaceWithUndo(this, this.isOwnDescription, () => {
      this.describe(preset.text);
      this.language.value = spoken && card ? preset.language : 'auto';
      if (!own) studio.text = preset.sample;
    });
    const unspoken = spoken ? '' : t('design.hint_not_spoken', { model: studio.modelName(card), language: speakerTitle(preset.language) });
    this.hint.textContent = [unspoken, own ? t('design.hint_text_kept') : ''].filter(Boolean).join(' ');
  }

  /** True if the user has written the description. */
  get isOwnDescription() {
    const { value } = this.description;
    return value.trim() !== '' && !this.picker.find(value);
  }

  /** Return the name of the preset that equals a description, or ''. @param {string} description */
  presetOf(description) {
    return this.picker.find(description)?.name ?? '';
  }

  /** True if the user has written the text. */
  get isOwnText() {
    return this.studio.text.trim() !== '' && !this.isSample(this.studio.text);
  }

  draft() {
    const { description, language, savedSets, shownSets } = this;
    return { description: description.value, language: language.value, count: shownSets.count, sets: savedSets.draft() };
  }

  /** @param {Draft} draft */
  recall({ description, language, count = 0 }) {
    this.hint.textContent = '';
    this.describe(description);
    selectValue(this.language, language);
    this.shownSets.count = Math.max(this.shownSets.count, count);
  }

  /** Restore the takes of a draft. @param {Draft} draft */
  reopen({ sets }) {
    return this.savedSets.reopen(sets);
  }

  /** @param {import('../player/take.js').Take} take */
  placeOf(take) {
    return this.savedSets.placeOf(take);
  }

  /** @param {import('../player/take.js').Take} take @param {import('./sets.js').SetPosition} place */
  regain(take, place) {
    return this.savedSets.regain(take, place);
  }

  /** Play a take of this room. @param {import('../player/take.js').Take} take @param {{clicked: number}} now */
  hear(take, { clicked }) {
    const card = this.shownSets.cards.find((one) => one.take === take);
    if (card) this.playback.play(card, { clicked });
  }

  /** Return the reference audio of a take that was derived from another take, or null. @param {TakeRequest} asked */
  async referenceOf({ parent }) {
    return parent ? wavBlob([await this.studio.history.loadPcm(parent)], SAMPLE_RATE) : null;
  }

  /** Show that sets are being restored, so that the elements below do not move later. @param {boolean} isRestoring */
  showRestoring(isRestoring) {
    this.root.toggleAttribute('data-coming', isRestoring);
  }

  /** True if a text comes from presets/ and not from the user. @param {string} text */
  isSample(text) {
    return Object.values(this.studio.presets.texts).includes(text) || this.picker.isSample(text);
  }

  leave() {
    this.keepForm.releaseHeight();
  }

  /** Return the room's fields of session.config. @throws {FieldError} The description is empty. */
  config() {
    const instructions = this.description.value.trim();
    if (!instructions) throw new FieldError('instructions', this.t('design.describe_first'));
    return { instructions, language: this.language.value || 'auto', ...this.studio.variation.sampling };
  }

  /** Restore the form from a stored take. @param {import('../app/studio.js').RestoredTake} take */
  restore({ config }) {
    this.fill(config.instructions ?? '', config.language ?? 'auto');
  }

  /** Restore the form from a take, with its seed unless the take is a clone. @param {TakeCard} card */
  fromTake({ take, description }) {
    const { text, config, seed, mode } = take;
    if (mode === this.mode) this.fillFrom({ text, config, seed });
    else this.fillFrom({ text, config: { instructions: description, language: config.language }, seed: null });
  }

  /** Fill the form from a request, and offer undo. @param {{text: string, config: Config, seed: number|null}} request */
  fillFrom({ text, config, seed }) {
    const { studio } = this;
    studio.replaceWithUndo(this, this.isOwnDescription || this.isOwnText, () => {
      studio.text = text;
      if (config.instructions) this.fill(config.instructions, config.language ?? 'auto');
      studio.variation.restore({ seed, config });
    });
    this.description.focus();
  }

  /**
   * Restore the description and the seed of a designed voice.
   *
   * @param {import('../speak/voices.js').StoredVoice} voice
   */
  restoreVoice({ provenance, transcript }) {
    const { description = '', language = 'auto', seed } = provenance;
    const known = seed === undefined ? null : Number(seed);
    this.fillFrom({ text: transcript || this.studio.text, config: { instructions: description, language }, seed: known });
  }

  /** @param {string} description @param {string} language */
  fill(description, language) {
    this.describe(description);
    this.language.value = language;
    if (this.language.selectedIndex < 0) this.language.value = 'auto';
  }

  /** Return the voice of this room for a line of a script. @returns {import('../app/studio.js').SpokenBy} */
  spokenBy() {
    return { voice: { mode: this.mode, description: this.description.value.trim(), language: this.language.value }, instruct: '' };
  }

  /** Request three takes and play the first take. @param {{clicked: number}} now */
  speak(now) {
    this.requests.requestTakes(now);
  }

  /** Return the request that the primary button sends. */
  presentRequest() {
    return this.requests.requestFor(this.config());
  }

  /** True if a Base checkpoint is loaded. */
  get canClone() {
    return this.studio.cards.has('base');
  }

  // --- Messages.

  /**
   * Announce an event to screen readers.
   *
   * @param {TakeCard} card
   * @param {string} key
   * @param {Object<string, unknown>} [values]
   */
  announce(card, key, values = {}) {
    this.liveRegion.textContent = this.t(key, { letter: card.name, ...values });
  }

  /** Run an action and show its error. @param {() => void|Promise<void>} action */
  async attempt(action) {
    const { studio } = this;
    studio.clearErrors();
    studio.stage.player.start().catch(() => studio.showError('request', this.t('shell.no_output')));
    try {
      await action();
    } catch (thrown) {
      const error = errorOf(thrown);
      if (!error.field && !error.code) throw error;
      studio.showError(error.field ?? error.param ?? 'request', error, this.id);
    }
  }

  // --- Playback.

  /** @param {KeyboardEvent} event */
  onKey({ code, shiftKey }) {
    const [, digit] = /^(?:Digit|Numpad)([1-9])$/.exec(code) ?? [];
    const card = this.shownSets.sets[0]?.cards.find(({ key }) => key === Number(digit));
    if (card) this.toggle(card, { shift: shiftKey });
    return Boolean(card);
  }

  /** @param {TakeCard} card @param {{shift: boolean}} how  shift: true to continue at the position of the last take */
  toggle(card, { shift }) {
    const { playback, studio } = this;
    if (!card.playable) return;
    if (card.playing) return studio.stage.stop();
    this.attempt(() => playback.play(card, { from: shift ? playback.position : 0 }));
  }

  refresh() {
    this.shownSets.refresh();
  }
}
