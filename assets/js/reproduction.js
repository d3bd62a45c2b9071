/** Whether a take that was asked for again is the same, and if not, why. */

/** @param {Int16Array[]} chunks @param {number} samples */
function joined(chunks, samples) {
  const all = new Int16Array(samples);
  let at = 0;
  for (const pcm of chunks) {
    all.set(pcm, at);
    at += pcm.length;
  }
  return all;
}

/**
 * How many of the first one's samples differ, and by how much at most. The other is as long or longer.
 *
 * @param {import('./take.js').Take} one @param {import('./take.js').Take} other
 */
function difference(one, other) {
  const [a, b] = [one, other].map(({ chunks, samples }) => joined(chunks, samples));
  let count = 0;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    const step = Math.abs(a[i] - b[i]);
    if (step) count += 1;
    if (step > most) most = step;
  }
  return { count, most };
}

/** @typedef {Partial<import('./take.js').Model>} Model */

/** @param {Model} model */
const device = ({ device: name, dtype }) => [name, dtype].filter(Boolean).join(', ');

/**
 * @param {import('./take.js').Take} before  the kept take, with its sound
 * @param {import('./take.js').Take} after   the new one
 * @returns {{identical: boolean, key: string, values: Object<string, any>}}  the sentence that says it
 */
export function compare(before, after) {
  /** @param {string} key @param {Object<string, any>} [values] */
  const different = (key, values = {}) => ({ identical: false, key: `library.different.${key}`, values });
  if (after.state === 'stopped') return different('stopped');
  // What was stopped is compared as far as it had come.
  const wasStopped = before.state === 'stopped';
  const sameLength = wasStopped ? before.samples <= after.samples : before.samples === after.samples;
  const { count, most } = sameLength ? difference(before, after) : { count: undefined, most: Infinity };
  const bySamples = wasStopped || after.record === null;
  const same = bySamples ? count === 0 : before.record?.sha256 === after.record?.sha256;
  if (same) return { identical: true, key: `library.identical${wasStopped ? '_so_far' : ''}`, values: { n: before.samples } };
  /** @type {Model[]} */
  const [then, now] = [before.record?.model ?? {}, after.model ?? {}];
  if (then.id && now.id && then.id !== now.id) return different('model', { then: then.id, now: now.id });
  if (then.fingerprint && then.fingerprint !== now.fingerprint) return different('weights', { now: now.id });
  if (device(then) !== device(now)) return different('device', { then: device(then), now: device(now) });
  if (!sameLength) return different('length', { then: before.samples, now: after.samples });
  return different(most <= 1 ? 'step' : 'sound', { n: count });
}
