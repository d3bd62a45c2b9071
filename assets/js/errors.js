/** Reads what was thrown: an error, with what the studio, the runtime or a form says of it beside its sentence. */

/**
 * @typedef {Error & {code?: string, param?: string|null, field?: string, status?: number, missing?: boolean, retryable?: boolean, unreachable?: boolean}} Thrown
 *   as StudioError (api.js), SpeechError (the client's) and FieldError (rooms/fields.js) have it
 */

/** @param {unknown} thrown @returns {Thrown} */
export function errorOf(thrown) {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
