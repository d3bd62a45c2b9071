/** Where a voice comes from, in the flat words that its file carries, and what a take is worth as a reference. */

/** Said in place of a speaker's permission. English in every interface: it is a record, not a label. */
export const CONSENT = 'Designed by description; nobody was recorded.';

/** Shorter references hold too little of a voice; the library's own advice begins at the same length. Seconds. */
export const SHORTEST_REFERENCE = 3;

/** @param {{seconds: number}} take */
export const isShort = (take) => take.seconds < SHORTEST_REFERENCE;

/**
 * The provenance of a voice that a take becomes; values are text, and what nobody knows is left out.
 *
 * @param {import('../take.js').Take} take
 * @param {string} [description] where the take itself has none: it was made after another one's sound
 * @returns {Object<string, string>}
 */
export function provenance({ id, seed, config, parent, record }, description = config.instructions) {
  const known = {
    source: 'design',
    model: record?.model?.id,
    revision: record?.model?.revision ?? record?.model?.fingerprint,
    seed,
    description,
    language: config.language,
    take: id,
    sha256: record?.sha256,
    parent,
  };
  const told = Object.entries(known).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return Object.fromEntries(told.map(([name, value]) => [name, String(value)]));
}
