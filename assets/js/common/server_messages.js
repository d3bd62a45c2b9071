/**
 * Translation of the server's messages into the page's language.
 *
 * An error is translated by its code and by the values that it contains (`facts`). Other messages are translated by
 * their English text. A message without a translation is not changed.
 *
 * The texts are in assets/i18n/<language>/server.json. The English texts with keys `server.phrase.*` are patterns of
 * the server's messages.
 */

import { formatDuration } from './dates.js';

const ERROR = 'server.error.';
const PHRASE = 'server.phrase.';
const MEGABYTE = 2 ** 20;

/** @type {import('./words.js').Words|null} */
let words = null;
/**
 * English phrases without placeholders, and patterns of phrases with placeholders.
 *
 * The values are message keys.
 *
 * @type {{whole: Map<string, string>, patterns: {key: string, pattern: RegExp}[]}}
 */
let phrases = { whole: new Map(), patterns: [] };

/** Set the texts that are used for translations. @param {import('./words.js').Words} chosen */
export function setTexts(chosen) {
  words = chosen;
  const { english } = chosen;
  const keys = Object.keys(english).filter((key) => key.startsWith(PHRASE));
  const [plain, templates] = [false, true].map((is) => keys.filter((key) => english[key].includes('{') === is));
  phrases = {
    whole: new Map(plain.map((key) => [english[key], key])),
    patterns: templates.map((key) => ({ key, pattern: patternOf(english[key]) })),
  };
}

/**
 * Return the translation of an English server message, or null if there is none.
 *
 * @param {string} message @returns {string|null}
 */
export function phrase(message) {
  const match = find(message);
  return words && match && words.t(match.key, placeholderValues(match.groups));
}

/**
 * Return the message key of a server message, or null if the message is unknown.
 *
 * @param {string} message @returns {string|null} key without the common prefix
 */
export function nameOf(message) {
  return find(message)?.key.slice(PHRASE.length) ?? null;
}

/**
 * Return the key and the variable parts of a server's message, or null if it is unknown.
 *
 * @param {string} message @returns {{key: string, groups: Object<string, string>}|null}
 */
function find(message) {
  const key = phrases.whole.get(message);
  if (key) return { key, groups: {} };
  for (const one of phrases.patterns) {
    const match = one.pattern.exec(message);
    if (match) return { key: one.key, groups: match.groups ?? {} };
  }
  return null;
}

/**
 * Return the translated values of a message's placeholders.
 *
 * If a value is a sentence without a translation, the general message for the error's code replaces it.
 *
 * @param {Object<string, string>} groups
 */
function placeholderValues(groups) {
  const places = Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, phrase(value) ?? value]));
  const { said, code } = groups;
  if (said && code && words?.language !== 'en' && phrase(said) === null) places.said = messageOfCode(code) ?? said;
  return places;
}

/**
 * Return the translated message for an error code, or null if it has placeholders.
 *
 * @param {string} code @returns {string|null}
 */
function messageOfCode(code) {
  const sentences = [`${ERROR}${code}.plain`, ERROR + code].map((key) => words?.chosen[key]);
  return sentences.find((sentence) => sentence && !sentence.includes('{')) ?? null;
}

/** Return a message of the server in the page's language, or unchanged if unknown. @param {string} message */
export function translateMessage(message) {
  return phrase(message) ?? message;
}

/**
 * Return the message of a server error in the page's language.
 *
 * @param {{code?: string, message: string, facts?: Object<string, string|number>}} error error of the server
 * @returns {string}
 */
export function errorSentence({ code, message, facts = {} }) {
  const template = words && (words.chosen[ERROR + code] ?? words.english[ERROR + code]);
  if (!words || !template) return message;
  const values = valuesOf(facts);
  const isSaid = !template.includes('{why}') || typeof facts.why !== 'string' || words.language === 'en' || phrase(facts.why) !== null;
  const key = isSaid ? ERROR + code : `${ERROR}${code}.plain`;
  const sentence = words.t(key, values);
  // If a value is missing, the server has another version. Then its own message is shown.
  if (sentence === key || /\{\w+\}/.test(sentence)) return message;
  return sentence[0].toUpperCase() + sentence.slice(1);
}

/**
 * Format the values that an error contains, for the placeholders of its message.
 *
 * @param {Object<string, any>} facts @returns {Object<string, any>}
 */
function valuesOf(facts) {
  /** @type {Object<string, any>} */
  const values = {};
  for (const [name, fact] of Object.entries(facts)) {
    if (typeof fact === 'string') values[name] = translateMessage(fact);
    else if (name === 'seconds') values[name] = fact.toFixed(fact < 10 ? 2 : 1);
    else if (name === 'retry_after_s') values.retry_after = time(fact);
    else values[name] = typeof fact === 'number' && words ? fact.toLocaleString(words.language) : fact;
  }
  if (Number(facts.limit) >= 0) {
    values.limit_mb = Number((facts.limit / MEGABYTE).toFixed(1));
    values.limit_time = time(facts.limit); // Messages about a limit in seconds use this value.
  }
  return values;
}

/** Format a duration. @param {number} seconds */
function time(seconds) {
  return formatDuration(seconds, (key, values) => words?.t(key, values) ?? key);
}

/** Convert a message with placeholders to a regular expression that matches its texts. @param {string} template */
function patternOf(template) {
  const parts = template.split(/\{(\w+)\}/).map((part, at) => (at % 2 ? `(?<${part}>.+?)` : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  return new RegExp(`^${parts.join('')}$`, 's');
}
