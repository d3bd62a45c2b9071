/** Where sentences end: where the browser says, but not behind an abbreviation (runtime/shared/sentence_ends.py). Pure. */

// Words whose full stop ends no sentence: before a name, and before a number.
const TITLE =
  /^(?:mr|mrs|ms|mx|messrs|dr|prof|st|mt|rev|hon|gen|col|capt|lt|sgt|gov|sen|rep|pres|fr|hr|dott|ing|sig|sra|srta|vs|cf|ca|bzw|vgl|ggf|evtl|approx|ул|им|проф|рис|стр|гр|тов)$/u;
const NUMBERED = /^(?:no|nos|nr|nro|núm|num|figs?|art|vol|ch|sec|eq|ed|pp|av|jan|feb|mar|apr|aug|sept?|oct|nov|dec)$/u;
const LAST_WORD = /(?<!\S)["'“„‚‘«‹»›([{¿¡*_`]*(\S{0,32})\.[^\S\n]*\n?$/u;

/** The sentences of a text, with the white space behind each. @param {string} text @returns {string[]} */
export function sentencesIn(text) {
  const sentences = [];
  let from = 0;
  let before = '';
  for (const { segment, index } of new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(text)) {
    if (before && !isShort(before, segment)) {
      sentences.push(text.slice(from, index));
      from = index;
    }
    before = segment;
  }
  return text ? [...sentences, text.slice(from)] : [];
}

/** Whether the full stop at the end belongs to an abbreviation, an initial or an ordinal. @param {string} text @param {string} following */
function isShort(text, following) {
  const word = LAST_WORD.exec(text)?.[1];
  if (!word) return false;
  const last = (word.split(/[.-]/u).at(-1) ?? '').toLowerCase();
  const isInitial = [...last].length === 1 && last !== last.toUpperCase();
  return isInitial || /^\p{Nd}{1,2}$/u.test(word) || TITLE.test(last) || (NUMBERED.test(last) && /^\P{L}*?\p{Nd}/u.test(following));
}
