/** What one recording is told from another by: the SHA-256 of its bytes, as the studio's store has it. */

/**
 * Null where the browser makes none, as on plain http from another machine than this.
 *
 * @param {Blob} blob @returns {Promise<string|null>} in hexadecimal digits
 */
export async function digestOf(blob) {
  if (!crypto.subtle) return null;
  const sum = await crypto.subtle.digest('SHA-256', await blob.arrayBuffer());
  return [...new Uint8Array(sum)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
