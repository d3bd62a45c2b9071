/**
 * Replacement of words before they are spoken, with a pronunciation dictionary.
 *
 *     replaceWords('Ask Nguyen. [pause 1s]', [{ word: 'Nguyen', said: 'Win' }])
 *     // { text: 'Ask Win. [pause 1s]', count: 1 }
 *
 * Entries match whole words, and the longest entry first. Replaced text is not replaced again. An entry with the same upper
 * and lower case as in the text precedes other entries. runtime/shared/text/pronouncing.py has the same rules, and a shared test
 * table covers both.
 *
 * @typedef {{word: string, said: string}} Entry
 */

import { api, errorOf } from '../common/api.js';
import { isTag } from '../common/text.js';

// Scripts without spaces, in which entries match anywhere.
const SPACELESS = '\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmr}\\p{sc=Mymr}';
const IN_A_WORD = `(?![${SPACELESS}])[\\p{L}\\p{M}\\p{N}]`;
const WORD_LIKE = new RegExp(`^${IN_A_WORD}$`, 'u');

// The next patterns match SSML tags (runtime/shared/text/ssml.py) and tags in square brackets, in which nothing is
// replaced.
const ELEMENTS = 'speak|break|emphasis|prosody|p|s|spell';
const ELEMENT = `(?:${ELEMENTS}|say-as|phoneme|sub|voice|lang|audio|mark|speed|volume|emotion|(?:amazon|google|mstts):[a-z-]{1,40})`;
const ATTRIBUTE = '\\s+[a-z_][\\w:.-]*\\s*=\\s*(?:"[^"<>\\n]*"|\'[^\'<>\\n]*\'|[^\\s"\'<>]+?)';
const UNCLOSED = '(?<=["\'])(?=\\s*[\\w:.-]+\\s+\\w|\\s*[\\w:.-]*\\s*[^\\s\\w:.=/>\\-])';
const SSML = `<(?:${ELEMENT}(?:${ATTRIBUTE})+(?:\\s*/?>|${UNCLOSED})|(?:${ELEMENTS})\\s*/?>|/\\s*${ELEMENT}\\s*>|\\?xml\\s[^<>]*\\?>)`;
const SSML_TAG = new RegExp(`^${SSML}`, 'iu');
const MAY_BECOME_TAG = '</?\\s*(?:\\p{L}[^<>\\n]{0,300}|\\p{N}[^<>\\s]{0,300})>';
const MARKUP = new RegExp(`\\[[^\\[\\]\\n]{0,500}\\]|${SSML}|${MAY_BECOME_TAG}`, 'giu');

/**
 * Replace words in a text by the entries of a dictionary.
 *
 * @param {string} text
 * @param {Entry[]} entries
 * @returns {{text: string, count: number}}  count: number of replacements
 */
export function replaceWords(text, entries) {
  if (entries.length === 0) return { text, count: 0 };
  const { finder, written, folded } = read.get(entries) ?? prepare(entries);
  let markup = nextMarkup(text, 0, entries);
  let spoken = '';
  let count = 0;
  let at = 0;
  for (;;) {
    if (markup && markup.start < at) markup = nextMarkup(text, at, entries);
    finder.lastIndex = at;
    const found = finder.exec(text);
    if (markup && (!found || found.index >= markup.start)) {
      spoken += text.slice(at, markup.end);
      at = markup.end;
      continue;
    }
    if (!found) return { text: spoken + text.slice(at), count };
    const [word] = found;
    const said = written.get(spaced(word)) || folded.get(foldCase(word)) || word;
    spoken += text.slice(at, found.index) + said;
    count += Number(said !== word);
    at = found.index + word.length;
  }
}

/**
 * Return the range of the next tag or markup, in which no word is replaced, or null.
 *
 * Other bracketed text is ordinary text, unless replacing a word would turn it into a tag.
 *
 * @param {string} text @param {number} from @param {Entry[]} entries @returns {{start: number, end: number}|null}
 */
function nextMarkup(text, from, entries) {
  MARKUP.lastIndex = from;
  for (let found = MARKUP.exec(text); found; found = MARKUP.exec(text)) {
    const [bracket] = found;
    const { index } = found;
    const next = index + 1;
    const replaced = `${bracket[0]}${replaceWords(bracket.slice(1, -1), entries).text}${bracket.at(-1)}`;
    const isApart = isMarkup(bracket) || isMarkup(replaced);
    if (isApart) return { start: index, end: index + bracket.length };
    // Restore `lastIndex`, which the recursive call has changed.
    MARKUP.lastIndex = next;
  }
  return null;
}

/** Return true if a text in brackets is a tag or SSML markup. @param {string} bracket */
function isMarkup(bracket) {
  if (bracket.startsWith('[')) return isTag(bracket);
  return !bracket.endsWith('>') || SSML_TAG.test(bracket);
}

/** @typedef {{finder: RegExp, written: Map<string, string>, folded: Map<string, string>}} CompiledDictionary */

/**
 * Cache of compiled dictionaries, because the text is searched at every key press.
 *
 * @type {WeakMap<Entry[], CompiledDictionary>}
 */
const read = new WeakMap();

/**
 * Compile a dictionary to a regular expression and maps of its entries.
 *
 * @param {Entry[]} entries @returns {CompiledDictionary}
 */
function prepare(entries) {
  const forms = new Set(entries.flatMap(({ word }) => [word.normalize('NFC'), word.normalize('NFD')]));
  const longest = [...forms].sort((one, other) => other.length - one.length);
  // The entries are added in reverse order, so that the first of several entries for a word remains.
  const backwards = [...entries].reverse();
  const prepared = {
    finder: new RegExp(longest.map(wholeWordPattern).join('|'), 'giu'),
    written: new Map(backwards.map(({ word, said }) => [spaced(word), withoutBrackets(said)])),
    folded: new Map(backwards.map(({ word, said }) => [foldCase(word), withoutBrackets(said)])),
  };
  read.set(entries, prepared);
  return prepared;
}

/** Remove brackets from a replacement, so that it cannot become a tag. @param {string} replacement */
function withoutBrackets(replacement) {
  return replacement.replace(/[[\]<>]/g, '');
}

/** Return a pattern that matches a word, but not as part of a longer word. @param {string} word */
function wholeWordPattern(word) {
  const characters = [...word];
  const middle = word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&').replace(/\s+/gu, '\\s+');
  return `${boundaryPattern(characters[0], '<')}${middle}${boundaryPattern(characters.at(-1) ?? '', '')}`;
}

/**
 * Return a pattern for the start or the end of a word.
 *
 * @param {string} character first or last character of the word
 * @param {'<'|''} before '<' for the start, '' for the end
 */
function boundaryPattern(character, before) {
  if (!WORD_LIKE.test(character)) return '';
  // An entry for 3 must not match in 3.5.
  const number = /\p{N}/u.test(character) ? `(?${before}!${before ? '\\p{N}[.,]' : '[.,]\\p{N}'})` : '';
  return `(?${before}!${IN_A_WORD})${number}`;
}

/** Return a word in Unicode form NFC and with single spaces. @param {string} word */
function spaced(word) {
  return word.normalize('NFC').replace(/\s+/gu, ' ');
}

/** Return a form of a word that ignores upper and lower case. @param {string} word */
function foldCase(word) {
  return spaced(word).toUpperCase().toLowerCase();
}

// --- Text files with entries (two columns separated by comma, semicolon or tab), and merging of concurrent changes.

const HEADING = ['word', 'said as'];
const IS_HEADING = /^(?:words?|terms?),(?:said|said as|say as|say_as|alias|pronunciation|pronounced)$/i;
const FIELD = /(?:"((?:[^"]|"")*)"|([^,;\t\r\n]*))[ ]*(,|;|\t|\r?\n|\r|$)/gy;

/**
 * Parse a text file with dictionary entries.
 *
 * A heading is skipped. Rows that do not have two fields are skipped and counted in `leftOut`.
 *
 * @param {string} text @returns {{entries: Entry[], leftOut: number}}
 */
export function readWordList(text) {
  const rows = rowsOf(text.replace(/^\uFEFF/u, '')).filter((row) => row.some(Boolean));
  if (rows.length > 0 && IS_HEADING.test(String(rows[0]))) rows.shift();
  const whole = rows.filter((row) => row.length === 2 && row[0] && row[1]);
  return { entries: whole.map(([word, said]) => ({ word, said })), leftOut: rows.length - whole.length };
}

/**
 * Merge two changed versions of a dictionary: of this page and of another window.
 *
 * The result is the version of the other window with the additions, changes and removals of this page.
 *
 * @param {Entry[]} base version before both changes @param {Entry[]} mine @param {Entry[]} theirs @returns {Entry[]}
 */
export function mergedWords(base, mine, theirs) {
  const [first, own] = [base, mine].map((words) => new Map(words.map(({ word, said }) => [word, said])));
  const kept = theirs.filter(({ word }) => own.has(word) || !first.has(word));
  const merged = new Map(kept.map(({ word, said }) => [word, said]));
  for (const [word, said] of own) {
    if (first.get(word) !== said) merged.set(word, said);
  }
  return [...merged].map(([word, said]) => ({ word, said }));
}

/** Return dictionary entries as the content of a CSV file. @param {Entry[]} entries */
export function writeWordList(entries) {
  const rows = [HEADING, ...entries.map(({ word, said }) => [word, said])];
  return `${rows.map((row) => row.map(quoted).join(',')).join('\r\n')}\r\n`;
}

/** Split a text file into rows, and each row into fields. @param {string} text @returns {string[][]} */
function rowsOf(text) {
  /** @type {string[][]} */
  const rows = [[]];
  FIELD.lastIndex = 0;
  while (FIELD.lastIndex < text.length) {
    const found = FIELD.exec(text);
    if (!found) break; // An unclosed quotation mark is an ordinary character.
    const [, inQuotes, plain, end] = found;
    rows[rows.length - 1].push((inQuotes?.replaceAll('""', '"') ?? plain).trim());
    if (!',;\t'.includes(end)) rows.push([]);
  }
  return rows;
}

/** Return a field of a CSV file, in quotation marks if necessary. @param {string} field */
function quoted(field) {
  return /[",;\t\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

// --- Pronunciation dictionary of the visitor, which the studio stores and applies to every text. Event: 'change'.

/** @typedef {{words: Entry[], updated_at: number|null}} StoredDictionary */

const ROUTE = 'studio/pronunciation';

/** Pronunciation dictionary of the visitor, which replaces words before they are spoken. */
export class Pronunciation extends EventTarget {
  /** @type {Entry[]} */
  words = [];
  /** Version of the dictionary that this page has loaded, or 0 if there is none. */
  version = 0;
  /** Promise that resolves when all saves have finished. @type {Promise<unknown>} */
  saving = Promise.resolve();

  /**
   * Create the pronunciation from the stored dictionary.
   *
   * @param {StoredDictionary|null} dictionary stored dictionary, or null if it is not available
   */
  constructor(dictionary) {
    super();
    if (dictionary) this.setDictionary(dictionary);
  }

  /** Return a text with replaced words, or null if nothing was replaced. @param {string} text @returns {string|null} */
  spokenText(text) {
    const { text: spoken, count } = replaceWords(text, this.words);
    return count > 0 ? spoken : null;
  }

  /** Return the number of words that are replaced in a text. @param {string} text */
  count(text) {
    return replaceWords(text, this.words).count;
  }

  /** Load the dictionary again, because another window may have changed it. */
  async refresh() {
    const { saving } = this;
    await saving;
    const kept = await api.get(ROUTE);
    if (saving === this.saving) this.setDictionary(kept);
  }

  /**
   * Save a new version of the dictionary.
   *
   * If another window has changed the dictionary, the changes of both are merged.
   *
   * @param {Entry[]} words @returns {Promise<boolean>} true if changes were merged @throws
   * {import('../common/api.js').StudioError} if the dictionary cannot be saved
   */
  save(words) {
    const kept = this.saving.then(() => this.store(words));
    this.saving = kept.catch(() => {});
    return kept;
  }

  /**
   * Send the dictionary to the studio, and merge it with the changes of another window.
   *
   * The result is true if changes were merged.
   *
   * @param {Entry[]} words
   */
  async store(words) {
    try {
      this.setDictionary(await api.put(ROUTE, { words, updated_at: this.version }));
      return false;
    } catch (error) {
      if (errorOf(error).status !== 409) throw error;
    }
    const theirs = await api.get(ROUTE);
    const merged = mergedWords(this.words, words, theirs.words);
    this.setDictionary(await api.put(ROUTE, { words: merged, updated_at: theirs.updated_at }));
    return true;
  }

  /** Use a dictionary that was received from the studio. @param {StoredDictionary} kept */
  setDictionary({ words, updated_at }) {
    if (this.version === (updated_at ?? 0)) return;
    this.words = words;
    this.version = updated_at ?? 0;
    this.dispatchEvent(new Event('change'));
  }
}
