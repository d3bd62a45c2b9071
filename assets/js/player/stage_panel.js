/** Details next to the waveform: generation progress, metrics and actions of a take. */

import { api } from '../common/api.js';
import { SAMPLE_RATE } from '../common/audio.js';
import { getElements, getElement, writeText } from '../common/elements.js';
import { recall, remember } from '../common/storage.js';
import { Take } from './take.js';

// --- Progress of the generation of a long take and the remaining time, as pure functions.

const MIN_PROGRESS_S = 10; // Minimum duration of a take for which the progress is shown.
const MIN_MEASURED_MS = 1000; // Minimum generation time after which the remaining time is estimated.
const MAX_PROGRESS = 0.99; // Maximum progress that is shown. A take may be longer than its estimated length.

/**
 * @typedef {Object} GenerationProgress @property {number} share    generated fraction of the take, below 1
 * @property {number} samples  expected length in samples
 * @property {number|null} left  remaining seconds, or null if not yet known
 */

/**
 * Return the progress of a long generation, or null if it is short or complete.
 *
 * @param {import('./take.js').Take} take
 * @param {number} now performance.now()
 * @returns {GenerationProgress|null}
 */
export function progressOf({ state, planned, samples, arrivals }, now) {
  const share = samples / planned;
  if (state !== 'streaming' || planned < MIN_PROGRESS_S * SAMPLE_RATE || share > MAX_PROGRESS) return null;
  const spent = now - arrivals[0].arrivedAt;
  const left = spent < MIN_MEASURED_MS ? null : ((spent / 1000) * (1 - share)) / share;
  return { share, samples: planned, left };
}

// --- Metrics of a take: times since the click that this page has measured, and the metrics of the runtime.

/** @typedef {import('./stage.js').ShownAudio} ShownAudio */

const FRAME_SAMPLES = 1920;
const NONE = '–';
const FIGURES = ['queue', 'prefill', 'ttfa', 'audible', 'rtf', 'frames', 'underruns', 'reason'];

/** Figures of a take in the dock, such as its latency and its speed. */
export class Meter {
  /**
   * Find the elements for the figures on the page.
   *
   * @param {ParentNode} page @param {(key: string, values?: Object<string, any>) => string} t
   */
  constructor(page, t) {
    this.t = t;
    this.chip = getElement(page, '#vw-to-sound');
    this.cells = FIGURES.map((name) => ({ name, cell: getElement(page, `#vw-${name}`) }));
  }

  /** Show the figures of a take, or no figures if the value is null. @param {ShownAudio|null} take */
  show(take) {
    /** @type {Object<string, string|undefined>} */
    const figures = take ? this.figures(take) : {};
    for (const { name, cell } of this.cells) writeText(cell, figures[name] ?? NONE);
    const ms = take && (take.timing.audible ?? take.timing.ttfa ?? take.metrics?.heard?.audible_ms ?? take.metrics?.heard?.ttfa_ms);
    this.chip.hidden = ms == null;
    if (ms != null) writeText(this.chip, this.t('shell.to_sound', { s: (ms / 1000).toFixed(ms < 100 ? 2 : 1) }));
  }

  /** Return the figures of a take as texts by name. @param {ShownAudio} take */
  figures({ queue, metrics, samples, stopReason, timing }) {
    return {
      queue: queue ? `${queue.position + 1}.` : milliseconds(metrics?.queue_ms),
      prefill: milliseconds(metrics?.prefill_ms),
      ttfa: milliseconds(timing.ttfa ?? metrics?.heard?.ttfa_ms),
      audible: milliseconds(timing.audible ?? metrics?.heard?.audible_ms),
      rtf: metrics?.rtf?.toFixed(2),
      frames: samples ? String(Math.round(samples / FRAME_SAMPLES)) : undefined,
      underruns: (timing.underruns ?? metrics?.heard?.underruns)?.toString(),
      reason: stopReason ? this.t(`shell.reason.${stopReason}`) : undefined,
    };
  }
}

/** Format a duration in milliseconds, or return undefined if it is unknown. @param {number|null|undefined} value */
function milliseconds(value) {
  if (value == null) return undefined;
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`;
}

// --- Actions for the shown take: download, favourite, share link, and code of the request.

/** @typedef {import('./take.js').TakeRecord} TakeRecord */

/** Buttons for the current take: download, favourite, share and code. */
export class TakeActions {
  /**
   * Find the buttons on the page and connect them.
   *
   * @param {ParentNode} page @param {EventTarget} stage target of the events 'star', 'share' and 'code'
   */
  constructor(page, stage) {
    const menu = getElement(page, '#vw-keep');
    this.star = getElement(page, '#vw-star', HTMLButtonElement);
    this.button = getElement(page, '#vw-save', HTMLButtonElement);
    this.wav = getElement(menu, '#vw-download', HTMLAnchorElement);
    this.others = getElements(menu, '[data-format]', HTMLAnchorElement);
    this.share = getElement(menu, '#vw-share', HTMLButtonElement);
    this.code = getElement(menu, '#vw-copy-code', HTMLButtonElement);
    offerDownloads(menu, () => this.show(this.take));
    /** Take that the download link offers. @type {Take|null} */
    this.offeredTake = null;
    this.isShared = false; // True if the host allows share links.
    /** Take that is shown. @type {ShownAudio|null} */
    this.take = null;
    /** Record of the offered take when the link was set. @type {TakeRecord|null} */
    this.record = null;
    this.star.onclick = () => stage.dispatchEvent(new Event('star'));
    // For the full audio of a script, the button opens the form for the export instead.
    this.button.addEventListener('click', (event) => {
      if (!this.take || this.take instanceof Take) return;
      event.preventDefault();
      this.take.download(this.button);
    });
    this.share.onclick = () => stage.dispatchEvent(new Event('share'));
    this.code.onclick = () => stage.dispatchEvent(new Event('code'));
  }

  /** Enable the buttons for a take, or disable them if the value is null. @param {ShownAudio|null} take */
  show(take) {
    this.take = take;
    const record = take?.record ?? null;
    this.code.disabled = !take;
    this.button.disabled = !take;
    this.star.hidden = !record;
    this.star.dataset.icon = record?.favourite ? 'starred' : 'star';
    this.star.setAttribute('aria-pressed', String(Boolean(record?.favourite)));
    this.share.hidden = !record || !this.isShared;
    for (const link of this.others) {
      link.hidden = !record;
      if (record) link.href = audioUrl(record, link.dataset.format ?? '');
    }
    this.offer(take instanceof Take && !take.isReceiving && take.samples ? take : null);
  }

  /**
   * Set the target of the download link.
   *
   * The target is the studio's WAV file with metadata, or a WAV file made by the page if the studio does not store
   * takes.
   *
   * @param {Take|null} take
   */
  offer(take) {
    const { wav } = this;
    wav.setAttribute('aria-disabled', String(!take));
    const record = take?.record ?? null;
    if (this.offeredTake === take && this.record === record) return;
    this.offeredTake = take;
    this.record = record;
    if (wav.href.startsWith('blob:')) URL.revokeObjectURL(wav.href);
    if (!take) return wav.removeAttribute('href');
    wav.href = record ? audioUrl(record, 'wav') : URL.createObjectURL(take.wav());
    wav.download = record ? '' : take.filename;
  }
}

/**
 * Return the URL of stored audio (a take) in a file format.
 *
 * @param {TakeRecord} record @param {string} format name of the format, such as 'mp3'
 */
export function audioUrl(record, format) {
  const rate = format === 'mp3' ? `&bit_rate=${bitRate()}` : '';
  return String(api.address(`studio/takes/${record.id}/audio?format=${format}${rate}`));
}

const RATE = 'voicewright.mp3';
const RATES = [64, 96, 128, 160]; // Bit rates of MP3 files in kbit/s.

/** Return the bit rate in bit/s that the user has chosen for MP3 files. */
export function bitRate() {
  return Number(recall('localStorage', RATE) ?? 64000);
}

/**
 * Fill the selector for the MP3 bit rate each time its sheet opens.
 *
 * @param {HTMLElement} sheet
 * @param {HTMLSelectElement} select
 * @param {() => void} onChange called when the bit rate may have changed
 */
export function offerBitRate(sheet, select, onChange = () => {}) {
  sheet.addEventListener('beforetoggle', () => {
    select.replaceChildren(...RATES.map((rate) => new Option(`${rate} kbit/s`, String(1000 * rate))));
    select.value = String(bitRate());
    onChange();
  });
  select.onchange = () => {
    remember('localStorage', RATE, Number(select.value));
    onChange();
  };
}

/**
 * Prepare a download menu: fill its bit rate selector, and close it after a choice.
 *
 * @param {HTMLElement} menu
 * @param {() => void} onChange called when the bit rate may have changed
 */
export function offerDownloads(menu, onChange) {
  offerBitRate(menu, getElement(menu, 'select', HTMLSelectElement), onChange);
  menu.addEventListener('click', ({ target }) => target instanceof Element && !target.closest('label') && menu.hidePopover());
}
