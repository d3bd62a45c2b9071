/**
 * Detection of speech, pauses and noises in a recording, with pure functions.
 *
 * Frames of 20 ms are classified by their level and their periodicity. A voice is periodic. A cough or a knock is as
 * loud as a vowel, but it starts suddenly or is not periodic. A hum is periodic for longer than any vowel.
 */

import { SAMPLE_RATE } from '../common/audio.js';

export const FRAME_S = 0.02;
const FRAME_SAMPLES = SAMPLE_RATE * FRAME_S;
const DECIMATION = 6; // Factor of the decimation from 24 kHz to 4 kHz. Pitch is still detectable at 4 kHz.
const LOW_FRAME_SAMPLES = FRAME_SAMPLES / DECIMATION;
const LAG_RANGE_SAMPLES = [10, 88]; // Range of periods in samples at 4 kHz, for pitches from 400 to 45 Hz.
const COMPARED_SAMPLES = 200; // Number of samples at 4 kHz that are compared with earlier samples.
const MIN_VOICED_CORRELATION = 0.6;
const QUIETEST_DB = -75;
const CLIPPED = 32700;
// Maximum duration of a recording that is analysed in full resolution. Longer recordings would take too much time.
const MAX_FINE_S = 120;

const STEPS = 4; // Steps per frame. The onset of a noise is measured in steps of 5 ms.
const STEP_SAMPLES = FRAME_SAMPLES / STEPS;
const PAUSE_STEPS = 30; // Minimum duration of the pause before a sudden cough or knock.
const MIN_RISE_DB = 26; // Minimum level of a cough or knock above the level of this pause.
// Maximum level difference between the first step and the peak of a cough or knock. A voice starts more slowly.
const MAX_ATTACK_DB = 12;
const ATTACK_STEPS = 8;
const DECAY_STEPS = 20; // Number of steps within which the level of a knock falls by MIN_DECAY_DB.
const MIN_DECAY_DB = 20;
const MAX_COUGH_S = 0.9;
// Maximum correlation of a cough. Its coloured noise may exceed MIN_VOICED_CORRELATION.
const MAX_COUGH_CORRELATION = 0.72;
// Maximum level difference between consecutive steps of a noise, as root mean square. A creaky voice is not periodic
// either, but its level falls after each glottal pulse.
const MAX_ROUGHNESS_DB = 3.8;
const MIN_BURST_S = 0.2; // Minimum duration of a noise within speech. Shorter noises may be consonants.
const MIN_BRIGHT_SHARE = 0.8; // Minimum brightness of a consonant such as s: the brightness of a 3.5 kHz tone.
const MAX_DULL_SHARE = 0.1; // Maximum brightness of a deep or hoarse voice: the brightness of a 1.2 kHz tone.
// Minimum fraction of energy below 2 kHz in a voice. The sound "sh" has at most a tenth.
const MIN_THROAT_SHARE = 0.25;
const MAX_VOWEL_S = 0.8; // Maximum duration of a vowel with constant pitch and loudness.
const MAX_STOP_S = 0.16; // Maximum duration of the silence in a stop consonant.
const CLICK_S = 0.06;
const EDGE_S = 0.25;

/**
 * @typedef {{start: number, end: number}} TimeSpan  start and end in seconds
 * @typedef {Object} RecordingAnalysis
 * @property {number} seconds
 * @property {Float32Array} levels      level of each frame in dB relative to full scale
 * @property {Uint8Array} speech        1 for each frame with speech
 * @property {Uint8Array} clipped       1 for each frame with clipped samples
 * @property {number} loud              level of the speech in dB
 * @property {TimeSpan[]} bursts         stretches with coughs or knocks
 * @property {TimeSpan[]} hums
 */

/**
 * Find the speech and the noises in a recording.
 *
 * @param {Int16Array} pcm mono samples at 24 kHz @returns {RecordingAnalysis}
 */
export function analyseRecording(pcm) {
  const { levels, steps, clipped, bright } = levelsOf(pcm);
  const count = levels.length;
  const floor = quantile(levels, 0.1);
  const peak = quantile(levels, 0.98);
  const audible = Math.max(floor + 4, peak - 40);
  const { repeats, lags, throat } = repetition(pcm, count, (frame) => levels[frame] > Math.min(audible, floor + 1) - 6);
  const voiced = levels.filter((level, frame) => repeats[frame] > MIN_VOICED_CORRELATION && level > audible);
  const isVoiced = voiced.length > 10;
  const loud = quantile(isVoiced ? voiced : levels, 0.8);
  // Minimum level of a frame that counts as speech. It is high enough to exclude room noise.
  const least = Math.max(loud - 32, Math.min(floor + 9, (floor + loud) / 2));
  const hum = humming(levels, repeats, lags, floor, loud);
  // Bursts are measured relative to the level of speech, so no burst is detected without speech.
  const burst = isVoiced ? bursting({ levels, steps, repeats, bright, throat, least, loud, hum }) : new Uint8Array(count);
  removeClippedBursts(burst, clipped);
  const speech = Uint8Array.from(levels, (level, frame) => (level > least && !hum[frame] && !burst[frame] ? 1 : 0));
  fill(speech, 1, MAX_STOP_S, (frame) => !burst[frame] && !hum[frame]);
  for (const [from, to] of runs(speech, 1)) {
    const isVoice = some(from, to, (frame) => repeats[frame] > MIN_VOICED_CORRELATION);
    const length = (to - from) * FRAME_S;
    // The unsteady start or end of a hum is not speech.
    const isEdge = length < EDGE_S && (hum[from - 1] === 1 || hum[to] === 1);
    if (length < CLICK_S || !isVoice || isEdge) speech.fill(0, from, to);
  }
  const seconds = pcm.length / SAMPLE_RATE;
  return { seconds, levels, speech, clipped, loud, bursts: stretches(burst, seconds), hums: stretches(hum, seconds) };
}

/**
 * Return the pauses between parts of the speech.
 *
 * @param {RecordingAnalysis} analysis
 * @param {number} minSeconds minimum duration of a pause in seconds
 * @returns {TimeSpan[]}
 */
export function pauses({ speech, seconds }, minSeconds) {
  return stretches(speech, seconds, 0).filter(({ start, end }) => end - start >= minSeconds && start > 0 && end < seconds - FRAME_S);
}

/**
 * Return the start and the end of the speech in seconds, or null without speech.
 *
 * @param {RecordingAnalysis} analysis @returns {TimeSpan|null}
 */
export function speechSpan({ speech, seconds }) {
  const all = stretches(speech, seconds);
  return all.length > 0 ? { start: all[0].start, end: all[all.length - 1].end } : null;
}

/**
 * Return the level, the clipping flag and the brightness of each frame.
 *
 * The level excludes low rumble. The brightness (0 to 4) is the energy of the differences between samples, divided by
 * the energy of the samples.
 *
 * @param {Int16Array} pcm
 */
function levelsOf(pcm) {
  const count = Math.floor(pcm.length / FRAME_SAMPLES);
  const levels = new Float32Array(count);
  const steps = new Float32Array(count * STEPS);
  const clipped = new Uint8Array(count);
  const bright = new Float32Array(count);
  const keep = Math.exp((-2 * Math.PI * 70) / SAMPLE_RATE);
  let slow = 0;
  let before = 0;
  const decibels = (/** @type {number} */ power) => Math.max(QUIETEST_DB, 10 * Math.log10(power / 32768 ** 2 + 1e-12));
  for (let frame = 0; frame < count; frame++) {
    let energy = 0;
    let differences = 0;
    for (let step = frame * STEPS; step < (frame + 1) * STEPS; step++) {
      let part = 0;
      for (let i = step * STEP_SAMPLES; i < (step + 1) * STEP_SAMPLES; i++) {
        slow = keep * slow + (1 - keep) * pcm[i];
        part += (pcm[i] - slow) ** 2;
        differences += (pcm[i] - before) ** 2;
        before = pcm[i];
        if (pcm[i] >= CLIPPED || pcm[i] <= -CLIPPED) clipped[frame] = 1;
      }
      steps[step] = decibels(part / STEP_SAMPLES);
      energy += part;
    }
    levels[frame] = decibels(energy / FRAME_SAMPLES);
    bright[frame] = differences / (energy + 1);
  }
  return { levels, steps, clipped, bright };
}

/**
 * Return the correlation, the period and the low-frequency energy of each frame.
 *
 * The correlation compares a frame with the preceding samples. The period is in samples at 4 kHz. The low-frequency energy
 * is the energy below 2 kHz of 16-bit samples.
 *
 * @param {Int16Array} pcm @param {number} count number of frames @param {(frame: number) => boolean} matters true for frames to analyse
 */
function repetition(pcm, count, matters) {
  const low = new Float32Array(Math.floor(pcm.length / DECIMATION));
  for (let i = 0; i < low.length; i++) {
    for (let k = 0; k < DECIMATION; k++) low[i] += pcm[i * DECIMATION + k] / DECIMATION;
  }
  const energy = new Float64Array(low.length + 1); // Prefix sums of the energy, to compute the energy of any range.
  for (let i = 0; i < low.length; i++) energy[i + 1] = energy[i] + low[i] * low[i];
  const repeats = new Float32Array(count);
  const lags = new Uint8Array(count);
  // Distance in frames between two measurements, which is larger in a long recording.
  const reach = count * FRAME_S > MAX_FINE_S ? 2 : 1;
  for (let frame = 0; frame < count; frame += reach) {
    const from = frame * LOW_FRAME_SAMPLES - Math.round((COMPARED_SAMPLES - LOW_FRAME_SAMPLES) / 2);
    if (from < LAG_RANGE_SAMPLES[1] || from + COMPARED_SAMPLES > low.length || !matters(frame)) continue;
    let best = 0;
    let found = 0;
    const own = energy[from + COMPARED_SAMPLES] - energy[from];
    for (let lag = LAG_RANGE_SAMPLES[0]; lag <= LAG_RANGE_SAMPLES[1]; lag++) {
      let product = 0;
      for (let i = from; i < from + COMPARED_SAMPLES; i++) product += low[i] * low[i - lag];
      const match = product / Math.sqrt(own * (energy[from + COMPARED_SAMPLES - lag] - energy[from - lag]) + 1e-9);
      // Multiples of the period match equally well, so a longer lag must match clearly better.
      if (match > best + (best > 0.8 ? 0.03 : 0)) {
        best = match;
        found = lag;
      }
    }
    repeats.fill(best, frame, frame + reach);
    lags.fill(found, frame, frame + reach);
  }
  const throat = Float64Array.from({ length: count }, (_, frame) => DECIMATION * (energy[(frame + 1) * LOW_FRAME_SAMPLES] - energy[frame * LOW_FRAME_SAMPLES]));
  return { repeats, lags, throat };
}

/**
 * Return a flag for each frame of a continuous tone.
 *
 * @param {Float32Array} levels
 * @param {Float32Array} repeats
 * @param {Uint8Array} lags
 * @param {number} floor
 * @param {number} loud
 */
function humming(levels, repeats, lags, floor, loud) {
  const steady = Uint8Array.from(levels, (level, frame) => {
    const before = Math.max(0, frame - 5);
    const isTone = repeats[frame] > 0.8 && Math.abs(level - levels[before]) < 1.5 && level > loud - 40;
    return isTone && Math.abs(lags[frame] - lags[before]) <= 1 ? 1 : 0;
  });
  fill(steady, 1, 0.08);
  for (const [from, to] of runs(steady, 1)) {
    if ((to - from) * FRAME_S < MAX_VOWEL_S) steady.fill(0, from, to);
    // The first frame of the tone was compared with the frame five frames earlier, so the tone started there.
    else steady.fill(1, Math.max(0, from - 5), from);
  }
  return steady;
}

/**
 * Return a flag for each frame that belongs to a burst, which is a short loud noise.
 *
 * A burst starts suddenly after a pause, or it lasts longer than a consonant. Consonants such as s and sh are excluded because
 * they are brighter or have no low frequencies.
 *
 * @param {{levels: Float32Array, steps: Float32Array, repeats: Float32Array, bright: Float32Array, throat: Float64Array, least: number, loud: number, hum: Uint8Array}} features
 */
function bursting({ levels, steps, repeats, bright, throat, least, loud, hum }) {
  const isThroat = (/** @type {number} */ frame) => {
    const energy = FRAME_SAMPLES * 32768 ** 2 * 10 ** (levels[frame] / 10);
    return bright[frame] > MAX_DULL_SHARE && bright[frame] < MIN_BRIGHT_SHARE && throat[frame] > MIN_THROAT_SHARE * energy;
  };
  const found = suddenBursts({ levels, steps, repeats, least, loud });
  const noise = Uint8Array.from(levels, (level, frame) => (repeats[frame] < MIN_VOICED_CORRELATION && level > least && !hum[frame] ? 1 : 0));
  fill(noise, 1, 0.05);
  for (const [from, to] of runs(noise, 1)) {
    const strong = levels.slice(from, to).filter((level, k) => level > loud - 16 && isThroat(from + k)).length * FRAME_S;
    if (strong >= MIN_BURST_S && roughness(steps.subarray(from * STEPS, to * STEPS)) < MAX_ROUGHNESS_DB) found.fill(1, from, to);
  }
  return found;
}

/**
 * Return a flag for each frame of a cough or a knock that starts suddenly after a pause.
 *
 * A knock decays within 0.1 s. A cough is short, loud from its start, and noisy in its first 0.14 s. It may end like a vowel.
 *
 * @param {{levels: Float32Array, steps: Float32Array, repeats: Float32Array, least: number, loud: number}} features
 */
function suddenBursts({ levels, steps, repeats, least, loud }) {
  const found = new Uint8Array(levels.length);
  const highest = (/** @type {number} */ from, /** @type {number} */ to) => steps.subarray(from, to).reduce((most, level) => Math.max(most, level), QUIETEST_DB);
  const audible = Math.max(least, loud - 30);
  for (let step = PAUSE_STEPS; step < steps.length; step++) {
    const peak = highest(step, step + ATTACK_STEPS);
    if (peak < loud - 8 || steps[step] <= peak - MAX_ATTACK_DB) continue;
    if (highest(step - PAUSE_STEPS, step - 1) >= peak - MIN_RISE_DB) continue;
    const from = Math.floor(step / STEPS);
    let to = from;
    while (some(to, Math.min(levels.length, to + 3), (frame) => levels[frame] > audible)) to++;
    const later = highest(step + DECAY_STEPS, step + DECAY_STEPS + 8);
    const isKnock = peak === highest(step, step + 2) && later < peak - MIN_DECAY_DB;
    const isVoice = some(from + 2, from + 7, (frame) => repeats[frame] > MAX_COUGH_CORRELATION);
    const isShort = (to - from) * FRAME_S < MAX_COUGH_S && later < peak + 3;
    const isCough = !isVoice && isShort && roughness(steps.subarray(step + 4, step + 28)) < MAX_ROUGHNESS_DB;
    if (isKnock || isCough) found.fill(1, from, to);
  }
  return found;
}

/**
 * Remove clipped bursts if the speech is clipped too, because clipped speech sounds noisy.
 *
 * @param {Uint8Array} burst
 * @param {Uint8Array} clipped
 */
function removeClippedBursts(burst, clipped) {
  const isSpeechClipped = some(0, clipped.length, (frame) => clipped[frame] === 1 && !burst[frame]);
  for (const [from, to] of runs(burst, 1)) if (isSpeechClipped && some(from, to, (frame) => clipped[frame] === 1)) burst.fill(0, from, to);
}

/** Return the root mean square of the level differences between steps. @param {Float32Array} steps */
function roughness(steps) {
  let sum = 0;
  for (let i = 1; i < steps.length; i++) sum += (steps[i] - steps[i - 1]) ** 2;
  return Math.sqrt(sum / Math.max(1, steps.length - 1));
}

/**
 * Return true if `condition` returns true for at least one frame.
 *
 * @param {number} from index of the first frame
 * @param {number} to index after the last frame
 * @param {(frame: number) => boolean} condition
 */
function some(from, to, condition) {
  for (let frame = Math.max(0, from); frame < to; frame++) if (condition(frame)) return true;
  return false;
}

/**
 * Return the index range of each run of equal flags, as pairs of start and end.
 *
 * @param {Uint8Array} flags
 * @param {number} value
 * @returns {[number, number][]}
 */
function runs(flags, value) {
  /** @type {[number, number][]} */
  const found = [];
  for (let from = 0; from < flags.length; from++) {
    if (flags[from] !== value) continue;
    let to = from;
    while (to < flags.length && flags[to] === value) to++;
    found.push([from, to]);
    from = to;
  }
  return found;
}

/**
 * Fill gaps between runs of a value if they are shorter than `gap` seconds.
 *
 * @param {Uint8Array} flags
 * @param {number} value
 * @param {number} gap
 * @param {(frame: number) => boolean} [canFill]
 */
function fill(flags, value, gap, canFill = () => true) {
  for (const [from, to] of runs(flags, 1 - value)) {
    const isInside = from > 0 && to < flags.length;
    if (isInside && (to - from) * FRAME_S < gap && !some(from, to, (frame) => !canFill(frame))) flags.fill(value, from, to);
  }
}

/**
 * Return the time spans of consecutive frames whose flag has this value.
 *
 * @param {Uint8Array} flags @param {number} seconds duration of the whole recording @returns {TimeSpan[]}
 */
function stretches(flags, seconds, value = 1) {
  return runs(flags, value).map(([from, to]) => ({ start: from * FRAME_S, end: Math.min(seconds, to * FRAME_S) }));
}

/**
 * Return the quantile of the values, where `share` is between 0 and 1.
 *
 * @param {Float32Array} values @param {number} share
 */
function quantile(values, share) {
  if (values.length === 0) return QUIETEST_DB;
  const sorted = values.slice().sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
