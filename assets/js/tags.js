/**
 * Tags in a text: `[excited]` is a style for what follows, `[pause:500ms]` or `<break time="1s"/>` a silence. The
 * runtime reads them (runtime/shared/inline_tags.py); here they are found, and left out where words are counted.
 */

import { namesStyle } from './style_words.js';

const TAG = /\[(?=[^[\]\n]*\p{L})[^[\]\n]{1,500}\]|<break(?=[\s/>])[^<>\n]{0,300}>/giu;
const TAG_AND_SPACE = new RegExp(`(^|\\s)?(${TAG.source})[ \\t]*`, TAG.flags);
const PAUSE = /^(?:<break\b.*|\[\s*(?:pause|break)(?:\s*[\s:=]\s*[\d.,]+\s*(?:\p{L}+\s*)?)?\s*\])$/iu;
const STYLE = /^\[\s*(?:neutral\s*\]|(?:style|风格|語氣|语气)\s*[:：=])/iu;

/** @param {string} text */
export function hasTags(text) {
  return tagsOf(text).length > 0;
}

/**
 * The fields of session.config for a text: they say whether it has tags.
 *
 * @param {import('./take.js').Config} config @param {string} text @returns {import('./take.js').Config}
 */
export function configFor({ tags: _, ...config }, text) {
  return hasTags(text) ? { ...config, tags: true } : config;
}

/** A text without its tags, as it is read. @param {string} text */
export function untagged(text) {
  return text.replace(TAG_AND_SPACE, (found, before, tag) => (isTag(tag) ? (before ?? '') : found));
}

/** Where the tags of a text are. @param {string} text */
export function tagsOf(text) {
  return [...text.matchAll(TAG)].filter(([tag]) => isTag(tag));
}

/** True if brackets hold a tag and no prose. @param {string} bracket */
function isTag(bracket) {
  return PAUSE.test(bracket) || STYLE.test(bracket) || namesStyle(bracket.slice(1, -1));
}

/** The last tag of a text that names a style; empty where none does. @param {string} text */
export function lastStyle(text) {
  return tagsOf(text).map(([tag]) => tag).findLast((tag) => !PAUSE.test(tag)) ?? '';
}
