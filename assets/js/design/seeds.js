/** Seeds of takes: whole numbers of 32 bits, drawn or typed. No two takes share one. */

export const MAX_SEED = 0xffffffff;

/**
 * Draw seeds at random.
 *
 * @param {number} count
 * @param {Iterable<number>} [taken]  seeds that are not to come again
 * @returns {number[]}
 */
export function drawn(count, taken = []) {
  const seen = new Set(taken);
  const seeds = [];
  while (seeds.length < count) {
    const [seed] = crypto.getRandomValues(new Uint32Array(1));
    if (seen.has(seed)) continue;
    seen.add(seed);
    seeds.push(seed);
  }
  return seeds;
}

/**
 * A seed as somebody typed it.
 *
 * @param {string} text
 * @returns {number|null} null where the text is none
 */
export function parsed(text) {
  const digits = text.trim();
  if (!/^\d{1,10}$/.test(digits)) return null;
  const seed = Number(digits);
  return seed <= MAX_SEED ? seed : null;
}
