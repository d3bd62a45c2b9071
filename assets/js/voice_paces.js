/** How fast each voice speaks against an ordinary pace, learnt from the takes that came whole; and so how long one will be. */

import { SAMPLE_RATE } from './wav.js';
import { expectedSeconds, isSyllabic } from './speech_rate.js';
import { untagged } from './tags.js';

const TELLING_S = 3; // Seconds of ordinary speech; the pace of a shorter text is random.
const FASTEST = 0.5; // Share of the ordinary time; a take outside this range did not speak its text.
const SLOWEST = 2;

export class VoicePaces {
  /** By mode, voice and kind of script. @type {Map<string, number>} */
  known = new Map();

  /** @param {Spoken & {seconds: number}} take that is whole */
  learn(take) {
    const said = take.sent.trim();
    const expected = expectedSeconds(said);
    if (expected < TELLING_S || wordsOf(take) !== said) return; // A requested pause does not count as pace.
    const pace = take.seconds / expected;
    if (pace >= FASTEST && pace <= SLOWEST) this.known.set(keyOf(take), pace);
  }

  /** Of the voice of a take, in the script of its text; undefined: it was not heard yet. @param {Spoken} take */
  of(take) {
    return this.known.get(keyOf(take));
  }

  /** Samples that a take will have, as far as its text tells. @param {Spoken} take */
  samplesOf(take) {
    return Math.round(expectedSeconds(wordsOf(take)) * (this.of(take) ?? 1) * SAMPLE_RATE);
  }
}

/** @typedef {Pick<import('./take.js').Take, 'mode'|'config'|'sent'>} Spoken */

/** What of a text is read aloud. @param {Spoken} take */
function wordsOf({ config, sent }) {
  return (config.tags ? untagged(sent) : sent).trim();
}

/** @param {Spoken} take */
function keyOf({ mode, config, sent }) {
  return `${mode} ${config.voice ?? ''} ${isSyllabic(sent) ? 'syllables' : 'letters'}`;
}
