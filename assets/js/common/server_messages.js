/**
 * The server's messages in the language of the page: errors by their stable code and facts, other sentences by their
 * they are in English. What the page has no words for is said as the server said it.
 *
 * Words: assets/i18n/<language>/server.json, where `server.phrase.*` in English is what the server says, place by place.
 */

import { span } from './dates.js';

const ERROR = 'server.error.';
const PHRASE = 'server.phrase.';
const MEGABYTE = 2 ** 20;

/** @type {import('./words.js').Words|null} */
let words = null;
/**
 * English phrases without places, and those with some as patterns; values are keys.
 *
 * @type {{whole: Map<string, string>, patterns: {key: string, pattern: RegExp}[]}}
 */
let phrases = { whole: new Map(), patterns: [] };

/** Speak by these words from here on. @param {import('./words.js').Words} chosen */
export function sayWith(chosen) {
  words = chosen;
  const { english } = chosen;
  const keys = Object.keys(english).filter((key) => key.startsWith(PHRASE));
  const [plain, placed] = [false, true].map((is) => keys.filter((key) => english[key].includes('{') === is));
  phrases = {
    whole: new Map(plain.map((key) => [english[key], key])),
    patterns: placed.map((key) => ({ key, pattern: patternOf(english[key]) })),
  };
}

/**
 * A sentence or a part of one, as the server said it in English, in the page's language; null: the page knows it not.
 *
 * @param {string} said @returns {string|null}
 */
export function phrase(said) {
  const found = find(said);
  return words && found && words.t(found.key, placesOf(found.groups));
}

/**
 * Return the key of a server's sentence; null if the page does not know it.
 *
 * @param {string} said @returns {string|null} its key, without what all of them begin with
 */
export function nameOf(said) {
  return find(said)?.key.slice(PHRASE.length) ?? null;
}

/** @param {string} said @returns {{key: string, groups: Object<string, string>}|null} */
function find(said) {
  const key = phrases.whole.get(said);
  if (key) return { key, groups: {} };
  for (const one of phrases.patterns) {
    const match = one.pattern.exec(said);
    if (match) return { key: one.key, groups: match.groups ?? {} };
  }
  return null;
}

/** Return the values of a phrase's placeholders; an unknown sentence is replaced by its code. @param {Object<string, string>} groups */
function placesOf(groups) {
  const places = Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, phrase(value) ?? value]));
  const { said, code } = groups;
  if (said && code && words?.language !== 'en' && phrase(said) === null) places.said = plainly(code) ?? said;
  return places;
}

/** The sentence for a code alone; null: the page has none that needs no facts. @param {string} code @returns {string|null} */
function plainly(code) {
  const sentences = [`${ERROR}${code}.plain`, ERROR + code].map((key) => words?.chosen[key]);
  return sentences.find((sentence) => sentence && !sentence.includes('{')) ?? null;
}

/** The same, or what the server said. @param {string} said */
export function inPageWords(said) {
  return phrase(said) ?? said;
}

/**
 * The sentence for an error.
 *
 * @param {{code?: string, message: string, facts?: Object<string, string|number>}} error as it came
 * @returns {string}
 */
export function sentenceOf({ code, message, facts = {} }) {
  const template = words && (words.chosen[ERROR + code] ?? words.english[ERROR + code]);
  if (!words || !template) return message;
  const values = valuesOf(facts);
  const isSaid = typeof facts.why !== 'string' || words.language === 'en' || phrase(facts.why) !== null;
  const key = isSaid ? ERROR + code : `${ERROR}${code}.plain`;
  const sentence = words.t(key, values);
  // A place that no fact fills: another server than this page was made for.
  if (sentence === key || /\{\w+\}/.test(sentence)) return message;
  return sentence[0].toUpperCase() + sentence.slice(1);
}

/** Facts as they are written in a sentence. @param {Object<string, any>} facts @returns {Object<string, any>} */
function valuesOf(facts) {
  /** @type {Object<string, any>} */
  const values = {};
  for (const [name, fact] of Object.entries(facts)) {
    if (typeof fact === 'string') values[name] = inPageWords(fact);
    else if (name === 'seconds') values[name] = fact.toFixed(fact < 10 ? 2 : 1);
    else if (name === 'retry_after_s') values.retry_after = time(fact);
    else values[name] = typeof fact === 'number' && words ? fact.toLocaleString(words.language) : fact;
  }
  if (Number(facts.limit) >= 0) {
    values.limit_mb = Number((facts.limit / MEGABYTE).toFixed(1));
    values.limit_time = time(facts.limit); // The limit is a time.
  }
  return values;
}

/** A time as people say it. @param {number} seconds */
function time(seconds) {
  return span(seconds, (key, values) => words?.t(key, values) ?? key);
}

/** A phrase with places as a pattern. @param {string} template */
function patternOf(template) {
  const parts = template.split(/\{(\w+)\}/).map((part, at) => (at % 2 ? `(?<${part}>.+?)` : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  return new RegExp(`^${parts.join('')}$`, 's');
}
