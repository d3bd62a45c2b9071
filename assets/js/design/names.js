/** Pure functions that return names for new voices, and captions of takes. */

// --- Short and unique names for new voices.

const MAX_NAME_CHARS = 64; // Maximum length of a name in characters, as in the voice library.
const WORDS = 6;
const SHORT_ENOUGH = 28;
/** Words that cannot end a name. */
const UNFINISHED = new Set(['a', 'an', 'the', 'of', 'in', 'with', 'and', 'or', 'but', 'at', 'to', 'for', 'from', 'who', 'her', 'his', 'their', 'very', 'slightly']);
const ARTICLES = new Set(['a', 'an', 'the']);

/** Return a form of a name in which equal-looking names are equal. @param {string} name */
const key = (name) => name.normalize('NFKC').toLowerCase().trim();

/**
 * Return an unused name for a new voice.
 *
 * The name is the name of the preset, or the first words of the description. If the name exists, a number is added.
 *
 * @param {string} preset name of the preset with this description, or '' @param {string} description @param
 * {Iterable<string>} others existing names
 * @returns {string}
 */
export function newVoiceName(preset, description, others) {
  return unusedName(preset || firstWords(description), others);
}

/**
 * Return a short name: the name of the preset, or the start of the description.
 *
 * @param {string} preset name of the preset, or '' @param {string} description
 */
export function suggestedName(preset, description) {
  const text = preset || description.trim().replace(/\s+/gu, ' ');
  const letters = [...text];
  if (letters.length <= SHORT_ENOUGH) return text;
  const kept = letters.slice(0, SHORT_ENOUGH).join('');
  const isWord = /\s/u.test(letters[SHORT_ENOUGH]);
  return `${(isWord ? kept : kept.replace(/\s+\S*$/u, '')).replace(/[\s.,:;。，、：；]+$/u, '')}…`;
}

/** Return the first words of a description, which can be used as a name. @param {string} description */
function firstWords(description) {
  const [phrase, mark = ''] = description.trim().split(/([.,:;!?。，：；！？、\n])/u);
  const words = phrase.trim().split(/\s+/u).slice(0, WORDS);
  // The comma in "a man with a calm, dark voice" does not end the phrase.
  if (mark === ',' && words.length > 2 && ARTICLES.has(words[words.length - 2].toLowerCase())) words.pop();
  const isTooLong = () => words.join(' ').length > SHORT_ENOUGH;
  while (words.length > 1 && (isTooLong() || UNFINISHED.has(words[words.length - 1].toLowerCase()))) words.pop();
  const letters = [...words.join(' ')].slice(0, SHORT_ENOUGH);
  if (letters.length > 0) letters[0] = letters[0].toLocaleUpperCase();
  return letters.join('');
}

/**
 * Return the name, with a number if the name already exists.
 *
 * @param {string} name
 * @param {Iterable<string>} takenNames existing names
 */
export function unusedName(name, takenNames) {
  const existing = new Set([...takenNames].map(key));
  const stem = name || 'Voice';
  for (let number = 1; ; number++) {
    const tail = number === 1 ? '' : ` ${number}`;
    const candidate = stem.slice(0, MAX_NAME_CHARS - tail.length) + tail;
    if (!existing.has(key(candidate))) return candidate;
  }
}

// --- Caption of a take in the Design room: voice, set and take, and the description if the request has none.

const BETWEEN = ' · ';
// Caption such as "Take 1A", in any language of the page.
const NUMBERED_CAPTION = /^\S+ \d*[ABC]$/u;

/**
 * Return the caption of a take (voice sample) in the Design room.
 *
 * The parts of the caption are separated by dots: the name, the number, and the full description if it is given.
 *
 * @param {string} preset  name of the preset that equals the description, or ''
 * @param {string} numbered  number of the set and letter of the take
 * @param {string} description  description of the voice
 * @param {string} [fullDescription]  description if the request does not contain it
 */
export function captionForRequest(preset, numbered, description, fullDescription = '') {
  const name = suggestedName(preset, description);
  return [name, numbered, fullDescription === name ? '' : fullDescription].filter(Boolean).join(BETWEEN);
}

/**
 * Return the caption of stored audio (a take).
 *
 * A label without the name of the voice, as stored by older versions, is converted to the current format.
 *
 * @param {Pick<import('../player/take.js').TakeRecord, 'room'|'label'|'config'>} take
 * @param {{name: string, text: string}[]} presets  presets of voice descriptions
 */
export function captionOf({ room, label, config }, presets) {
  if (label?.startsWith(', ')) return ''; // An older version stored this label for a line without a name.
  if (room !== 'design' || !label) return label ?? '';
  const [first, second = ''] = label.split(BETWEEN);
  if (!NUMBERED_CAPTION.test(first) || NUMBERED_CAPTION.test(second)) return label;
  const whole = label.slice(first.length + BETWEEN.length);
  const description = whole || String(config.instructions ?? '');
  const preset = presets.find(({ text }) => text === description.trim())?.name ?? '';
  return captionForRequest(preset, first, description, whole);
}
