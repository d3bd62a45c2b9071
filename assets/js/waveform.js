/**
 * A take on a canvas, as it grows: what was played in the accent colour, what waits in a quiet one.
 *
 * Colours are the CSS variables --vw-accent, --vw-wave and --vw-line of the canvas.
 */

import { BIN, Peaks } from './peaks.js';

/** @typedef {import('./stage.js').Shown} Shown */

// Speech is mostly quiet: this power shows what is soft without the loud leaving the canvas.
const SHOWN = 0.6;
// The shortest stretch of time that fills the width, so that a first chunk does not look like a whole take.
const MIN_BINS = 400;

export class Waveform {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    /** @type {Shown|null} */
    this.take = null;
    this.played = 0;
    this.onProgress = () => this.draw();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** @param {Shown|null} take */
  show(take) {
    this.take?.removeEventListener('progress', this.onProgress);
    this.take = take;
    this.take?.addEventListener('progress', this.onProgress);
    this.played = 0;
    this.draw();
  }

  /** @param {number} played samples */
  seek(played) {
    this.played = played;
    this.draw();
  }

  /** Samples that the width stands for: while a take is made, all that it will have. */
  get span() {
    const { take } = this;
    const planned = take && 'planned' in take && take.state === 'streaming' ? take.planned : 0;
    return Math.max(take?.samples ?? 0, planned, MIN_BINS * BIN);
  }

  draw() {
    const { canvas, take, span } = this;
    const style = getComputedStyle(canvas);
    const accent = style.getPropertyValue('--vw-accent');
    const quiet = style.getPropertyValue('--vw-wave');
    paintBars(canvas, take && ('peaks' in take ? take.peaks : Peaks.of(take)), span / BIN, (from) => (from < this.played / BIN ? accent : quiet));
  }
}

/**
 * Peaks as bars over the whole width, on a line.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {{low: number[], high: number[]}|null} peaks
 * @param {number} bins            that the width stands for
 * @param {(bin: number) => string} colour  of a bar that begins there
 */
export function paintBars(canvas, peaks, bins, colour) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (width === 0 || height === 0) return;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext('2d');
  if (!pen) return;
  pen.clearRect(0, 0, width, height);
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue('--vw-line');
  pen.fillRect(0, Math.floor(height / 2), width, Math.max(1, Math.floor(ratio)));
  if (!peaks) return;
  const { low, high } = peaks;
  const step = 3 * ratio;
  const columns = Math.floor(width / step);
  for (let column = 0; column < columns; column++) {
    const from = Math.floor((column / columns) * bins);
    const to = Math.max(from + 1, Math.floor(((column + 1) / columns) * bins));
    if (from >= low.length) return;
    const lowest = Math.min(...low.slice(from, to));
    const highest = Math.max(...high.slice(from, to));
    const top = (1 - shown(highest)) * (height / 2);
    const tall = Math.max(ratio, (shown(highest) - shown(lowest)) * (height / 2));
    pen.fillStyle = colour(from);
    pen.fillRect(column * step, top, 2 * ratio, tall);
  }
}

/** How far from the middle a sample is drawn. @param {number} value in [-1, 1] */
export function shown(value) {
  return Math.sign(value) * Math.abs(value) ** SHOWN;
}
