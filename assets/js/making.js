/** How much of a long take is made, and how long the rest takes: what stands beside the voice while one waits for it. Pure. */

import { SAMPLE_RATE } from './wav.js';

const LONG_S = 10; // Shorter audio is ready before progress would help.
const SURE_MS = 1000; // Time before the speed of generation is shown.
const MAX_SHARE = 0.99; // The length estimated from a text is never exact.

/**
 * @typedef {Object} Making
 * @property {number} share    of the whole that is made, below 1
 * @property {number} samples  that the whole will have, about
 * @property {number|null} left  seconds until the rest is made; null: it is not known yet
 */

/** @param {import('./take.js').Take} take @param {number} now performance.now() @returns {Making|null} null: nothing that is waited for */
export function making({ state, planned, samples, arrivals }, now) {
  if (state !== 'streaming' || planned < LONG_S * SAMPLE_RATE) return null;
  const share = Math.min(MAX_SHARE, samples / planned);
  const spent = now - arrivals[0].at;
  const left = spent < SURE_MS ? null : ((spent / 1000) * (1 - share)) / share;
  return { share, samples: Math.max(planned, samples), left };
}
