/** What a take is worth as a reference. */

/** Shorter references hold too little of a voice; the library's own advice begins at the same length. Seconds. */
export const SHORTEST_REFERENCE = 3;

/** Below this the server takes no reference, as `VOICEWRIGHT_MIN_REFERENCE_S` has it; where a host has another, its refusal says so. Seconds. */
export const MIN_REFERENCE_S = 1;

/** @param {{seconds: number}} take */
export const isShort = (take) => take.seconds < SHORTEST_REFERENCE;
