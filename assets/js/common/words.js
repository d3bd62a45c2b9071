/**
 * Texts of the page in the chosen language, or in English if a translation is missing.
 *
 * @typedef {{name: string, text: string}} Suggestion
 * @typedef {{name: string, language: string|null, character: string, sample: string|null, accent: string|null}} KnownSpeaker
 *
 * @typedef {Object} Presets           studio/bundle/presets.json in one language
 * @property {Object<string, string>} texts     initial texts of the page by language; the key `auto` is the default
 * @property {Object<string, string>} readings  texts to read aloud for cloning, by language
 * @property {import('../design/presets.js').Design[]} designs
 * @property {Suggestion[]} instructs
 * @property {Suggestion[]} scripts
 * @property {{name: string, text: Object<string, string[]>, cast: boolean}[]} starters  example texts by language
 * @property {KnownSpeaker[]} speakers
 * @property {{styles: string, qualifiers: string, wide: string}} style_words  regular expressions for the words of style tags (text.js)
 * @property {Object<string, string>} languages  names of the page's languages by code
 */

import { api } from './api.js';
import { copyOf, getElements } from './elements.js';

/** Element property for each dataset name. */
const PLACES = /** @type {const} */ ({ i18n: 'textContent', i18nTitle: 'title', i18nPlaceholder: 'placeholder', i18nAriaLabel: 'ariaLabel' });
const SELECTOR = '[data-i18n],[data-i18n-title],[data-i18n-placeholder],[data-i18n-aria-label]';

/** Texts of the page in the chosen language, with English as the fallback. */
export class Words {
  /** @type {Object<string, string>} */
  english = {};
  /** @type {Object<string, string>} */
  chosen = {};
  language = ''; // Code of the chosen language, or empty until a language is loaded.

  /**
   * Load the texts of a language, and the English texts for missing translations.
   *
   * @param {string} language name of a folder in assets/i18n
   */
  async load(language) {
    const [english, chosen] = await Promise.all([this.language ? this.english : loadTexts('en'), language === 'en' ? null : loadTexts(language)]);
    this.english = english;
    this.chosen = chosen ?? english;
    this.language = language;
  }

  /**
   * Return the text with this key, and replace its placeholders by values.
   *
   * `{n}` is replaced by a number, and `{n|line|lines}` by "1 line" or "2 lines".
   *
   * @param {string} key
   * @param {Object<string, any>} [values]
   */
  t(key, values = {}) {
    const sentence = this.chosen[key] ?? this.english[key] ?? key;
    return sentence.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (place, name, one, other) => {
      const value = values[name] ?? place;
      return one === undefined ? value : `${value} ${String(value) === '1' ? one : other}`;
    });
  }

  /** Return a copy of a template's content in the chosen language. @param {HTMLTemplateElement} template */
  copyOf(template) {
    const copy = copyOf(template);
    this.apply(copy);
    return copy;
  }

  /**
   * Set the texts of all elements that have an attribute with a message key.
   *
   * The data attributes of an element replace the placeholders of its texts.
   *
   * @param {ParentNode} root
   */
  apply(root) {
    for (const element of getElements(root, SELECTOR)) {
      for (const [name, property] of Object.entries(PLACES)) {
        const key = element.dataset[name];
        if (key !== undefined) Object.assign(element, { [property]: this.t(key, element.dataset) });
      }
    }
  }
}

/**
 * Load the texts of a language from the studio, as a map of message keys to texts.
 *
 * @param {string} language @returns {Promise<Object<string, string>>}
 */
async function loadTexts(language) {
  return (await api.request(`studio/bundle/${language}.json`, { cache: 'default' })).json();
}

/**
 * Replace translated values by the value in one language, also in nested objects.
 *
 * A translated value is an object such as {en: …, zh: …}. English is used if there is no value for the language.
 *
 * @param {any} value @param {string} language @returns {any}
 */
export function inLanguage(value, language) {
  if (Array.isArray(value)) return value.map((one) => inLanguage(one, language));
  if (value === null || typeof value !== 'object') return value;
  if ('en' in value) return value[language] ?? value.en;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inLanguage(one, language)]));
}

/**
 * Return the first language of the browser's settings that the page supports.
 *
 * The result is English if the page supports no such language.
 *
 * @param {string[]} offered language codes
 */
export function preferredLanguage(offered) {
  const wanted = navigator.languages.map((tag) => tag.toLowerCase().split('-')[0]);
  return wanted.find((code) => offered.includes(code)) ?? 'en';
}
