/** Seeds of takes: whole numbers of 32 bits. The first leads to those of a whole set, so that one fixed seed brings all of it back. */

/** A seed at random. @returns {number} */
export function anySeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

/**
 * The seeds of a set, no two alike and none a neighbour of another.
 *
 * @param {number} first
 * @param {number} count
 * @returns {number[]}
 */
export function series(first, count) {
  const seeds = new Set([first]);
  for (let step = 1; seeds.size < count; step++) seeds.add(mixed(first + step * 0x9e3779b9));
  return [...seeds].slice(0, count);
}

/** The finalizer of MurmurHash3: every bit of a number decides over every bit of the result. @param {number} number */
function mixed(number) {
  let bits = number >>> 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
