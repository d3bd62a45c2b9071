/** Seeds of takes: whole numbers of 32 bits, drawn, typed, or next to one that is liked. No two takes share one. */

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
 * The nearest seeds around one, above and below in turn; the range closes to a ring.
 *
 * Near in number only: each seed is a draw of its own. They are easy to name and to find again.
 *
 * @param {number} seed
 * @param {number} count
 * @param {Iterable<number>} [taken]
 * @returns {number[]}
 */
export function neighbours(seed, count, taken = []) {
  const seen = new Set([...taken, seed]);
  const seeds = [];
  for (let distance = 1; seeds.length < count; distance++) {
    for (const step of [distance, -distance]) {
      const near = (seed + step) >>> 0;
      if (seen.has(near) || seeds.length === count) continue;
      seen.add(near);
      seeds.push(near);
    }
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
