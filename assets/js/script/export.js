/**
 * Export of a script as audio files or subtitles.
 *
 * The lines without audio are generated first. Then the studio joins the stored takes.
 *
 * @typedef {Object} ExportOptions     options of an export
 * @property {'joined'|'files'|'chapters'|'srt'|'all'} shape
 * @property {'wav'|'mp3'|'flac'|'opus'|'m4b'} format
 * @property {number} [rate]          bit rate of an MP3 in bit/s
 * @property {number|null} loudness  loudness in LUFS, or null for unchanged audio
 * @property {boolean} [isTimed]  true if lines start at the times of their subtitles
 * @property {number|null} [filmS]  length in seconds of the film with the subtitles, which is also the length of the file
 */

import { errorOf } from '../common/api.js';
import { SAMPLE_RATE } from '../common/audio.js';
import { getElement, onSubmit, writeText } from '../common/elements.js';
import { fileName, saveFile } from '../common/files.js';
import { expectedSeconds } from '../common/text.js';
import { bitRate, offerBitRate } from '../player/stage_panel.js';
import { nameOfScript } from './line_text.js';

const MAX_NOTE_CHARS = 300;
const RETRY_MS = 2000;
const RESTART_TIMEOUT_MS = 600_000; // Maximum time to wait for a restart of the studio or the runtime.
// Maximum number of lines that are generated at the same time. With several lines, the engine can batch them and does
// not wait for the studio.
const MAX_LINES_IN_FLIGHT = 4;
const MIN_MEASURED_MS = 2000; // Minimum generation time after which the remaining time is estimated.

/**
 * Run an action, and repeat it while the studio or the runtime is unavailable.
 *
 * @template T
 * @param {() => Promise<T>} action @param {() => void} onAway called before each repetition
 * @returns {Promise<T>}
 * @throws {Error} any other error, or the last error after `RESTART_TIMEOUT_MS`
 */
async function retry(action, onAway) {
  const begun = performance.now();
  for (;;) {
    try {
      return await action();
    } catch (thrown) {
      const { retryable, unreachable } = errorOf(thrown);
      // `fetch` throws a TypeError if the connection is lost.
      const isAway = retryable || unreachable || thrown instanceof TypeError;
      if (!isAway || performance.now() - begun > RESTART_TIMEOUT_MS) throw thrown;
      onAway();
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** Estimate of the remaining time of an export, from the received audio. */
export class TimeLeft {
  /**
   * Create an estimate for some lines.
   *
   * @param {import('./making.js').Maker} maker
   * @param {import('./document.js').Line[]} lines lines that are not generated yet, in order
   */
  constructor(maker, lines) {
    this.maker = maker;
    this.lines = lines;
    this.begun = performance.now();
    this.all = lines.reduce((sum, line) => sum + expectedSeconds(line.text), 0);
    this.made = 0;
  }

  /** Count the first line as complete. */
  completeLine() {
    this.made += expectedSeconds(this.lines.shift()?.text ?? '');
  }

  /** Share of the audio that was received, from 0 to 1. */
  get share() {
    const received = (/** @type {import('./document.js').Line} */ line) => Math.min(this.maker.state(line).seconds, expectedSeconds(line.text));
    const made = this.lines.slice(0, MAX_LINES_IN_FLIGHT).reduce((sum, line) => sum + received(line), this.made);
    return this.all && made / this.all;
  }

  /** Remaining time in seconds, or null while there is too little data. */
  get seconds() {
    const ms = performance.now() - this.begun;
    const { share } = this;
    return ms < MIN_MEASURED_MS || share === 0 ? null : (ms / 1000) * (1 / share - 1);
  }
}

/**
 * Generate the missing audio and return the clips and chapters for POST studio/exports.
 *
 * The clips are takes and silences in order, with the numbers of their lines. The chapters have the index of their
 * first clip.
 *
 * @param {import('./making.js').Maker} maker
 * @param {(made: number, of: number, left: number|null, share: number) => void} onProgress  left: remaining seconds, or null
 * if unknown; share: share of the missing audio that was received
 * @param {boolean} [isTimed] true if lines start at the times of their subtitles
 * @param {() => void} [onAway] called while the studio or the runtime is unavailable
 * @param {import('./document.js').Line[]} [wanted] lines to export, by default all lines
 * @returns {Promise<{clips: Object<string, any>[], chapters: {title: string, first_clip: number}[]}>}
 * @throws {Error} if a line could not be generated. The message contains the number of the line.
 */
export async function collectClips(maker, onProgress, isTimed = false, onAway = () => {}, wanted = maker.script?.lines ?? []) {
  const { script } = maker;
  if (!script) return { clips: [], chapters: [] };
  const lines = wanted.filter((line) => maker.segmentsOf(line).length > 0);
  const unmade = new Set(lines.filter((line) => maker.state(line).state !== 'made'));
  const timeLeft = new TimeLeft(maker, [...unmade]);
  const clips = [];
  const chapters = [];
  /** @type {ReturnType<typeof maker.make>[]} */
  const begun = [];
  let made = 0;
  // Generated share when the studio became unavailable. The message about the outage stays until more audio arrives.
  let awayShare = -1;
  const report = () => {
    // The share falls if a line is repeated, because the line starts again without audio.
    awayShare = Math.min(awayShare, timeLeft.share);
    if (timeLeft.share <= awayShare) return;
    awayShare = -1;
    onProgress(made, lines.length, timeLeft.seconds, timeLeft.share);
  };
  const wait = () => {
    awayShare = timeLeft.share;
    onAway();
  };
  maker.addEventListener('change', report);
  try {
    for (const [at, line] of lines.entries()) {
      made = at;
      report();
      for (const next of lines.slice(begun.length, made + MAX_LINES_IN_FLIGHT)) {
        const making = retry(() => maker.make(next), wait);
        making.catch(() => {}); // The loop below reports errors in the order of the lines.
        begun.push(making);
      }
      const parts = await begun[made].catch((error) => Promise.reject(maker.lineError(line, error)));
      if (unmade.has(line)) timeLeft.completeLine();
      maker.release(line);
      const gap = made > 0 ? script.gapAfter(lines[made - 1]) : 0;
      if (gap > 0) clips.push({ silence_s: gap });
      if (line.chapter) chapters.push({ title: line.chapter.slice(0, 120), first_clip: clips.length });
      const number = script.indexOf(line.id) + 1;
      const speaker = line.name || maker.voiceAssignment.uniqueNameOf(line.voice);
      const time = isTimed && { starts_s: line.starts };
      clips.push(...parts.map((part, index) => ({ ...part, line: number, speaker, ...(index === 0 && time) })));
    }
  } finally {
    maker.removeEventListener('change', report);
  }
  onProgress(lines.length, lines.length, null, 1);
  return { clips, chapters };
}

/**
 * Request the export of a script from the studio, and return the file with its notes.
 *
 * @param {Object<string, any>} api
 * @param {import('./document.js').Script} script
 * @param {Awaited<ReturnType<typeof collectClips>>} collected
 * @param {ExportOptions} wanted
 * @returns {Promise<{file: Blob, name: string, notes: string}>}
 */
export async function exportClips(api, script, { clips, chapters }, { shape, format, rate, loudness, isTimed = false, filmS = null }) {
  const name = nameOfScript(script).replace(/ …$/u, '') || 'script';
  const { author, cover } = script.book;
  const asked = { clips, chapters: isTimed ? [] : chapters, shape, format, bit_rate: format === 'mp3' ? rate : null, loudness_lufs: loudness, name, author, cover: cover || null, length_s: isTimed ? filmS : null };
  const headers = { 'content-type': 'application/json' };
  const answer = await api.request('studio/exports', { method: 'POST', headers, body: JSON.stringify(asked) });
  const suffix = { joined: format, files: 'zip', chapters: 'zip', srt: 'srt', all: 'zip' }[shape];
  // Shorten the notes below, because they may list hundreds of line numbers.
  const notes = answer.headers.get('x-notes') ?? '';
  const shown = notes.length <= MAX_NOTE_CHARS ? notes : `${notes.slice(0, MAX_NOTE_CHARS)} …`;
  return { file: await answer.blob(), name: fileName(name, suffix), notes: shown };
}

// --- Form of the export: content, format, loudness and progress.

/** Form of a script's export: content, format, loudness and progress. */
export class ExportForm {
  /**
   * Create the form from the elements of the Script room.
   *
   * @param {HTMLElement} root panel of the room @param {import('./room.js').ScriptRoom} room
   */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.sheet = getElement(root, '#vw-script-export');
    this.shape = getElement(root, '#vw-script-shape', HTMLSelectElement);
    this.format = getElement(root, '#vw-script-format', HTMLSelectElement);
    this.rate = getElement(root, '#vw-script-rate', HTMLSelectElement);
    this.loudness = getElement(root, '#vw-script-loudness', HTMLSelectElement);
    this.part = getElement(root, '#vw-script-part', HTMLSelectElement);
    this.timed = getElement(root, '#vw-script-timed', HTMLInputElement);
    this.film = getElement(root, '#vw-script-film', HTMLInputElement);
    this.go = getElement(root, '#vw-script-go', HTMLButtonElement);
    this.progress = getElement(root, '#vw-script-progress', HTMLProgressElement);
    this.message = getElement(root, '#vw-script-told');
    this.error = getElement(root, '#vw-script-export-error');
    onSubmit(this.sheet, () => this.make());
    this.sheet.addEventListener('beforetoggle', () => this.offerTimes());
    this.timed.onchange = () => this.offerChapters();
    this.part.onchange = () => this.checkLength();
    offerBitRate(this.sheet, this.rate);
    this.shape.onchange = this.format.onchange = () => {
      const isText = this.shape.value === 'srt';
      for (const field of [this.format, this.loudness]) field.disabled = isText;
      /** @type {HTMLElement} */ (this.rate.parentElement).hidden = isText || this.format.value !== 'mp3';
    };
  }

  /** Open the export form next to a button. @param {HTMLElement} source button that was pressed */
  show(source) {
    this.sheet.showPopover({ source });
  }

  /** Show the option for subtitle times if all lines have times in ascending order. */
  offerTimes() {
    const times = this.room.script.lines.filter(({ text }) => text.trim()).map(({ starts }) => starts ?? -1);
    const hasTimes = times.length > 0 && times.every((time, at) => time >= Math.max(0, times[at - 1] ?? 0));
    /** @type {HTMLElement} */ (this.timed.parentElement).hidden = !hasTimes;
    this.timed.checked &&= hasTimes;
    this.offerChapters();
  }

  /** Fill the selector with chapters, and show the length of the film for timed audio. */
  offerChapters() {
    /** @type {HTMLElement} */ (this.film.parentElement).hidden = this.film.disabled = !this.timed.checked;
    const { part, room, studio } = this;
    const chosen = part.value;
    const chapters = room.script.lines.filter(({ chapter }) => chapter);
    part.replaceChildren(new Option(studio.t('script.export_whole'), ''), ...chapters.map(({ id, chapter }) => new Option(chapter, id)));
    const files = getElement(this.shape, '[value="chapters"]', HTMLOptionElement);
    // Subtitle times refer to one film, so these lines cannot be exported as one file for each chapter.
    files.disabled = chapters.length === 0 || this.timed.checked;
    if (files.disabled && files.selected) this.shape.value = 'joined';
    part.value = chapters.some(({ id }) => id === chosen) ? chosen : '';
    /** @type {HTMLElement} */ (part.parentElement).hidden = chapters.length < 2;
    this.checkLength();
  }

  /** Lines of the selected chapter, or all lines of the script. */
  get lines() {
    const { lines } = this.room.script;
    const first = lines.findIndex(({ id }) => id === this.part.value);
    if (first < 0) return lines;
    const next = lines.findIndex(({ chapter }, at) => at > first && chapter);
    return lines.slice(first, next < 0 ? undefined : next);
  }

  /** Show an error if the selected lines are too long for an export by the server. */
  checkLength() {
    const { room, studio } = this;
    const limit = studio.me.features?.export?.max_s ?? Infinity;
    const ids = new Set(this.lines.map(({ id }) => id));
    const clips = room.fullAudio.clips.filter(({ line }) => ids.has(line.id));
    const seconds = clips.length ? (clips[clips.length - 1].end - clips[0].start) / SAMPLE_RATE : 0;
    const isTooLong = seconds > limit;
    this.go.disabled = isTooLong || !this.progress.hidden;
    this.error.textContent = '';
    if (!isTooLong) return;
    const reason = studio.t('script.export_too_long', { time: studio.facts.time(seconds), max: studio.facts.time(limit) });
    this.error.textContent = this.part.options.length > 2 ? `${reason} ${studio.t('script.export_chapters')}` : reason;
  }

  /** Clear the messages of an earlier export. */
  clearMessages() {
    this.error.textContent = '';
    if (!this.go.disabled) this.message.textContent = '';
  }

  /**
   * Show the progress of the export, with a sentence that describes it.
   *
   * @param {number} value @param {string} sentence
   */
  showProgress(value, sentence) {
    if (this.progress.value !== value) this.progress.value = value;
    writeText(this.message, sentence);
  }

  async make() {
    const { room, studio } = this;
    const { t } = studio;
    const { script, maker } = room;
    const { lines } = this;
    this.error.textContent = '';
    this.go.disabled = true;
    this.progress.hidden = false;
    try {
      room.check(lines.map(({ id }) => id), false);
      const { options: wanted } = this;
      const onProgress = (/** @type {number} */ made, /** @type {number} */ of, /** @type {number|null} */ left, /** @type {number} */ share) => {
        const line = left === null ? t('script.making', { n: made + 1, of }) : t('script.making_left', { n: made + 1, of, time: studio.facts.time(left) });
        this.showProgress(share, made < of ? line : t('script.joining'));
      };
      const onAway = () => this.showProgress(this.progress.value, t('script.away'));
      const collected = await collectClips(maker, onProgress, wanted.isTimed, onAway, lines);
      const { file, name, notes } = await retry(() => exportClips(studio.api, script, collected, wanted), onAway);
      saveFile(file, name);
      this.showProgress(0, '');
      this.sheet.hidePopover();
      studio.toasts.show([t('script.exported', { name }), notes].filter(Boolean).join(' '));
    } catch (error) {
      this.showProgress(0, '');
      studio.errorMessages.showMessage(this.error, errorOf(error));
    } finally {
      this.go.disabled = false;
      this.progress.hidden = true;
    }
  }

  /** Options that the user has selected in the form. @returns {ExportOptions} */
  get options() {
    const loudness = this.loudness.value ? Number(this.loudness.value) : null;
    return /** @type {ExportOptions} */ ({ shape: this.shape.value, format: this.format.value, rate: bitRate(), loudness, isTimed: this.timed.checked, filmS: this.film.valueAsNumber || null });
  }
}
