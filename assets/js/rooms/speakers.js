/** The Speakers room: one of the checkpoint's speakers (CustomVoice), and how to say it. */

import { fillChips, fillLanguages, languageName, preselect, title } from './fields.js';

/** @typedef {import('../take.js').Take} Take */

// Of a sample: the same line sounds the same each time.
const SAMPLE_SEED = 7;

export class SpeakersRoom {
  static id = 'speakers';
  id = 'speakers';
  /** @type {'custom_voice'} */
  mode = 'custom_voice';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.holder = root.querySelector('#vw-speakers-cards');
    this.language = root.querySelector('#vw-speakers-language');
    this.instruct = root.querySelector('#vw-speakers-instruct');
    this.hint = root.querySelector('#vw-speakers-hint');
    this.chips = root.querySelector('#vw-speakers-chips');
    this.speaker = '';
    /** Samples that were heard here, by model and speaker. @type {Map<string, Take>} */
    this.samples = new Map();
    this.suggestManners();
    this.language.onchange = () => this.suggestText();
  }

  suggestManners() {
    fillChips(this.chips, this.studio.presets.instructs, (text) => this.suggest(text));
  }

  onLanguage() {
    this.suggestManners();
  }

  get card() {
    return this.studio.cards.get(this.mode);
  }

  /** Takes what the checkpoint can do. */
  offer() {
    const { card, studio } = this;
    if (!card) return;
    const speakers = this.cast(card);
    if (!card.speakers.includes(this.speaker)) this.speaker = speakers[0].name;
    this.holder.replaceChildren(...speakers.map((speaker) => this.row(speaker)));
    fillLanguages(this.language, card, studio.t);
    this.instruct.disabled = !card.takes_instruct;
    this.chips.hidden = !card.takes_instruct;
    this.hint.hidden = card.takes_instruct;
    this.hint.textContent = studio.t('speakers.no_instruct', { model: card.id });
  }

  /** The checkpoint's speakers with what is known of them: those of the presets first, in their order. */
  cast({ id, speakers }) {
    const known = this.studio.presets.speakers;
    const place = (name) => known.findIndex((one) => one.name.toLowerCase() === name.toLowerCase());
    const unknown = { language: null, character: this.studio.t('speakers.plain', { model: id }), sample: null };
    return speakers
      .map((name) => ({ ...(known[place(name)] ?? unknown), name, place: place(name) }))
      .sort((one, other) => Number(one.place < 0) - Number(other.place < 0) || one.place - other.place);
  }

  row(speaker) {
    const { t } = this.studio;
    const { name, language, accent, character, sample } = speaker;
    const row = document.createElement('div');
    row.className = 'vw-card';
    row.innerHTML = `
      <input type="radio" name="vw-speaker" class="vw-offscreen" />
      <label><b></b><small class="vw-of"></small><small class="vw-character"></small><q></q></label>
      <button type="button" class="vw-quiet" data-icon="play"></button>`;
    const [radio, label, hear] = row.children;
    radio.id = label.htmlFor = `vw-speaker-${name.toLowerCase()}`;
    radio.value = name;
    radio.checked = name === this.speaker;
    radio.onchange = () => (this.speaker = name);
    label.querySelector('b').textContent = title(name);
    const of = [language && languageName(language), accent].filter(Boolean).join(', ');
    label.querySelector('.vw-of').textContent = of;
    label.querySelector('.vw-character').textContent = character;
    const quote = label.querySelector('q');
    if (sample) quote.textContent = sample;
    else quote.remove();
    hear.ariaLabel = hear.title = t('speakers.hear', { name: title(name) });
    hear.onclick = () => this.hear(speaker);
    return row;
  }

  /** Speak a speaker's line; a line that was heard before is played again. */
  hear({ name, language, sample }) {
    const { studio, mode, card } = this;
    const key = `${card.id} ${name}`;
    const heard = this.samples.get(key);
    if (heard?.state !== 'done' && !studio.reached()) return;
    studio.stop();
    studio.clearComplaints();
    if (heard?.state === 'done') return studio.stage.play(heard);
    const take = studio.say({
      room: this.id,
      mode,
      config: { voice: name, language: card.languages.includes(language) ? language : 'auto' },
      text: sample ?? studio.presets.texts.auto,
      seed: SAMPLE_SEED,
      label: studio.t('speakers.sample_of', { name: title(name) }),
      isSample: true,
    });
    this.samples.set(key, take);
    studio.stage.play(take, { clicked: performance.now() });
  }

  /** Speak the sample sentence of a newly chosen language, unless the text is the user's own. */
  suggestText() {
    const { texts } = this.studio.presets;
    const sample = texts[this.language.value.toLowerCase()];
    if (sample && Object.values(texts).includes(this.studio.text)) this.studio.text = sample;
  }

  /** Put a suggestion in the place of what is there. @param {string} text */
  suggest(text) {
    const { studio, instruct } = this;
    const isOwn = instruct.value.trim() !== '' && !studio.presets.instructs.some((one) => one.text === instruct.value);
    studio.replacing(this, isOwn, () => (instruct.value = text));
  }

  /** What the dock says before anything was spoken. */
  line() {
    return this.studio.facts.line(title(this.speaker));
  }

  draft() {
    return { speaker: this.speaker, language: this.language.value, instruct: this.instruct.value };
  }

  /** @param {{speaker: string, language: string, instruct: string}} draft */
  recall({ speaker, language, instruct }) {
    this.speaker = speaker;
    this.choose(speaker);
    preselect(this.language, language);
    this.instruct.value = instruct;
  }

  /** The fields of session.config that are this room's. */
  config() {
    const instructions = this.instruct.disabled ? '' : this.instruct.value.trim();
    return { voice: this.speaker, language: this.language.value, ...(instructions && { instructions }) };
  }

  /** Who speaks here, for a line of a script. */
  spokenBy() {
    const voice = { mode: this.mode, voice: this.speaker, language: this.language.value };
    return { voice, instruct: this.instruct.disabled ? '' : this.instruct.value.trim() };
  }

  async speak({ clicked }) {
    const { studio, mode } = this;
    const asked = { room: this.id, mode, config: { ...this.config(), ...studio.variation.sampling }, text: studio.text, seed: studio.variation.nextSeed() };
    studio.stage.play(studio.say({ ...asked, label: title(this.speaker) }), { clicked });
  }

  /** Come in with a speaker chosen. @param {{voice?: string}} given */
  enter({ voice }) {
    if (voice) this.choose(voice);
  }

  choose(voice) {
    const radio = [...this.holder.querySelectorAll('input')].find(({ value }) => value.toLowerCase() === voice.toLowerCase());
    if (!radio) return;
    radio.checked = true;
    this.speaker = radio.value;
  }

  /** @param {Take} take */
  restore({ config }) {
    this.choose(config.voice ?? '');
    this.language.value = config.language ?? 'auto';
    this.instruct.value = config.instructions ?? '';
  }
}
