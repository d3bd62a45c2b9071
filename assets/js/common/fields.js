/**
 * Error class, languages and helper functions for the forms of all rooms.
 *
 * @typedef {Object} ModelCard     entry of the response of /v1/models
 * @property {string} id
 * @property {string[]} modes
 * @property {string[]} speakers
 * @property {Object<string, string[]>} [adapters]  speakers by adapter
 * @property {string[]} languages  languages without `auto`
 * @property {string} fingerprint
 * @property {string} device
 * @property {string} dtype
 * @property {boolean} takes_instruct
 * @property {boolean} styles_voices  true if stored voices may have a style
 * @property {boolean} grafts_voices  true if requests may use `graft`
 * @property {boolean} speaks      false for random weights
 * @property {Object<string, number|null>} sampling  default sampling settings of a request
 */

import { createElement } from './elements.js';

/** Error that the page shows at a form field. */
export class FieldError extends Error {
  /** Create the error of a form field, with a sentence for the user. @param {string} field @param {string} sentence */
  constructor(field, sentence) {
    super(sentence);
    this.field = field;
  }
}

/**
 * Return the mode in which a voice speaks.
 *
 * A stored voice of the mode `base` that has a style speaks in the mode `custom_voice`.
 *
 * @template {string} M
 * @param {M} mode @param {string} [style] @returns {M|'custom_voice'}
 */
export function modeFor(mode, style) {
  return mode === 'base' && style ? 'custom_voice' : mode;
}

/**
 * Replace the options of a select element.
 *
 * The selected option stays selected if it still exists.
 *
 * @param {HTMLSelectElement} select
 * @param {string[][]} choices pairs of value and label
 */
export function fillSelect(select, choices) {
  const before = select.value;
  select.replaceChildren(...choices.map(([value, label]) => new Option(label, value)));
  if (choices.some(([value]) => value === before)) select.value = before;
}

/**
 * BCP 47 tags of the checkpoints' languages.
 *
 * @type {Object<string, string>}
 */
const TAGS = {
  chinese: 'zh',
  english: 'en',
  french: 'fr',
  german: 'de',
  italian: 'it',
  japanese: 'ja',
  korean: 'ko',
  portuguese: 'pt',
  russian: 'ru',
  spanish: 'es',
};

/**
 * Return the BCP 47 tag of a checkpoint's language, or undefined if it is unknown.
 *
 * @param {string} name name of a language in checkpoints @returns {string|undefined}
 */
export const tagOf = (name) => TAGS[name.toLowerCase()];

/**
 * Return the name of a checkpoint's language, translated into the language of the page.
 *
 * @param {string} name @param {string} [page]
 */
export function languageName(name, page = document.documentElement.lang || 'en') {
  const tag = tagOf(name);
  return (tag && new Intl.DisplayNames([page], { type: 'language' }).of(tag)) || speakerTitle(name);
}

/**
 * Fill a select element with the languages of a checkpoint, and with "automatic".
 *
 * @param {HTMLSelectElement} select @param {ModelCard} card @param {(key: string) => string} t
 */
export function fillLanguages(select, card, t) {
  fillSelect(select, [['auto', t('shell.auto')], ...card.languages.map((name) => [name, languageName(name)])]);
}

/**
 * Select a value, and add an option for the value if there is none.
 *
 * @param {HTMLSelectElement} select @param {string} value
 */
export function selectValue(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value));
  select.value = value;
}

/**
 * Replace the children of an element by one button for each suggestion.
 *
 * @param {HTMLElement} holder
 * @param {{name: string, text: string}[]} suggestions
 * @param {(text: string) => void} choose called with the text of a clicked suggestion
 */
export function fillChips(holder, suggestions, choose) {
  const chips = suggestions.map(({ name, text }) => createElement('button', { type: 'button', textContent: name, title: text, onclick: () => choose(text) }));
  holder.replaceChildren(...chips);
}

/** Mark the button of the suggestion with this text as pressed. @param {HTMLElement} holder @param {string} text */
export function pressChip(holder, text) {
  for (const chip of holder.children) chip.ariaPressed = String(/** @type {HTMLElement} */ (chip).title === text);
}

/** Return the displayed name of a speaker, for example "Uncle Fu" for `uncle_fu`. @param {string} name */
export function speakerTitle(name) {
  return name.replaceAll('_', ' ').replace(/(^|\s)\p{L}/gu, (letter) => letter.toUpperCase());
}
