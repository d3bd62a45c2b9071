/**
 * Positions of a script's lines in its audio, and levels of the audio for the timeline.
 *
 * The levels are encoded as a short text, which is stored with the script. There are 20 characters per second, from 0
 * to z. The timeline draws lines from these levels if their audio is not loaded.
 */

import { SAMPLE_RATE } from '../common/audio.js';
import { expectedSeconds, untagged } from '../common/text.js';
import { BIN, Peaks } from '../player/waveform.js';

export const LEVEL_SAMPLES = SAMPLE_RATE / 20; // Number of samples per character.
const MAX_LEVEL = 35; // An audio level is stored as one base-36 digit, so the maximum is 35 (z).

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
 * @typedef {import('./making.js').Segment & {sound: SegmentTake|null, expected: number, pace: {made: number, expected: number}, start: number, length: number}} PlacedSegment
 *   sound: take, or null if not generated; expected: usual length of the text; pace: lengths of the takes of its voice;
 *   start: position in the full audio. All are in samples.
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

/** Convert a duration in seconds to a number of samples. @param {number} seconds */
export function samplesOf(seconds) {
  return Math.round(seconds * SAMPLE_RATE);
}

// Weight of the expected pace as a number of samples, as if each voice had spoken this much more audio at the expected
// pace. The pace of a voice with little audio is therefore close to 1.
const EXPECTED_SAMPLES = 3 * SAMPLE_RATE;
// Minimum and maximum pace of a take that is used. Beyond them, the text was probably not spoken correctly.
const MIN_PACE = 0.5;
const MAX_PACE = 2;

/**
 * Return a clip with position and length for each line that has text or pauses.
 *
 * The length of a segment without audio is estimated from its text and from the pace of the voice in the other segments.
 *
 * @param {import('./document.js').Script} script @param {import('./making.js').Maker} maker
 * @returns {Clip[]}
 */
export function clipsOf(script, maker) {
  /** Actual and expected number of samples of the complete takes, by voice. @type {Map<string, PlacedSegment['pace']>} */
  const paces = new Map();
  /** @param {import('./making.js').Segment} segment @returns {PlacedSegment} */
  const read = (segment) => {
    const sound = maker.takeOf(segment);
    const expected = expectedSamples(segment);
    const pace = paces.get(voiceOf(segment)) ?? { made: EXPECTED_SAMPLES, expected: EXPECTED_SAMPLES };
    paces.set(voiceOf(segment), pace);
    if (sound && !isReceiving(sound) && sound.samples >= MIN_PACE * expected && sound.samples <= MAX_PACE * expected) {
      pace.made += sound.samples;
      pace.expected += expected;
    }
    return { ...segment, sound, expected, pace, start: 0, length: 0 };
  };
  /** @type {Clip[]} */
  const clips = [];
  for (const line of script.lines) {
    const parts = maker.segmentsOf(line).map(read);
    if (parts.length > 0) clips.push({ line, state: maker.state(line).state, start: 0, end: 0, parts });
  }
  // The lengths are estimated after the paces of all lines are known.
  let end = 0;
  for (const [at, clip] of clips.entries()) {
    if (at > 0) end += samplesOf(script.gapAfter(clips[at - 1].line));
    clip.start = end;
    for (const part of clip.parts) {
      Object.assign(part, { start: end, length: lengthOf(part) });
      end += part.length;
    }
    clip.end = end;
  }
  return clips;
}

/** Return a text that identifies the voice of a segment. @param {import('./making.js').Segment} segment */
function voiceOf({ mode, config }) {
  return `${mode} ${config?.voice}`;
}

/** Return true if the audio of a take is still being received. @param {SegmentTake} take */
function isReceiving(take) {
  return 'isReceiving' in take && take.isReceiving;
}

/** Expected number of samples by segment. @type {WeakMap<import('./making.js').Segment, number>} */
const known = new WeakMap();

/** Return the expected number of samples of a segment. @param {import('./making.js').Segment} segment */
function expectedSamples(segment) {
  const { text = '', config } = segment;
  const samples = known.get(segment) ?? samplesOf(expectedSeconds(config?.tags ? untagged(text) : text));
  known.set(segment, samples);
  return samples;
}

/** Return the length of a segment in samples, which is estimated without audio. @param {PlacedSegment} segment */
function lengthOf({ silence, sound, expected, pace }) {
  if (silence) return samplesOf(silence);
  if (sound && !isReceiving(sound)) return sound.samples;
  return Math.max(Math.round((pace.made / pace.expected) * expected), sound?.samples ?? 0);
}
