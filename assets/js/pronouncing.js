/**
 * A text as it is to be spoken: words of the pronunciation dictionary in the place of those that are written.
 *
 *     pronounced('Ask Nguyen. [pause 1s]', [{ word: 'Nguyen', said: 'Win' }])
 *     // { text: 'Ask Win. [pause 1s]', count: 1 }
 *
 * A word is found where it stands whole, the longest first, and nothing is replaced twice. As it is written comes before
 * any other case. runtime/shared/pronouncing.py is the same for programs; one table tests both.
 *
 * @typedef {{word: string, said: string}} Entry
 */

// What is written without spaces between words: such a word may begin and end anywhere.
const SPACELESS = '\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmr}\\p{sc=Mymr}';
const IN_A_WORD = `(?![${SPACELESS}])[\\p{L}\\p{M}\\p{N}]`;
const WORD_LIKE = new RegExp(`^${IN_A_WORD}$`, 'u');
const TAG = '\\[[^\\[\\]\\n]{0,500}\\]'; // A tag contains no words.

/**
 * @param {string} text
 * @param {Entry[]} entries
 * @returns {{text: string, count: number}}  count: places that are said otherwise
 */
export function pronounced(text, entries) {
  if (entries.length === 0) return { text, count: 0 };
  const { finder, written, folded } = read.get(entries) ?? prepare(entries);
  let count = 0;
  const spoken = text.replace(finder, (found, word) => {
    if (word === undefined) return found; // A tag.
    const said = written.get(spaced(word)) ?? folded.get(fold(word));
    if (said === undefined || said === word) return found;
    count += 1;
    return said;
  });
  return { text: spoken, count };
}

/** @typedef {{finder: RegExp, written: Map<string, string>, folded: Map<string, string>}} Read */

/** Lists that were read before: a text is looked through at every key. @type {WeakMap<Entry[], Read>} */
const read = new WeakMap();

/** Read a list. The finder finds tags and, in its first group, words. @param {Entry[]} entries @returns {Read} */
function prepare(entries) {
  const forms = new Set(entries.flatMap(({ word }) => [word.normalize('NFC'), word.normalize('NFD')]));
  const longest = [...forms].sort((one, other) => other.length - one.length);
  const backwards = [...entries].reverse(); // The first entry of a word wins.
  const prepared = {
    finder: new RegExp(`${TAG}|(${longest.map(whole).join('|')})`, 'giu'),
    written: new Map(backwards.map(({ word, said }) => [spaced(word), said])),
    folded: new Map(backwards.map(({ word, said }) => [fold(word), said])),
  };
  read.set(entries, prepared);
  return prepared;
}

/** A word as it may stand in a text, and not as a part of another. @param {string} word */
function whole(word) {
  const characters = [...word];
  const middle = word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&').replace(/\s+/gu, '\\s+');
  return `${edge(characters[0], '<')}${middle}${edge(characters.at(-1) ?? '', '')}`;
}

/** What may not stand before a word, or behind it. @param {string} character of the word @param {'<'|''} before */
function edge(character, before) {
  if (!WORD_LIKE.test(character)) return '';
  const number = /\p{N}/u.test(character) ? `(?${before}!${before ? '\\p{N}[.,]' : '[.,]\\p{N}'})` : ''; // 3 is not in 3.5
  return `(?${before}!${IN_A_WORD})${number}`;
}

/** @param {string} word */
function spaced(word) {
  return word.normalize('NFC').replace(/\s+/gu, ' ');
}

/** A word in no case. @param {string} word */
function fold(word) {
  return spaced(word).toUpperCase().toLowerCase();
}
