/** The VoiceDesign room: a voice from its description. */

import { FieldError, fillChips, fillLanguages } from './fields.js';

/** @typedef {import('./fields.js').ModelCard} ModelCard */

export class VoiceDesignRoom {
  mode = 'voice_design';

  /** @param {ParentNode} page @param {Object} presets */
  constructor(page, presets) {
    this.description = page.querySelector('#vw-vd-description');
    this.language = page.querySelector('#vw-vd-language');
    this.description.value = presets.designs[0].text;
    fillChips(page.querySelector('#vw-vd-chips'), presets.designs, this.description);
  }

  /** @param {ModelCard} card */
  offer(card) {
    fillLanguages(this.language, card);
  }

  /** The fields of session.config that are this room's. */
  config() {
    const instructions = this.description.value.trim();
    if (!instructions) {
      throw new FieldError('instructions', 'Describe the voice, or choose one of the suggestions.');
    }
    return { task_type: 'VoiceDesign', instructions, language: this.language.value };
  }
}
