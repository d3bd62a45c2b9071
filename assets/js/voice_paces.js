/** How fast each voice speaks against an ordinary pace, learnt from every take that came whole; and so how long one will be. */

import { SAMPLE_RATE } from './outputs.js';
import { expectedSeconds } from './speech_rate.js';

export class VoicePaces {
  /** By mode and voice. @type {Map<string, number>} */
  known = new Map();

  /** @param {import('./take.js').Take} take that is whole */
  learn(take) {
    const expected = expectedSeconds(take.sent.trim());
    if (expected > 0 && take.seconds > 0) this.known.set(keyOf(take), take.seconds / expected);
  }

  /** Of the voice of a take; undefined: it was not heard yet. @param {import('./take.js').Take} take */
  of(take) {
    return this.known.get(keyOf(take));
  }

  /** Samples that a take will have, as far as its text tells. @param {import('./take.js').Take} take */
  samplesOf(take) {
    return Math.round(expectedSeconds(take.sent.trim()) * (this.of(take) ?? 1) * SAMPLE_RATE);
  }
}

/** @param {import('./take.js').Take} take */
function keyOf({ mode, config }) {
  return `${mode} ${config.voice ?? ''}`;
}
