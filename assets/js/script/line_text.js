/**
 * Parser of the text of a script's line: segments to speak, and pauses between them.
 *
 *     readParts('The kettle is on. [pause 0.5s] Sit down.')
 *     // { parts: [{ text: 'The kettle is on.' }, { silence: 0.5 }, { text: 'Sit down.' }], fault: null }
 *
 * A pause is `[pause 0.5s]`, `[pause 300ms]`, `[pause 2]` (seconds) or `[pause]`. A colon may replace the space.
 *
 * @typedef {{text?: string, silence?: number}} Part  either a text to speak or a silence in seconds
 */

export const MAX_PAUSE_S = 30;
const DEFAULT_PAUSE_S = 0.5; // Length in seconds of a pause tag that has no number.

const BRACKET = /\[\s*pause\b([^\]]*)\]/giu;
const LENGTH = /^\s*:?\s*(\d+(?:[.,]\d+)?)\s*(s|sec|seconds?|ms|milliseconds?)?\s*$/iu;
const SPOKEN = /[\p{L}\p{N}]/u;

/**
 * Split the text of a line into segments to speak and pauses.
 *
 * A segment that has only punctuation is added to the segment before it.
 *
 * @param {string} text
 * @returns {{parts: Part[], fault: string|null}}  fault: first tag that is not a valid pause of 0 to 30 s, or null
 */
export function readParts(text) {
  /** @type {Part[]} */
  const parts = [];
  let fault = null;
  let end = 0;
  for (const bracket of text.matchAll(BRACKET)) {
    addText(parts, text.slice(end, bracket.index));
    const seconds = readLength(bracket[1]);
    if (seconds === null) fault ??= bracket[0];
    else if (seconds > 0) parts.push({ silence: seconds });
    end = bracket.index + bracket[0].length;
  }
  addText(parts, text.slice(end));
  return { parts, fault };
}

/** Return the tag for a pause of some seconds, such as `[pause 0.5s]`. @param {number} seconds */
export function writePause(seconds) {
  return `[pause ${Number(seconds.toFixed(2))}s]`;
}

/**
 * Parse the length of a pause tag.
 *
 * @param {string} words text after "pause"
 * @returns {number|null} length in seconds, or null if invalid
 */
function readLength(words) {
  if (!words.trim()) return DEFAULT_PAUSE_S;
  const length = LENGTH.exec(words);
  if (!length) return null;
  const number = Number(length[1].replace(',', '.'));
  const seconds = length[2]?.toLowerCase().startsWith('m') ? number / 1000 : number;
  return seconds <= MAX_PAUSE_S ? seconds : null;
}

/**
 * Add a text to the segments of a line, or only its punctuation to the last segment.
 *
 * @param {Part[]} parts @param {string} content
 */
function addText(parts, content) {
  const text = content.trim();
  if (!text) return;
  if (SPOKEN.test(text)) {
    parts.push({ text });
    return;
  }
  const before = parts.findLast((part) => part.text);
  if (before) before.text += text;
}

// --- Names of scripts: the user's name, or the start of the text. Pure functions.

const MAX_NAME_CHARS = 40;

/** Return a name for a script, which is the start of its text. @param {string} text */
export function titleFromText(text) {
  const [first] = text.trim().split('\n');
  return first.length <= MAX_NAME_CHARS ? first : `${first.slice(0, MAX_NAME_CHARS).replace(/\s+\S*$/u, '')} …`;
}

/**
 * Return the name of a script, or the start of its text if it has no name.
 *
 * The result is '' if there is neither name nor text.
 *
 * @param {{name: string, begins?: string}} script begins: text of the first line that has text
 */
export function nameOfScript({ name, begins = '' }) {
  const words = readParts(begins).parts.map(({ text = '' }) => text).join(' ');
  return name.trim() || titleFromText(words);
}

/**
 * Convert subtitle cues to lines, with pause tags between distant cues.
 *
 * @typedef {{start: number, end: number, name: string|null}} Cue  times in seconds, and the name of the speaker
 */

const MIN_PAUSE_S = 0.3; // Minimum length of a pause in seconds. A shorter silence is a breath.

/**
 * Convert subtitles to script lines.
 *
 * A pause between two subtitles becomes a pause tag at the end of the line, if it is longer than the gap between lines.
 *
 * @param {string[]} texts @param {Cue[]} cues one cue for each text
 * @param {number} [gap] the script's gap between lines in seconds
 * @returns {import('./reading.js').ParsedLine[]}
 */
export function cuesToLines(texts, cues, gap = 0) {
  return texts.map((text, at) => {
    const { start, end, name } = cues[at];
    const next = cues[at + 1];
    const pause = next ? Math.min(next.start - end - gap, MAX_PAUSE_S) : 0;
    return { name, instruct: '', text: pause >= MIN_PAUSE_S ? `${text} ${writePause(pause)}` : text, starts: start };
  });
}

/**
 * Pace of speech, set by a sentence in a line's style, as pure functions.
 *
 * The models have no other control of the pace.
 *
 *     withPace('Softly.', 'slow', { slow: 'Speak slowly.', fast: 'Speak quickly.' })  // 'Softly. Speak slowly.'
 *
 * @typedef {Object<string, string>} Paces  words for each pace
 */

/**
 * Return the name of the pace whose words a style contains, or null.
 *
 * @param {string} style @param {Paces} paces @returns {string|null}
 */
export function paceOf(style, paces) {
  return Object.keys(paces).find((pace) => style.includes(paces[pace])) ?? null;
}

/**
 * Return a style with the words for a pace.
 *
 * If the style already contains the words for this pace, they are removed.
 *
 * @param {string} style @param {string} pace @param {Paces} paces
 */
export function withPace(style, pace, paces) {
  const before = paceOf(style, paces);
  let rest = style;
  for (const words of Object.values(paces)) rest = rest.replace(words, '');
  rest = rest.replace(/\s+/g, ' ').trim();
  return before === pace ? rest : `${rest} ${paces[pace]}`.trim();
}
