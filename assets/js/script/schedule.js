/**
 * Where each line lies in the whole of a script. What plays, what the timeline shows and what is exported agree with it.
 *
 * @typedef {import('./making.js').Stretch & {sound: Sound|null, start: number, length: number}} PlacedStretch
 *   sound: null where it is to be made; start: in the whole
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

import { SAMPLE_RATE } from '../wav.js';
import { expectedSeconds } from '../speech_rate.js';

/** @param {number} seconds */
export function samplesOf(seconds) {
  return Math.round(seconds * SAMPLE_RATE);
}

/**
 * The lines that have anything to say or to be silent about, one behind the other. What is not made yet takes the time
 * that its text takes at an ordinary pace.
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

/** @param {import('./making.js').Stretch} stretch @param {Sound|null} sound */
function lengthOf({ silence, text = '' }, sound) {
  if (silence) return samplesOf(silence);
  if (sound && !('live' in sound && sound.live)) return sound.samples;
  return Math.max(samplesOf(expectedSeconds(text)), sound?.samples ?? 0);
}
