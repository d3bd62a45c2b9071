/**
 * Design room of the page, which generates speech with a voice from a description.
 *
 * It needs a VoiceDesign checkpoint. Each request generates three takes, which are three different voices. A take can be
 * saved as a voice.
 *
 * The three takes are requested together on one WebSocket, so the engine generates them in one batch. Description,
 * language, text and seed determine a take and are stored with the take. The takes of a request form a set. Later requests
 * add further sets above it, for example clones of a take by a Base checkpoint, or takes for a changed description with the
 * same seeds. No take is overwritten.
 */

import { wavBlob } from '../common/audio.js';
import { getElement } from '../common/elements.js';
import { FieldError, fillLanguages, selectValue, speakerTitle } from '../common/fields.js';
import { CardActions, TakeMenu } from './card_actions.js';
import { BlendForm, DesignedVoices } from './designed_voices.js';
import { DesignKeepForm } from './keep_form.js';
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

/** Design room of the page, which generates speech with a voice from a description. */
export class DesignRoom {
  static id = 'design';
  id = 'design';
  /** @type {'voice_design'} */
  mode = 'voice_design';

  /**
   * Create the Design room from its panel on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
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
    this.keepForm = new DesignKeepForm(root, studio);
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

  /** Write a description into the form. @param {string} description */
  describe(description) {
    this.description.value = description;
    this.picker.mark(description);
  }

  /**
   * Fill the form with the description of a preset, and offer undo.
   *
   * A text that the user has written is not replaced.
   *
   * @param {import('./presets.js').Design} preset
   */
  choose(preset) {
    const { studio, t } = this;
    const card = studio.cards.get(this.mode);
    const spoken = !card || card.languages.includes(preset.language);
    const own = this.isOwnText;
    studio.undo.replacing(this, this.isOwnDescription, () => {
      this.describe(preset.text);
      this.language.value = spoken && card ? preset.language : 'auto';
      if (!own) studio.text = preset.sample;
    });
    const unspoken = spoken ? '' : t('design.hint_not_spoken', { model: studio.realVoices.nameOf(card.id), language: speakerTitle(preset.language) });
    this.hint.textContent = [unspoken, own ? t('design.hint_text_kept') : ''].filter(Boolean).join(' ');
  }

  /** True if the user has written the description. */
  get isOwnDescription() {
    const { value } = this.description;
    return value.trim() !== '' && !this.picker.find(value);
  }

  /** Return the name of the preset with this description, or ''. @param {string} description */
  presetOf(description) {
    return this.picker.find(description)?.name ?? '';
  }

  /** True if the user has written the text that will be spoken. */
  get isOwnText() {
    return this.studio.text.trim() !== '' && !this.isSample(this.studio.text);
  }

  draft() {
    const { description, language, savedSets, shownSets } = this;
    return { description: description.value, language: language.value, count: shownSets.count, sets: savedSets.draft() };
  }

  /** Restore the form from a draft. @param {Draft} draft */
  recall({ description, language, count = 0 }) {
    this.hint.textContent = '';
    this.describe(description);
    selectValue(this.language, language);
    this.shownSets.count = Math.max(this.shownSets.count, count);
  }

  /** Restore the sets of takes from a stored draft. @param {Draft} draft */
  reopen({ sets }) {
    return this.savedSets.reopen(sets);
  }

  /**
   * Return the position of a take among the sets, for a request after a reload.
   *
   * @param {import('../player/take.js').Take} take
   */
  placeOf(take) {
    return this.savedSets.placeOf(take);
  }

  /**
   * Show a take again at its position among the sets, after a reload.
   *
   * @param {import('../player/take.js').Take} take @param {import('./sets.js').SetPosition} place
   */
  regain(take, place) {
    return this.savedSets.regain(take, place);
  }

  /**
   * Play a voice sample (take) that is shown in this room.
   *
   * @param {import('../player/take.js').Take} take @param {{clicked: number}} now clicked: time of the click (performance.now())
   */
  hear(take, { clicked }) {
    const card = this.shownSets.cards.find((one) => one.take === take);
    if (card) this.playback.play(card, { clicked });
  }

  /** Return the audio of the take from which the requested take was cloned, or null. @param {TakeRequest} asked */
  async referenceOf({ parent }) {
    return parent ? wavBlob([await this.studio.history.loadPcm(parent)]) : null;
  }

  /** Reserve space while sets are restored, so that the page does not move later. @param {boolean} isRestoring */
  showRestoring(isRestoring) {
    this.root.toggleAttribute('data-coming', isRestoring);
  }

  /** Return true if a text is a sample text of the page. @param {string} text */
  isSample(text) {
    return Object.values(this.studio.presets.texts).includes(text) || this.picker.isSample(text);
  }

  leave() {
    this.keepForm.releaseHeight();
  }

  /**
   * Return the fields of `session.config` for the description and the settings.
   *
   * @throws {FieldError} The description is empty.
   */
  config() {
    const instructions = this.description.value.trim();
    if (!instructions) throw new FieldError('instructions', this.t('design.describe_first'));
    return { instructions, language: this.language.value || 'auto', ...this.studio.variation.sampling };
  }

  /**
   * Fill the form with the description and the language of a stored take.
   *
   * @param {import('../app/studio.js').RestoredTake} take
   */
  restore({ config }) {
    this.fill(config.instructions ?? '', config.language ?? 'auto');
  }

  /**
   * Fill the form with the input of a take, so that the user can generate it again.
   *
   * The seed of a clone is not used, because it was for another checkpoint.
   *
   * @param {TakeCard} card
   */
  fromTake({ take, description }) {
    const { text, config, seed, mode } = take;
    if (mode === this.mode) this.fillFrom({ text, config, seed });
    else this.fillFrom({ text, config: { instructions: description, language: config.language }, seed: null });
  }

  /**
   * Fill the form with a text, settings and a seed, and offer undo.
   *
   * @param {{text: string, config: Config, seed: number|null}} request
   */
  fillFrom({ text, config, seed }) {
    const { studio } = this;
    studio.undo.replacing(this, this.isOwnDescription || this.isOwnText, () => {
      studio.text = text;
      if (config.instructions) this.fill(config.instructions, config.language ?? 'auto');
      studio.variation.restore({ seed, config });
    });
    this.description.focus();
  }

  /**
   * Fill the form with the description, the text and the seed of a stored voice.
   *
   * @param {import('../speak/voices.js').StoredVoice} voice
   */
  restoreVoice({ provenance, transcript }) {
    const { description = '', language = 'auto', seed } = provenance;
    const known = seed === undefined ? null : Number(seed);
    this.fillFrom({ text: transcript || this.studio.text, config: { instructions: description, language }, seed: known });
  }

  /** Write a description and a language into the form. @param {string} description @param {string} language */
  fill(description, language) {
    this.describe(description);
    this.language.value = language;
    if (this.language.selectedIndex < 0) this.language.value = 'auto';
  }

  /** Return the described voice for the lines of a script. @returns {import('../app/studio.js').SpokenBy} */
  spokenBy() {
    return { voice: { mode: this.mode, description: this.description.value.trim(), language: this.language.value }, instruct: '' };
  }

  /**
   * Request three takes and play the first one.
   *
   * @param {{clicked: number}} now clicked: time of the click (performance.now())
   */
  speak(now) {
    this.requests.requestTakes(now);
  }

  /** Return the text that the player shows before the first take. */
  line() {
    return this.studio.facts.line('');
  }

  /** Return the request that a press of the primary button would send. */
  presentRequest() {
    return this.requests.requestFor(this.config());
  }

  /** True if a Base checkpoint is loaded, which is needed to clone a voice. */
  get canClone() {
    return this.studio.cards.has('base');
  }

  // --- Messages.

  /**
   * Announce an event of a take to screen readers.
   *
   * @param {TakeCard} card
   * @param {string} key message key
   * @param {Object<string, unknown>} [values]
   */
  announce(card, key, values = {}) {
    this.liveRegion.textContent = this.t(key, { letter: card.name, ...values });
  }

  /** Run an action, and show its error in the room. @param {() => void|Promise<void>} action */
  async attempt(action) {
    const { studio } = this;
    studio.errorMessages.clear();
    studio.stage.player.start().catch(() => studio.errorMessages.showMessage('request', this.t('shell.no_output')));
    await studio.errorMessages.guard(action, this.id);
  }

  // --- Playback.

  /** Play the take of the newest set whose number was pressed. @param {KeyboardEvent} event */
  onKey({ code, shiftKey }) {
    const [, digit] = /^(?:Digit|Numpad)([1-9])$/.exec(code) ?? [];
    const card = this.shownSets.sets[0]?.cards.find(({ key }) => key === Number(digit));
    if (card) this.toggle(card, { shift: shiftKey });
    return Boolean(card);
  }

  /**
   * Play or stop the take of a card.
   *
   * @param {TakeCard} card @param {{shift: boolean}} how  shift: true to continue at the position of the last take
   */
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
