/** Which of somebody's words a recogniser heard, in their order. Pure. */

/**
 * @param {string} written @param {string} heard @param {string} [language] of the page, for where words end
 * @returns {{words: {word: string, heard: boolean}[], heard: number}}
 */
export function wordsHeard(written, heard, language) {
  const [ours, theirs] = [written, heard].map((text) => wordsOf(text, language));
  // How many words of the rests fit each other, from each pair on.
  const fits = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i--) {
    for (let k = theirs.length - 1; k >= 0; k--) {
      fits[i][k] = plain(ours[i]) === plain(theirs[k]) ? fits[i + 1][k + 1] + 1 : Math.max(fits[i + 1][k], fits[i][k + 1]);
    }
  }
  const words = [];
  for (let i = 0, k = 0; i < ours.length; i++) {
    while (k < theirs.length && plain(ours[i]) !== plain(theirs[k]) && fits[i][k + 1] === fits[i][k]) k++;
    const isHeard = k < theirs.length && plain(ours[i]) === plain(theirs[k]);
    if (isHeard) k++;
    words.push({ word: ours[i], heard: isHeard });
  }
  return { words, heard: fits[0][0] };
}

/** @param {string} text @param {string} [language] */
function wordsOf(text, language) {
  return [...new Intl.Segmenter(language, { granularity: 'word' }).segment(text)].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment);
}

/** @param {string} word */
function plain(word) {
  return word.normalize('NFKC').toLowerCase();
}
