/** What one recording is told from another by: the SHA-256 of its bytes, as the studio's store has it. */

const BLOCK = 64; // bytes
const PRIMES = primes(64);
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));

/** @param {Blob} blob @returns {Promise<string>} in hexadecimal digits */
export async function digestOf(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  // The browser's own is there for pages on https and localhost alone; a neighbour's machine has the studio on plain http.
  const sum = crypto.subtle ? new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)) : sha256(bytes);
  return [...sum].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** FIPS 180-4, section 6.2. @param {Uint8Array} bytes @returns {Uint8Array} */
export function sha256(bytes) {
  const whole = bytes.length - (bytes.length % BLOCK);
  const rest = bytes.subarray(whole);
  const last = new Uint8Array(rest.length + 9 > BLOCK ? 2 * BLOCK : BLOCK);
  last.set(rest);
  last[rest.length] = 0x80;
  new DataView(last.buffer).setBigUint64(last.length - 8, BigInt(bytes.length) * 8n);
  const state = Int32Array.from(START);
  const schedule = new Int32Array(BLOCK);
  for (const part of [bytes.subarray(0, whole), last]) {
    const view = new DataView(part.buffer, part.byteOffset, part.length);
    for (let at = 0; at < part.length; at += BLOCK) mix(state, schedule, view, at);
  }
  const sum = new DataView(new ArrayBuffer(32));
  state.forEach((word, k) => sum.setInt32(4 * k, word));
  return new Uint8Array(sum.buffer);
}

/** Take one block into the state. @param {Int32Array} state @param {Int32Array} schedule @param {DataView} view @param {number} at */
function mix(state, schedule, view, at) {
  for (let k = 0; k < 16; k++) schedule[k] = view.getInt32(at + 4 * k);
  for (let k = 16; k < 64; k++) {
    const [old, late] = [schedule[k - 15], schedule[k - 2]];
    const s0 = turned(old, 7) ^ turned(old, 18) ^ (old >>> 3);
    const s1 = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    schedule[k] = schedule[k - 16] + s0 + schedule[k - 7] + s1;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let k = 0; k < 64; k++) {
    const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[k] + schedule[k]) | 0;
    const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, k) => (state[k] += word));
}

/** @param {number} word @param {number} by */
function turned(word, by) {
  return (word >>> by) | (word << (32 - by));
}

/** The first 32 bits behind the point. @param {number} number */
function fraction(number) {
  return Math.floor((number % 1) * 2 ** 32) | 0;
}

/** @param {number} count @returns {number[]} */
function primes(count) {
  const found = [2];
  for (let number = 3; found.length < count; number += 2) if (found.every((prime) => number % prime)) found.push(number);
  return found;
}
