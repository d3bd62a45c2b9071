/** Functions for PCM audio (16-bit mono at 24 kHz): WAV files and durations. */

export const SAMPLE_RATE = 24000;

/**
 * Return 16-bit mono samples at 24 kHz as a WAV file.
 *
 * @param {Int16Array[]} chunks
 * @returns {Blob}
 */
export function wavBlob(chunks) {
  const bytes = chunks.reduce((sum, pcm) => sum + pcm.byteLength, 0);
  const header = new DataView(new ArrayBuffer(44));
  /** @param {number} at @param {string} word */
  const text = (at, word) => [...word].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
  text(0, 'RIFF');
  header.setUint32(4, 36 + bytes, true);
  text(8, 'WAVEfmt ');
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true); // Format: PCM.
  header.setUint16(22, 1, true); // Channels: 1.
  header.setUint32(24, SAMPLE_RATE, true);
  header.setUint32(28, SAMPLE_RATE * 2, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  text(36, 'data');
  header.setUint32(40, bytes, true);
  return new Blob([header, .../** @type {BlobPart[]} */ (chunks)], { type: 'audio/wav' });
}

/** Convert floats in [-1, 1] to 16-bit integers. @param {Float32Array} samples */
export function toInt16(samples) {
  const pcm = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) {
    pcm[i] = Math.max(-32768, Math.min(32767, Math.round(samples[i] * 32768)));
  }
  return pcm;
}

/** Return a blob as a `data:` URL, which is how requests contain reference audio. @param {Blob} blob */
export function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** Format a duration in minutes and seconds, such as 1:02.5. @param {number} samples duration as a number of samples */
export function clock(samples) {
  const seconds = samples / SAMPLE_RATE;
  return `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, '0')}`;
}
