/**
 * Export of a script: missing lines are generated first, then the studio joins the stored takes.
 *
 * @typedef {Object} Wanted
 * @property {'joined'|'files'|'chapters'|'srt'|'all'} shape
 * @property {'wav'|'mp3'|'flac'|'opus'|'m4b'} format
 * @property {number|null} loudness  LUFS; null: unchanged
 * @property {boolean} [isTimed]  lines begin at the times of their subtitles
 */

import { errorOf } from '../common/api.js';
import { need } from '../common/elements.js';
import { fileName, saveFile } from '../common/files.js';
import { calledBy } from './line_text.js';

/**
 * Return the clips of POST studio/exports: takes and silences in order with their line numbers; and the starts of
 * chapters.
 *
 * @param {import('./making.js').Maker} maker
 * @param {(made: number, of: number) => void} onProgress
 * @param {boolean} [isTimed] lines begin at the times of their subtitles
 * @returns {Promise<{clips: Object<string, any>[], chapters: {title: string, first_clip: number}[]}>}
 * @throws {Error} a line could not be generated; the message has its number
 */
export async function collectClips(maker, onProgress, isTimed = false) {
  const { script } = maker;
  if (!script) return { clips: [], chapters: [] };
  const lines = script.lines.filter((line) => maker.plan(line).length > 0);
  const clips = [];
  const chapters = [];
  for (const [made, line] of lines.entries()) {
    onProgress(made, lines.length);
    const parts = await maker.make(line).catch((error) => Promise.reject(maker.lineError(line, error)));
    const gap = made > 0 ? script.gapAfter(lines[made - 1]) : 0;
    if (gap > 0) clips.push({ silence_s: gap });
    if (line.chapter) chapters.push({ title: line.chapter.slice(0, 120), first_clip: clips.length });
    const at = script.at(line.id) + 1;
    const time = isTimed && { starts_s: line.starts };
    clips.push(...parts.map((part, number) => ({ ...part, line: at, ...(number === 0 && time) })));
  }
  onProgress(lines.length, lines.length);
  return { clips, chapters };
}

/**
 * @param {Object<string, any>} api
 * @param {import('./document.js').Script} script
 * @param {Awaited<ReturnType<typeof collectClips>>} collected
 * @param {Wanted} wanted
 * @returns {Promise<{file: Blob, name: string, notes: string}>}
 */
export async function exportClips(api, script, { clips, chapters }, { shape, format, loudness, isTimed = false }) {
  const name = calledBy(script).replace(/ …$/u, '') || 'script';
  const { author, cover } = script.book;
  const asked = { clips, chapters: isTimed ? [] : chapters, shape, format, loudness_lufs: loudness, name, author, cover: cover || null };
  const headers = { 'content-type': 'application/json' };
  const answer = await api.ask('studio/exports', { method: 'POST', headers, body: JSON.stringify(asked) });
  const suffix = { joined: format, files: 'zip', chapters: 'zip', srt: 'srt', all: 'zip' }[shape];
  return { file: await answer.blob(), name: fileName(name, suffix), notes: answer.headers.get('x-notes') ?? '' };
}

// --- The export sheet: content, format, loudness and progress.

export class ExportForm {
  /** @param {HTMLElement} root the room's panel @param {import('./room.js').ScriptRoom} room */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.sheet = need(root, '#vw-script-export');
    this.shape = need(root, '#vw-script-shape', HTMLSelectElement);
    this.format = need(root, '#vw-script-format', HTMLSelectElement);
    this.loudness = need(root, '#vw-script-loudness', HTMLSelectElement);
    this.timed = need(root, '#vw-script-timed', HTMLInputElement);
    this.go = need(root, '#vw-script-go', HTMLButtonElement);
    this.progress = need(root, '#vw-script-progress', HTMLProgressElement);
    this.message = need(root, '#vw-script-told');
    this.error = need(root, '#vw-script-export-error');
    this.sheet.onsubmit = (event) => {
      event.preventDefault();
      this.make();
    };
    this.sheet.addEventListener('beforetoggle', () => this.offerTimes());
    this.shape.onchange = () => {
      for (const field of [this.format, this.loudness]) field.disabled = this.shape.value === 'srt';
    };
  }

  /** @param {HTMLElement} source the pressed button */
  show(source) {
    this.sheet.showPopover({ source });
  }

  /** Offer the times of subtitles if every line has one, in order. */
  offerTimes() {
    const times = this.room.script.lines.filter(({ text }) => text.trim()).map(({ starts }) => starts ?? -1);
    const hasTimes = times.length > 0 && times.every((time, at) => time >= Math.max(0, times[at - 1] ?? 0));
    /** @type {HTMLElement} */ (this.timed.parentElement).hidden = !hasTimes;
    this.timed.checked &&= hasTimes;
  }

  /** Clear messages about an earlier state of the script. */
  clearMessages() {
    this.error.textContent = '';
    if (!this.go.disabled) this.message.textContent = '';
  }

  /** @param {number} value @param {string} sentence */
  showProgress(value, sentence) {
    this.progress.value = value;
    this.message.textContent = sentence;
  }

  async make() {
    const { room, studio } = this;
    const { t } = studio;
    const { script, maker } = room;
    this.error.textContent = '';
    this.go.disabled = true;
    this.progress.hidden = false;
    try {
      room.check(script.lines.map(({ id }) => id));
      const { wanted } = this;
      const onProgress = (/** @type {number} */ made, /** @type {number} */ of) =>
        this.showProgress(made / (of + 1), made < of ? t('script.making', { n: made + 1, of }) : t('script.joining'));
      const collected = await collectClips(maker, onProgress, wanted.isTimed);
      const { file, name, notes } = await exportClips(studio.api, script, collected, wanted);
      saveFile(file, name);
      this.showProgress(0, '');
      this.sheet.hidePopover();
      studio.toast([t('script.exported', { name }), notes].filter(Boolean).join(' '));
    } catch (error) {
      this.showProgress(0, '');
      studio.showError(this.error, errorOf(error));
    } finally {
      this.go.disabled = false;
      this.progress.hidden = true;
    }
  }

  /** The selected options, defined in assets/html/rooms/script.html. @returns {Wanted} */
  get wanted() {
    const loudness = this.loudness.value ? Number(this.loudness.value) : null;
    return /** @type {Wanted} */ ({ shape: this.shape.value, format: this.format.value, loudness, isTimed: this.timed.checked });
  }
}
