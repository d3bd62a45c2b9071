/** Older, warmer, slower, lower: words that a description is given, in its own language. */

/** @typedef {'older'|'warmer'|'slower'|'lower'} Change */

/** @type {Record<Change, {en: string, zh: string}>} */
const WORDS = {
  older: { en: 'older, with a little more air', zh: '更年长，气息更多一些' },
  warmer: { en: 'warmer', zh: '更温暖' },
  slower: { en: 'slower, with longer pauses', zh: '语速更慢，停顿更长' },
  lower: { en: 'lower in pitch', zh: '音调更低' },
};

export const CHANGES = /** @type {Change[]} */ (Object.keys(WORDS));

/**
 * A description with one more wish at its end; a wish that stands there already is made stronger.
 *
 * @param {string} description
 * @param {Change} change
 * @returns {{description: string, words: string}}  the whole, and what was added
 */
export function changed(description, change) {
  const stem = description.trim();
  const isChinese = /\p{Script=Han}/u.test(stem) && !/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(stem);
  const { en, zh } = WORDS[change];
  const plain = isChinese ? zh : en;
  const again = stem.toLowerCase().includes(plain);
  const words = again ? (isChinese ? `再${plain.slice(plain.indexOf('更'))}` : `even ${plain}`) : plain;
  const gap = isChinese ? '' : ' ';
  const end = isChinese ? '。' : '.';
  const closed = /[.!?…。！？]$/u.test(stem) ? stem : stem + end;
  return { description: `${closed}${gap}${words[0].toLocaleUpperCase()}${words.slice(1)}${end}`, words };
}
