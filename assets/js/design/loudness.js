/**
 * Takes at one loudness, so that a voice is not preferred for being louder.
 *
 * Everything is turned down to the quietest, nothing up: gain above 0 dB could clip.
 */

/** What lies this far under the loudest is a failed take, and is no measure for the others. LU. */
const FAILED_BELOW = 20;

/**
 * @param {(number|null)[]} levels  integrated loudness in LUFS; null where it was not measured
 * @returns {{level: number|null, gains: number[]}}  the common level, and what each is turned down by, dB
 */
export function matched(levels) {
  /** @param {number|null} level @returns {level is number} */
  const isKnown = (level) => Number.isFinite(level);
  const known = levels.filter(isKnown);
  if (known.length < 2) return { level: null, gains: levels.map(() => 0) };
  const loudest = Math.max(...known);
  const level = Math.min(...known.filter((one) => one > loudest - FAILED_BELOW));
  return { level, gains: levels.map((one) => (isKnown(one) ? Math.min(0, level - one) : 0)) };
}
