/**
 * Detection of languages that a checkpoint does not support, with pure functions.
 *
 * The letters of a text determine its language. For Latin letters, common words determine it.
 */

/**
 * Languages of the published checkpoints by script.
 *
 * @type {Object<string, string[]>}
 */
const WRITTEN = {
  Latn: ['english', 'french', 'german', 'italian', 'portuguese', 'spanish'],
  Hani: ['chinese', 'japanese'],
  Hira: ['japanese'],
  Kana: ['japanese'],
  Hang: ['korean'],
  Cyrl: ['russian'],
};
for (const script of ['Arab', 'Hebr', 'Deva', 'Beng', 'Taml', 'Telu', 'Thai', 'Grek', 'Geor', 'Armn', 'Ethi', 'Khmr', 'Mymr', 'Sinh', 'Guru', 'Gujr', 'Laoo']) WRITTEN[script] = [];
const KNOWN = new Set(Object.values(WRITTEN).flat());
/** @type {[string, RegExp][]} */
const LETTERS = Object.keys(WRITTEN).map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'gu')]);

/** The most common words of languages by language tag. */
const COMMON = {
  en: 'the and of to is in that it was you for with this not are he she they have from',
  de: 'der die das und ist nicht ein eine zu den mit ich sie es von dem auf im war wir',
  fr: 'le la les des est et une dans que pas pour qui vous nous sur je il elle du ce',
  es: 'el los las es y una que en por con para no se del lo su muy como pero está',
  it: 'il che di è e un una per non sono con gli del della ma mi si le questo anche',
  pt: 'o os que de é e um uma não para com do da em se mas muito isso você ao',
  nl: 'de het een en van ik niet dat is op te zijn met voor er maar ook we',
  pl: 'nie się jest na że do to w z jak co ale tak po już',
  sv: 'och att det som en är på jag inte med för har den till',
  tr: 'bir ve bu için de ne var çok ama daha gibi ben',
};
/** @type {Object<string, string>} */
const NAMES = { en: 'english', de: 'german', fr: 'french', es: 'spanish', it: 'italian', pt: 'portuguese' };
/** @type {[string, Set<string>][]} */
const WORDS = Object.entries(COMMON).map(([tag, words]) => [tag, new Set(words.split(' '))]);

const EXAMINED_CHARS = 3000;
// Minimum share of a script among the letters of a text. A rarer script, for example of one foreign name, is ignored.
const MIN_SCRIPT_SHARE = 0.2;
const MIN_WORDS = 5; // Minimum number of words of a text whose language is detected.
const MIN_COMMON_WORDS_SHARE = 0.15; // Minimum fraction of the words that are among the language's most common words.

/**
 * Return the writing system or the language of a text if a checkpoint lacks it.
 *
 * @param {string} text
 * @param {string[]} languages names of the checkpoint's languages @returns {{script?: string, language?: string}|null} an
 * ISO 15924 code, or a BCP 47 tag
 */
export function unknownLanguage(text, languages) {
  const known = languages.map(plainName);
  // A language that is not in `KNOWN` may use any script.
  if (known.length === 0 || known.some((name) => !KNOWN.has(name))) return null;
  const read = text.slice(0, EXAMINED_CHARS);
  /** @type {[string, number][]} */
  const counts = LETTERS.map(([script, letters]) => [script, read.match(letters)?.length ?? 0]);
  const all = counts.reduce((sum, [, count]) => sum + count, 0);
  const foreign = counts.filter(([script, count]) => count > MIN_SCRIPT_SHARE * all && !WRITTEN[script].some((name) => known.includes(name)));
  if (foreign.length) return { script: foreign.sort(([, one], [, other]) => other - one)[0][0] };
  return latinLanguage(read, known);
}

/**
 * Return the first unsupported writing system (script) in a text, or null.
 *
 * A script is unsupported if none of the checkpoint's languages uses it. Greek letters are ignored, because any text may use
 * them as symbols.
 *
 * @param {string} text @param {string[]} languages  names of the checkpoint's languages
 * @returns {{script: string, isRead: boolean}|null} script: an ISO 15924 code; isRead: true if a published checkpoint supports
 * the script
 */
export function unsupportedScript(text, languages) {
  const known = languages.map(plainName);
  const unsupported = LETTERS.filter(([script]) => script !== 'Latn' && script !== 'Grek' && !WRITTEN[script].some((name) => known.includes(name)));
  const places = unsupported.map(([script, letters]) => /** @type {const} */ ([script, text.search(letters)])).filter(([, at]) => at >= 0);
  if (places.length === 0) return null;
  const [script] = places.reduce((one, other) => (other[1] < one[1] ? other : one));
  return { script, isRead: WRITTEN[script].length > 0 };
}

/**
 * Return the name of a writing system in the page's language (Han is called Chinese).
 *
 * @param {string} script ISO 15924 code @param {string} page BCP 47 tag of the page's language
 */
export function scriptName(script, page) {
  const [type, code] = script === 'Hani' ? /** @type {const} */ (['language', 'zh']) : /** @type {const} */ (['script', script]);
  return new Intl.DisplayNames([page], { type }).of(code) ?? script;
}

/** @param {string} name name of a checkpoint's language */
const plainName = (name) => (name.toLowerCase().endsWith('dialect') ? 'chinese' : name.toLowerCase());

/**
 * Return the language of a text in Latin letters if it is clearly not supported.
 *
 * The language is detected by its most common words.
 *
 * @param {string} text @param {string[]} languages
 */
function latinLanguage(text, languages) {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  if (words.length < MIN_WORDS) return null;
  const scores = WORDS.map(([tag, common]) => ({ tag, share: words.filter((word) => common.has(word)).length / words.length }));
  scores.sort((one, other) => other.share - one.share);
  const ours = Math.max(...scores.filter(({ tag }) => languages.includes(NAMES[tag])).map(({ share }) => share), 0);
  const [best] = scores;
  return best.share >= MIN_COMMON_WORDS_SHARE && best.share > 1.5 * ours && !languages.includes(NAMES[best.tag]) ? { language: best.tag } : null;
}
