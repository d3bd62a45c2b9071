/** What a take is worth as a reference. */

/** Shorter references hold too little of a voice; the library's own advice begins at the same length. Seconds. */
export const SHORTEST_REFERENCE = 3;

/** @param {{seconds: number}} take */
export const isShort = (take) => take.seconds < SHORTEST_REFERENCE;
