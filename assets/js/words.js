/** What the page says, in the language that was chosen; English where that language has no word. */

import { api } from './api.js';

const PLACES = { i18n: 'textContent', i18nTitle: 'title', i18nPlaceholder: 'placeholder', i18nAriaLabel: 'ariaLabel' };
const SELECTOR = '[data-i18n],[data-i18n-title],[data-i18n-placeholder],[data-i18n-aria-label]';

export class Words {
  /** @type {Object<string, string>} */
  english = {};
  /** @type {Object<string, string>} */
  chosen = {};
  language = 'en';

  /** @param {string} language a folder of assets/i18n */
  async load(language) {
    const [english, chosen] = await Promise.all(
      ['en', language].map((code) => (code === 'en' && this.english['shell.language'] ? this.english : api.get(`studio/i18n/${code}`))),
    );
    this.english = english;
    this.chosen = chosen;
    this.language = language;
  }

  /**
   * One sentence, its {places} filled.
   *
   * @param {string} key
   * @param {Object<string, any>} [values]
   */
  t(key, values = {}) {
    const sentence = this.chosen[key] ?? this.english[key] ?? key;
    return sentence.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
  }

  /** Put the words where the markup asks for them. @param {ParentNode} root */
  apply(root) {
    for (const element of root.querySelectorAll(SELECTOR)) {
      for (const [name, property] of Object.entries(PLACES)) {
        if (name in element.dataset) element[property] = this.t(element.dataset[name]);
      }
    }
  }
}

/**
 * Presets in one language: what is there by language, as {en: …, zh: …}, becomes what it is in that one.
 *
 * @param {any} value @param {string} language @returns {any}
 */
export function localised(value, language) {
  if (Array.isArray(value)) return value.map((one) => localised(one, language));
  if (value === null || typeof value !== 'object') return value;
  if ('en' in value) return value[language] ?? value.en;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, localised(one, language)]));
}

/** The first language of the browser that the page speaks. @param {string[]} offered codes */
export function preferred(offered) {
  const wanted = navigator.languages.map((tag) => tag.toLowerCase().split('-')[0]);
  return wanted.find((code) => offered.includes(code)) ?? 'en';
}
