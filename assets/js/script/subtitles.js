/**
 * Subtitles (SRT, WebVTT) as a text to read: a paragraph a cue, and a pause where nobody spoke for a while.
 */

import { LONGEST_PAUSE_S, writePause } from './parts.js';

const TIMES = /^\s*((?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3})\s*-->\s*((?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3})/;
const MARKUP = /<[^>]*>|\{\\[^}]*\}/g;
const SHORTEST_PAUSE_S = 0.3; // what is shorter is breath

/** Whether a file's text is subtitles. @param {string} text */
export function areSubtitles(text) {
  return text.split(/\r\n?|\n/, 200).some((row) => TIMES.test(row));
}

/**
 * @param {string} text of an SRT or WebVTT file
 * @param {number} [between] seconds of silence that the script puts between its lines anyway
 * @returns {string} paragraphs for readText
 */
export function subtitlesToText(text, between = 0) {
  const cues = readCues(text);
  const paragraphs = cues.map(({ words, end }, at) => {
    const next = cues[at + 1];
    const pause = next ? Math.min(next.start - end - between, LONGEST_PAUSE_S) : 0;
    return pause >= SHORTEST_PAUSE_S ? `${words} ${writePause(pause)}` : words;
  });
  return paragraphs.join('\n\n');
}

/** @param {string} text @returns {{start: number, end: number, words: string}[]} seconds; cues without words are left out */
export function readCues(text) {
  const blocks = text.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n').split(/\n[ \t]*\n/);
  return blocks.flatMap((block) => {
    const rows = block.split('\n');
    const at = rows.findIndex((row) => TIMES.test(row));
    const times = TIMES.exec(rows[at] ?? '');
    if (!times) return [];
    const [, start, end] = times;
    const words = rows.slice(at + 1).join(' ').replace(MARKUP, '').replace(/\s+/g, ' ').trim();
    return words ? [{ start: seconds(start), end: seconds(end), words }] : [];
  });
}

/** @param {string} time 01:02:03,450 or 02:03.450 */
function seconds(time) {
  return time.replace(',', '.').split(':').reduce((sum, field) => sum * 60 + Number(field), 0);
}
