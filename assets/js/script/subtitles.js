/**
 * Cues of subtitles, as the studio reads them, as lines: a pause is where nobody speaks for a while.
 *
 * @typedef {{start: number, end: number, name: string|null}} Cue  seconds, and who speaks
 */

import { LONGEST_PAUSE_S, writePause } from './parts.js';

const SHORTEST_PAUSE_S = 0.3; // A shorter pause is a breath.

/**
 * @param {string[]} texts @param {Cue[]} cues one for each text
 * @param {number} [between] seconds of silence that the script puts between its lines anyway
 * @returns {import('./reading.js').ReadLine[]}
 */
export function cuesToLines(texts, cues, between = 0) {
  return texts.map((text, at) => {
    const { end, name } = cues[at];
    const next = cues[at + 1];
    const pause = next ? Math.min(next.start - end - between, LONGEST_PAUSE_S) : 0;
    return { name, instruct: '', text: pause >= SHORTEST_PAUSE_S ? `${text} ${writePause(pause)}` : text };
  });
}
