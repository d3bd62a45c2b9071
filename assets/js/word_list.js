/**
 * Lists of words: as text files (two columns with a comma, semicolon or tab between, as spreadsheets write them), and what
 * two windows have made of one.
 */

/** @typedef {import('./pronouncing.js').Entry} Entry */

const HEADING = ['word', 'said as'];
const IS_HEADING = /^(?:words?|terms?),(?:said|said as|say as|say_as|alias|pronunciation|pronounced)$/i;
const FIELD = /(?:"((?:[^"]|"")*)"|([^,;\t\r\n]*))[ ]*(,|;|\t|\r?\n|\r|$)/gy;

/**
 * Read a file. A heading is no row; rows with anything but two fields are left out, and counted.
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
 * What becomes of a list that was changed here and elsewhere: theirs, with what was added, changed and removed here.
 *
 * @param {Entry[]} before as both found it @param {Entry[]} mine @param {Entry[]} theirs @returns {Entry[]}
 */
export function mergedWords(before, mine, theirs) {
  const [first, own] = [before, mine].map((words) => new Map(words.map(({ word, said }) => [word, said])));
  const kept = theirs.filter(({ word }) => own.has(word) || !first.has(word));
  const merged = new Map(kept.map(({ word, said }) => [word, said]));
  for (const [word, said] of own) {
    if (first.get(word) !== said) merged.set(word, said);
  }
  return [...merged].map(([word, said]) => ({ word, said }));
}

/** @param {Entry[]} entries */
export function writeWordList(entries) {
  const rows = [HEADING, ...entries.map(({ word, said }) => [word, said])];
  return `${rows.map((row) => row.map(quoted).join(',')).join('\r\n')}\r\n`;
}

/** @param {string} text @returns {string[][]} */
function rowsOf(text) {
  /** @type {string[][]} */
  const rows = [[]];
  FIELD.lastIndex = 0;
  while (FIELD.lastIndex < text.length) {
    const found = FIELD.exec(text);
    if (!found) break; // Without a closing quotation mark the rest is not a field.
    const [, inQuotes, plain, end] = found;
    rows[rows.length - 1].push((inQuotes?.replaceAll('""', '"') ?? plain).trim());
    if (!',;\t'.includes(end)) rows.push([]);
  }
  return rows;
}

/** @param {string} field */
function quoted(field) {
  return /[",;\t\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}
