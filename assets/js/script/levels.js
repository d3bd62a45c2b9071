/**
 * How loud a sound is along its way, as a short word that a script can keep: 20 characters a second, 0 to z.
 * So a timeline can draw what is made before any of its sound was fetched.
 */

import { SAMPLE_RATE } from '../wav.js';
import { BIN, Peaks } from '../peaks.js';

export const LEVEL = SAMPLE_RATE / 20; // Samples per character.
const MAX_LEVEL = 35; // The digit z.

/** The levels of the sound that is here. @param {import('../take.js').Take} take @returns {string} */
export function levelsOf(take) {
  const { low, high } = Peaks.of(take);
  const step = LEVEL / BIN;
  let levels = '';
  for (let from = 0; from < low.length; from += step) {
    let most = 0;
    for (let bin = from; bin < Math.min(from + step, low.length); bin++) most = Math.max(most, high[bin], -low[bin]);
    levels += Math.round(Math.sqrt(Math.min(1, most)) * MAX_LEVEL).toString(36);
  }
  return levels;
}

/** What a character says, from 0 to 1, as high as it is drawn: the root of the loudest sample, since speech is mostly quiet. @param {string} level */
export function heightOf(level) {
  return Number.parseInt(level, 36) / MAX_LEVEL;
}
