/** Functions on text that will be spoken: tags, length, sentences and duration. */

// --- Words that describe a style. They distinguish a style in square brackets from prose. The studio sends the runtime's
// lists (runtime/shared/text/style_words.py).

/** @type {Set<string>} */
let styleWords = new Set();
/** @type {Set<string>} */
let qualifierWords = new Set();
let wide = /$^/u; // Pattern of a style in Chinese or Japanese, which have no spaces.
const IS_WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;

/**
 * Set the words that style tags may contain.
 *
 * The lists are from the studio, and their words are separated by spaces.
 *
 * @param {{styles: string, qualifiers: string, wide: string}} lists
 */
export function useStyleWords(lists) {
  [styleWords, qualifierWords] = [lists.styles, lists.qualifiers].map((words) => new Set(words.split(/\s+/u)));
  wide = new RegExp(`^(?:${lists.wide})$`, 'u');
}

/** Return true if all words of a text describe a style and at least one names a style. @param {string} text */
function namesStyle(text) {
  const parts = text.toLowerCase().replaceAll('’', "'").match(/[^\s,;/，、；。.!！]+/gu) ?? [];
  const isStyle = (/** @type {string} */ part) => (IS_WIDE.test(part) ? wide.test(part) : styleWords.has(part));
  return parts.some(isStyle) && parts.every((part) => isStyle(part) || qualifierWords.has(part));
}

// --- Tags in a text: `[excited]` is a style for the following text. `[pause:500ms]` and `<break time="1s"/>` are silence.
// The runtime applies the tags (runtime/shared/text/inline_tags.py). The page finds them and does not count them as words.

const TAG = /\[(?=[^[\]\n]*\p{L})[^[\]\n]{1,500}\]|<break(?=[\s/>])[^<>\n]{0,300}>/giu;
const TAG_AND_SPACE = new RegExp(`(^|\\s)?(${TAG.source})[ \\t]*`, TAG.flags);
const PAUSE = /^(?:<break\b.*|\[\s*(?:pause|break)(?:\s*[\s:=]\s*\d{1,6}(?:[.,]\d{1,6})?\s*(?:ms|milliseconds?|s|secs?|seconds?)?)?\s*\])$/iu;
const STYLE = /^\[\s*(?:neutral\s*\]|(?:style|风格|語氣|语气)\s*[:：=])/iu;

/** Return true if a text contains a tag, such as [pause 1s]. @param {string} text */
export function hasTags(text) {
  return tagsOf(text).length > 0;
}

/**
 * Return the fields of `session.config` for a text.
 *
 * The field `tags` is true if the text contains tags.
 *
 * @param {import('../player/take.js').Config} config @param {string} text @returns {import('../player/take.js').Config}
 */
export function configFor({ tags: _, ...config }, text) {
  return hasTags(text) ? { ...config, tags: true } : config;
}

/** Return a text without its tags for styles and pauses. @param {string} text */
export function untagged(text) {
  return text.replace(TAG_AND_SPACE, (found, before, tag) => (isTag(tag) ? (before ?? '') : found));
}

/** Return the tags of a text, as matches of a regular expression. @param {string} text */
export function tagsOf(text) {
  return [...text.matchAll(TAG)].filter(([tag]) => isTag(tag));
}

/** Return true if a text in brackets is a tag, or false if it is ordinary text. @param {string} bracket */
export function isTag(bracket) {
  return PAUSE.test(bracket) || STYLE.test(bracket) || namesStyle(bracket.slice(1, -1));
}

/** Return the last style tag of a text with its brackets, or '' if there is none. @param {string} text */
export function lastStyle(text) {
  return tagsOf(text).map(([tag]) => tag).findLast((tag) => !PAUSE.test(tag)) ?? '';
}

// --- Text that is sent, and its length, as the runtime checks them.

/** Return a text without white space at its ends, as the runtime receives it. @param {string} text */
export function sentText(text) {
  return text.trim();
}

/** Return the number of Unicode characters of a text, as the runtime counts them. @param {string} text */
export function sentLength(text) {
  return [...sentText(text)].length;
}

// --- Sentence ends, as found by the browser, except after abbreviations (sentence_ends.py).

// Words before a name or a number whose full stop does not end a sentence.
const TITLE =
  /^(?:mr|mrs|ms|mx|messrs|dr|prof|st|mt|rev|hon|gen|col|capt|lt|sgt|gov|sen|rep|pres|fr|hr|dott|ing|sig|sra|srta|vs|cf|ca|bzw|vgl|ggf|evtl|approx|ул|им|проф|рис|стр|гр|тов)$/u;
const NUMBERED = /^(?:no|nos|nr|nro|núm|num|figs?|art|vol|ch|sec|eq|ed|pp|av|jan|feb|mar|apr|aug|sept?|oct|nov|dec)$/u;
const LAST_WORD = /(?<!\S)["'“„‚‘«‹»›([{¿¡*_`]*(\S{0,32})\.[^\S\n]*\n?$/u;

/** Split a text into sentences, each with the white space after it. @param {string} text @returns {string[]} */
export function sentencesIn(text) {
  const sentences = [];
  let from = 0;
  let before = '';
  for (const { segment, index } of new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(text)) {
    if (before && !endsShort(before, segment)) {
      sentences.push(text.slice(from, index));
      from = index;
    }
    before = segment;
  }
  return text ? [...sentences, text.slice(from)] : [];
}

/**
 * Return true if the full stop at the end of a text does not end a sentence.
 *
 * The full stop then belongs to an abbreviation, an initial or an ordinal number.
 *
 * @param {string} text
 * @param {string} following text after `text`
 */
export function endsShort(text, following) {
  const word = LAST_WORD.exec(text)?.[1];
  if (!word) return false;
  const last = (word.split(/[.-]/u).at(-1) ?? '').toLowerCase();
  const isInitial = [...last].length === 1 && last !== last.toUpperCase();
  return isInitial || /^\p{Nd}{1,2}$/u.test(word) || TITLE.test(last) || (NUMBERED.test(last) && /^\P{L}*?\p{Nd}/u.test(following));
}

// --- Duration of a text by its writing system. A test compares the result with speech_rate.py.

const FRAME_S = 0.08;
const LETTER_FRAMES = 0.85;
const SYLLABLE_FRAMES = 2.8;
const DIGIT_FRAMES = 4;
const DIGIT = /\p{Nd}/u;
const SYLLABLE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Yi}\p{Script=Ethiopic}]/u;
const SYLLABLES = new RegExp(SYLLABLE, 'gu');

// Minimum duration of a take as a fraction of its expected duration. A shorter take is marked as too short.
const TOO_SHORT = 0.3;
const JUDGED_S = 1;

/** Return the expected duration of a spoken text in seconds. @param {string} text */
export function expectedSeconds(text) {
  let frames = 0;
  for (const character of text) {
    if (DIGIT.test(character)) frames += DIGIT_FRAMES;
    else frames += SYLLABLE.test(character) ? SYLLABLE_FRAMES : LETTER_FRAMES;
  }
  return frames * FRAME_S;
}

/**
 * Return true if most characters of a text stand for a syllable or more.
 *
 * Examples are Chinese, Japanese and Korean. Their speaking rate is estimated separately.
 *
 * @param {string} text
 */
export function isSyllabic(text) {
  const syllables = text.match(SYLLABLES)?.length ?? 0;
  return syllables * SYLLABLE_FRAMES > (text.length - syllables) * LETTER_FRAMES;
}

/**
 * Return true if audio is so short that it cannot contain the whole text.
 *
 * @param {string} text @param {number} seconds duration of the audio
 */
export function isTooShort(text, seconds) {
  const expected = expectedSeconds(text.trim());
  return expected > JUDGED_S && seconds < TOO_SHORT * expected;
}
