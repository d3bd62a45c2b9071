/**
 * Buttons for the voice descriptions in presets/designs.toml, by language.
 *
 * A click on a button emits the event 'choose' with the preset as detail.
 *
 * @typedef {{use: string, language: string, name: string, text: string, sample: string}} Design
 * @typedef {import('../common/fields.js').ModelCard} ModelCard
 */

import { getElements, Emitter, createElement, getElement } from '../common/elements.js';
import { languageName, tagOf } from '../common/fields.js';

/** Buttons from which the user chooses the description of a voice. @extends {Emitter<{choose: Design}>} */
export class PresetPicker extends Emitter {
  /**
   * Create the picker from the elements of the Design room.
   *
   * @param {ParentNode} root
   * @param {Design[]} designs
   * @param {(key: string, values?: Object<string, any>) => string} t
   */
  constructor(root, designs, t) {
    super();
    this.designs = designs;
    this.t = t;
    this.languages = getElement(root, '#vw-design-tongue', HTMLSelectElement);
    this.chips = getElement(root, '#vw-design-chips');
    /** @type {string[]} languages that the checkpoint supports */
    this.spoken = [];
    this.described = '';
    this.languages.onchange = () => this.list();
    this.fill();
  }

  /** Show the presets of the languages that a checkpoint speaks. @param {ModelCard} card */
  showPresets(card) {
    this.spoken = card.languages;
    this.fill();
  }

  /** Fill the language selector, and keep the selected language. */
  fill() {
    const { designs } = this;
    const chosen = this.languages.value;
    const languages = [...new Set(designs.map(({ language }) => language))];
    const [spoken, others] = [true, false].map((wanted) => languages.filter((one) => this.speaks(one) === wanted));
    this.languages.replaceChildren(...options(spoken), ...this.group(others));
    const page = spoken.find((language) => tagOf(language) === document.documentElement.lang);
    this.languages.value = languages.includes(chosen) ? chosen : (page ?? spoken[0] ?? languages[0]);
    this.list();
  }

  /** Return the option group of the languages that the checkpoint does not speak. @param {string[]} languages */
  group(languages) {
    if (languages.length === 0) return [];
    return [createElement('optgroup', { label: this.t('design.not_spoken') }, options(languages))];
  }

  /** Return true if the checkpoint speaks a language, or if no checkpoint is known yet. @param {string} language */
  speaks(language) {
    return this.spoken.length === 0 || this.spoken.includes(language);
  }

  list() {
    const wanted = this.designs.filter(({ language }) => language === this.languages.value);
    this.chips.replaceChildren(...wanted.map((design) => this.chip(design)));
    this.mark(this.described);
  }

  /** Mark the button of the preset that has this description. @param {string} description */
  mark(description) {
    this.described = description;
    const chosen = this.find(description);
    for (const chip of getElements(this.chips, 'button')) chip.setAttribute('aria-pressed', String(chip.title === chosen?.text));
  }

  /** Return a button that chooses a description. @param {Design} design */
  chip(design) {
    const onclick = () => this.emit('choose', design);
    return createElement('button', { type: 'button', textContent: design.name, title: design.text, onclick });
  }

  /** Return the preset that has this description, or null. @param {string} description @returns {Design|null} */
  find(description) {
    return this.designs.find(({ text }) => text === description.trim()) ?? null;
  }

  /** Return true if a text is the sample text of a preset. @param {string} text */
  isSample(text) {
    return this.designs.some(({ sample }) => sample === text);
  }

  /**
   * Return a sample text that is long enough for a reference recording.
   *
   * @param {string} language  selected language, or 'auto'
   * @param {string} description
   * @returns {string}
   */
  sample(language, description) {
    const own = this.find(description);
    const inLanguage = this.designs.filter((design) => design.language === language.toLowerCase());
    const candidates = language.toLowerCase() === 'auto' ? this.designs : inLanguage;
    return (own && candidates.includes(own) ? own : (candidates[0] ?? this.designs[0])).sample;
  }
}

/** @param {string[]} languages */
const options = (languages) => languages.map((language) => new Option(languageName(language), language));
