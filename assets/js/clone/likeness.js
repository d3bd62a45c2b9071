/** Whether two texts are so alike that one was mistaken for the other. Pure. */

const ALIKE = 0.75;
const MIN_LETTERS = 8; // Letters; a shorter text cannot be compared.

/** @param {string} one @param {string} other */
export function alike(one, other) {
  const [a, b] = [one, other].map(letters);
  if (Math.min(a.length, b.length) < MIN_LETTERS) return a === b && a.length > 0;
  const [ours, theirs] = [pairs(a), pairs(b)];
  let shared = 0;
  for (const [pair, count] of ours) shared += Math.min(count, theirs.get(pair) ?? 0);
  return (2 * shared) / (a.length + b.length - 2) >= ALIKE;
}

/** Letters and digits alone, small. @param {string} text */
function letters(text) {
  return text.normalize('NFKC').toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
}

/** How often each two letters stand beside each other. @param {string} text @returns {Map<string, number>} */
function pairs(text) {
  const found = new Map();
  for (let i = 0; i + 1 < text.length; i++) {
    const pair = text.slice(i, i + 2);
    found.set(pair, (found.get(pair) ?? 0) + 1);
  }
  return found;
}
