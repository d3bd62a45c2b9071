/** The Design room: a voice from its description (VoiceDesign). */

import { FieldError, fillChips, fillLanguages } from './fields.js';

export class DesignRoom {
  static id = 'design';
  id = 'design';
  mode = 'voice_design';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    Object.assign(this, { root, studio });
    this.description = root.querySelector('#vw-design-description');
    this.language = root.querySelector('#vw-design-language');
    this.description.value = studio.presets.designs[0].text;
    fillChips(root.querySelector('#vw-design-chips'), studio.presets.designs, this.description);
  }

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (card) fillLanguages(this.language, card, this.studio.t);
  }

  /** The fields of session.config that are this room's. @throws {FieldError} */
  config() {
    const instructions = this.description.value.trim();
    if (!instructions) throw new FieldError('instructions', this.studio.t('design.describe_first'));
    return { instructions, language: this.language.value };
  }

  async speak({ clicked }) {
    const { studio, mode } = this;
    const take = studio.say({ room: this.id, mode, config: this.config(), text: studio.text, seed: studio.nextSeed() });
    studio.stage.play(take, { clicked });
  }

  /** @param {import('../take.js').Take} take */
  restore({ text, config }) {
    this.studio.text = text;
    this.description.value = config.instructions ?? '';
    this.language.value = config.language ?? 'auto';
  }
}
