/** The CustomVoice room: one of the checkpoint's speakers, and how to say it. */

import { fillChips, fillLanguages, fillSelect, title } from './fields.js';

/** @typedef {import('./fields.js').ModelCard} ModelCard */

export class CustomVoiceRoom {
  mode = 'custom_voice';

  /** @param {ParentNode} page @param {Object} presets */
  constructor(page, presets) {
    this.speaker = page.querySelector('#vw-cv-speaker');
    this.language = page.querySelector('#vw-cv-language');
    this.instruct = page.querySelector('#vw-cv-instruct');
    this.hint = page.querySelector('#vw-cv-hint');
    this.chips = page.querySelector('#vw-cv-chips');
    fillChips(this.chips, presets.instructs, this.instruct);
  }

  /** @param {ModelCard} card */
  offer(card) {
    fillSelect(this.speaker, card.speakers.map((name) => [name, title(name)]));
    fillLanguages(this.language, card);
    this.instruct.disabled = !card.takes_instruct;
    this.chips.hidden = !card.takes_instruct;
    this.hint.hidden = card.takes_instruct;
    this.hint.textContent = `${card.id} takes no instruct.`;
  }

  /** The fields of session.config that are this room's. */
  config() {
    const instructions = this.instruct.disabled ? '' : this.instruct.value.trim();
    return {
      task_type: 'CustomVoice',
      voice: this.speaker.value,
      language: this.language.value,
      ...(instructions && { instructions }),
    };
  }
}
