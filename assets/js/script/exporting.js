/**
 * A script as a file: lines that are not made yet are made first, then the studio joins what it keeps.
 *
 * @typedef {Object} Wanted
 * @property {'joined'|'files'|'srt'|'all'} shape
 * @property {'wav'|'mp3'|'flac'|'opus'} format
 * @property {number|null} loudness  LUFS, null: as it is
 */

import { fileName } from '../file_name.js';
import { calledBy } from './title.js';

/**
 * What POST studio/exports takes: takes and silences in order, each with the number of its line.
 *
 * @param {import('./making.js').Maker} maker
 * @param {(made: number, of: number) => void} onProgress
 * @returns {Promise<Object<string, any>[]>}
 * @throws {Error} a line could not be made; the sentence names its number
 */
export async function collectClips(maker, onProgress) {
  const { script } = maker;
  if (!script) return [];
  const lines = script.lines.filter((line) => maker.plan(line).length > 0);
  const clips = [];
  for (const [made, line] of lines.entries()) {
    onProgress(made, lines.length);
    const parts = await maker.make(line).catch((error) => Promise.reject(maker.lineError(line, error)));
    const gap = made > 0 ? script.gapAfter(lines[made - 1]) : 0;
    if (gap > 0) clips.push({ silence_s: gap });
    clips.push(...parts.map((part) => ({ ...part, line: script.at(line.id) + 1 })));
  }
  onProgress(lines.length, lines.length);
  return clips;
}

/**
 * @param {Object<string, any>} api
 * @param {import('./document.js').Script} script
 * @param {Object<string, any>[]} clips
 * @param {Wanted} wanted
 * @returns {Promise<{file: Blob, name: string}>}
 */
export async function exportClips(api, script, clips, { shape, format, loudness }) {
  const name = calledBy(script).replace(/ …$/u, '') || 'script';
  const asked = { clips, shape, format, loudness_lufs: loudness, name };
  const headers = { 'content-type': 'application/json' };
  const file = await api.blob('studio/exports', { method: 'POST', headers, body: JSON.stringify(asked) });
  const suffix = { joined: format, files: 'zip', srt: 'srt', all: 'zip' }[shape];
  return { file, name: fileName(name, suffix) };
}
