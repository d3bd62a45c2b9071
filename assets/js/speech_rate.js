/** How long a text takes to say, by its script: as runtime/shared/speech_rate.py, which a test compares it with. Pure. */

const FRAME_S = 0.08;
const LETTER_FRAMES = 0.85;
const SYLLABLE_FRAMES = 2.8;
const DIGIT_FRAMES = 4;
const DIGIT = /\p{Nd}/u;
const SYLLABLE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Yi}\p{Script=Ethiopic}]/u;
const SYLLABLES = new RegExp(SYLLABLE, 'gu');

// Nobody says a text in less than this share of its ordinary time; a take of a second or less is not judged.
const TOO_SHORT = 0.3;
const JUDGED_S = 1;

/** Seconds of a text at an ordinary pace. @param {string} text */
export function expectedSeconds(text) {
  let frames = 0;
  for (const character of text) {
    if (DIGIT.test(character)) frames += DIGIT_FRAMES;
    else frames += SYLLABLE.test(character) ? SYLLABLE_FRAMES : LETTER_FRAMES;
  }
  return frames * FRAME_S;
}

/** Whether most of a text's time goes to scripts with a syllable or more a character: what one speaks of these says nothing of letters. @param {string} text */
export function isSyllabic(text) {
  const syllables = text.match(SYLLABLES)?.length ?? 0;
  return syllables * SYLLABLE_FRAMES > (text.length - syllables) * LETTER_FRAMES;
}

/** Whether so much sound cannot be all of that text. @param {string} text @param {number} seconds */
export function isTooShort(text, seconds) {
  const expected = expectedSeconds(text.trim());
  return expected > JUDGED_S && seconds < TOO_SHORT * expected;
}
