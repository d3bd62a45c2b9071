/** The Speakers room: one of the checkpoint's speakers (CustomVoice), and how to say it. */

import { fillChips, fillLanguages, fillSelect, title } from './fields.js';

/** @typedef {import('./fields.js').ModelCard} ModelCard */

export class SpeakersRoom {
  static id = 'speakers';
  id = 'speakers';
  mode = 'custom_voice';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    Object.assign(this, { root, studio });
    this.speaker = root.querySelector('#vw-speakers-speaker');
    this.language = root.querySelector('#vw-speakers-language');
    this.instruct = root.querySelector('#vw-speakers-instruct');
    this.hint = root.querySelector('#vw-speakers-hint');
    this.chips = root.querySelector('#vw-speakers-chips');
    fillChips(this.chips, studio.presets.instructs, this.instruct);
    this.language.onchange = () => this.suggestText();
  }

  /** Takes what the checkpoint can do. */
  offer() {
    const card = this.studio.cards.get(this.mode);
    if (!card) return;
    fillSelect(this.speaker, card.speakers.map((name) => [name, title(name)]));
    fillLanguages(this.language, card, this.studio.t);
    this.instruct.disabled = !card.takes_instruct;
    this.chips.hidden = !card.takes_instruct;
    this.hint.hidden = card.takes_instruct;
    this.hint.textContent = this.studio.t('speakers.no_instruct', { model: card.id });
  }

  /** Speak the sample sentence of a newly chosen language, unless the text is the user's own. */
  suggestText() {
    const { texts } = this.studio.presets;
    const sample = texts[this.language.value.toLowerCase()];
    if (sample && Object.values(texts).includes(this.studio.text)) this.studio.text = sample;
  }

  /** The fields of session.config that are this room's. */
  config() {
    const instructions = this.instruct.disabled ? '' : this.instruct.value.trim();
    return {
      voice: this.speaker.value,
      language: this.language.value,
      ...(instructions && { instructions }),
    };
  }

  async speak({ clicked }) {
    const { studio, mode } = this;
    const asked = { room: this.id, mode, config: this.config(), text: studio.text, seed: studio.nextSeed() };
    studio.stage.play(studio.say({ ...asked, label: title(this.speaker.value) }), { clicked });
  }

  /** @param {import('../take.js').Take} take */
  restore({ text, config }) {
    this.studio.text = text;
    this.speaker.value = config.voice;
    this.language.value = config.language ?? 'auto';
    this.instruct.value = config.instructions ?? '';
  }
}
