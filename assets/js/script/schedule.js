/**
 * Encoding of the level of audio as a short text for scripts.
 *
 * It has 20 characters per second, from 0 to z. The timeline can draw lines before their audio is loaded.
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { expectedSeconds } from '../common/text.js';
import { BIN, Peaks } from '../player/waveform.js';

export const LEVEL_SAMPLES = SAMPLE_RATE / 20; // Number of samples per character of the outline.
const MAX_LEVEL = 35; // Maximum level, written as the digit z.

/** Return the levels of a take. @param {import('../player/take.js').Take} take @returns {string} */
export function levelsOf(take) {
  const { low, high } = Peaks.of(take);
  const step = LEVEL_SAMPLES / BIN;
  let levels = '';
  for (let from = 0; from < low.length; from += step) {
    let most = 0;
    for (let bin = from; bin < Math.min(from + step, low.length); bin++) most = Math.max(most, high[bin], -low[bin]);
    levels += Math.round(Math.sqrt(Math.min(1, most)) * MAX_LEVEL).toString(36);
  }
  return levels;
}

/**
 * Return the drawn height of a level character, from 0 to 1.
 *
 * It is the root of the peak, because speech is mostly quiet.
 *
 * @param {string} level
 */
export function heightOf(level) {
  return Number.parseInt(level, 36) / MAX_LEVEL;
}

/**
 * Start times of the lines in the full audio of a script.
 *
 * Player, timeline and export share them.
 *
 * @typedef {import('./making.js').Stretch & {sound: Sound|null, start: number, length: number}} PlacedStretch
 *   sound: null if not generated; start: in the full audio
 *
 * @typedef {import('./making.js').Sound} Sound
 *
 * @typedef {Object} Clip
 * @property {import('./document.js').Line} line
 * @property {string} state   of making.js
 * @property {number} start   samples
 * @property {number} end
 * @property {PlacedStretch[]} parts
 */

/** @param {number} seconds */
export function samplesOf(seconds) {
  return Math.round(seconds * SAMPLE_RATE);
}

/**
 * Return the clips of all lines with text or pauses, in order.
 *
 * Lines without audio have the expected duration of their text.
 *
 * @param {import('./document.js').Script} script @param {import('./making.js').Maker} maker
 * @returns {Clip[]}
 */
export function layOut(script, maker) {
  /** @type {Clip[]} */
  const clips = [];
  let end = 0;
  for (const line of script.lines) {
    const plan = maker.plan(line);
    if (plan.length === 0) continue;
    const before = clips.at(-1);
    const start = before ? end + samplesOf(script.gapAfter(before.line)) : 0;
    end = start;
    const parts = plan.map((part) => {
      const sound = maker.sound(part);
      const placed = { ...part, sound, start: end, length: lengthOf(part, sound) };
      end += placed.length;
      return placed;
    });
    clips.push({ line, state: maker.state(line).state, start, end, parts });
  }
  return clips;
}

/** Expected samples of parts without audio. @type {WeakMap<import('./making.js').Stretch, number>} */
const expected = new WeakMap();

/** @param {import('./making.js').Stretch} stretch @param {Sound|null} sound */
function lengthOf(stretch, sound) {
  const { silence, text = '' } = stretch;
  if (silence) return samplesOf(silence);
  if (sound && !('live' in sound && sound.live)) return sound.samples;
  const samples = expected.get(stretch) ?? samplesOf(expectedSeconds(text));
  expected.set(stretch, samples);
  return Math.max(samples, sound?.samples ?? 0);
}
