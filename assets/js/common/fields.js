/**
 * Shared parts of the rooms' forms.
 *
 * @typedef {Object} ModelCard     one entry of /v1/models
 * @property {string} id
 * @property {string[]} modes
 * @property {string[]} speakers
 * @property {string[]} languages  without `auto`
 * @property {string} fingerprint
 * @property {string} device
 * @property {string} dtype
 * @property {boolean} takes_instruct
 * @property {boolean} styles_voices  stored voices may have a style
 * @property {boolean} grafts_voices  and `graft`
 * @property {boolean} speaks      false: random weights
 * @property {Object<string, number|null>} sampling  defaults of a request
 */

import { make } from './elements.js';

/** Error of a form field. */
export class FieldError extends Error {
  /** @param {string} field @param {string} sentence */
  constructor(field, sentence) {
    super(sentence);
    this.field = field;
  }
}

/**
 * Return the mode for a voice: CustomVoice for a stored voice (Base) with a style.
 *
 * @template {string} M
 * @param {M} mode @param {string} [style] @returns {M|'custom_voice'}
 */
export function spokenBy(mode, style) {
  return mode === 'base' && style ? 'custom_voice' : mode;
}

/** Replace a select's options and keep the selected one if it still exists. @param {HTMLSelectElement} select @param {string[][]} choices */
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

/** @param {string} name used by checkpoints @returns {string|undefined} */
export const tagOf = (name) => TAGS[name.toLowerCase()];

/** Return the name of a checkpoint's language in the page's language. @param {string} name @param {string} [page] */
export function languageName(name, page = document.documentElement.lang || 'en') {
  const tag = tagOf(name);
  return (tag && new Intl.DisplayNames([page], { type: 'language' }).of(tag)) || title(name);
}

/** @param {HTMLSelectElement} select @param {ModelCard} card @param {(key: string) => string} t */
export function fillLanguages(select, card, t) {
  fillSelect(select, [['auto', t('shell.auto')], ...card.languages.map((name) => [name, languageName(name)])]);
}

/** Select a value, also one that is not an option yet. @param {HTMLSelectElement} select @param {string} value */
export function preselect(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value));
  select.value = value;
}

/**
 * Show suggestions as buttons. @param {HTMLElement} holder @param {{name: string, text: string}[]} suggestions @param
 * {(text: string) => void} choose
 */
export function fillChips(holder, suggestions, choose) {
  const chips = suggestions.map(({ name, text }) => make('button', { type: 'button', textContent: name, title: text, onclick: () => choose(text) }));
  holder.replaceChildren(...chips);
}

/** Mark the chip whose suggestion is chosen. @param {HTMLElement} holder @param {string} text */
export function pressChip(holder, text) {
  for (const chip of holder.children) chip.ariaPressed = String(/** @type {HTMLElement} */ (chip).title === text);
}

/** Return the display name of a speaker: uncle_fu becomes Uncle Fu. @param {string} name */
export function title(name) {
  return name.replaceAll('_', ' ').replace(/(^|\s)\p{L}/gu, (letter) => letter.toUpperCase());
}
