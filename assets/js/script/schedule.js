/**
 * Levels of audio over time, encoded as a short text that is stored with a script.
 *
 * There are 20 characters per second, from 0 to z. The timeline draws lines from these levels if their audio is not
 * loaded.
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { expectedSeconds } from '../common/text.js';
import { BIN, Peaks } from '../player/waveform.js';

export const LEVEL_SAMPLES = SAMPLE_RATE / 20; // Number of samples per character.
const MAX_LEVEL = 35; // Maximum level: the digit z in base 36.

/**
 * Return the levels of a take's audio as text, with 20 characters per second.
 *
 * @param {import('../player/take.js').Take} take @returns {string}
 */
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
 * Return the height at which the timeline draws a level, from 0 to 1.
 *
 * The height is the square root of the peak, because speech is mostly quiet.
 *
 * @param {string} level character from 0 to z
 */
export function heightOf(level) {
  return Number.parseInt(level, 36) / MAX_LEVEL;
}

/**
 * Positions of the lines in the audio of a script.
 *
 * The player, the timeline and the export use the same positions.
 *
 * @typedef {import('./making.js').Segment & {sound: SegmentTake|null, start: number, length: number}} PlacedSegment
 *   sound: take, or null if not generated; start: position in the full audio in samples
 *
 * @typedef {import('./making.js').SegmentTake} SegmentTake
 *
 * @typedef {Object} Clip     part of the full audio that belongs to a line
 * @property {import('./document.js').Line} line
 * @property {string} state   state of the line, as in making.js
 * @property {number} start   start in samples
 * @property {number} end     end in samples
 * @property {PlacedSegment[]} parts
 */

/** Convert seconds to a number of samples. @param {number} seconds */
export function samplesOf(seconds) {
  return Math.round(seconds * SAMPLE_RATE);
}

/**
 * Return a clip with position and length for each line that has text or pauses.
 *
 * The length of a segment without audio is estimated from its text.
 *
 * @param {import('./document.js').Script} script @param {import('./making.js').Maker} maker
 * @returns {Clip[]}
 */
export function clipsOf(script, maker) {
  /** @type {Clip[]} */
  const clips = [];
  let end = 0;
  for (const line of script.lines) {
    const plan = maker.segmentsOf(line);
    if (plan.length === 0) continue;
    const before = clips.at(-1);
    const start = before ? end + samplesOf(script.gapAfter(before.line)) : 0;
    end = start;
    const parts = plan.map((part) => {
      const sound = maker.takeOf(part);
      const placed = { ...part, sound, start: end, length: lengthOf(part, sound) };
      end += placed.length;
      return placed;
    });
    clips.push({ line, state: maker.state(line).state, start, end, parts });
  }
  return clips;
}

/** Expected number of samples of segments without audio. @type {WeakMap<import('./making.js').Segment, number>} */
const expected = new WeakMap();

/**
 * Return the length of a segment in samples, which is estimated without audio.
 *
 * @param {import('./making.js').Segment} segment
 * @param {SegmentTake|null} take
 */
function lengthOf(segment, take) {
  const { silence, text = '' } = segment;
  if (silence) return samplesOf(silence);
  if (take && !('isReceiving' in take && take.isReceiving)) return take.samples;
  const samples = expected.get(segment) ?? samplesOf(expectedSeconds(text));
  expected.set(segment, samples);
  return Math.max(samples, take?.samples ?? 0);
}
