/**
 * A take on a canvas, as it grows: what was played in the accent colour, what waits in a quiet one.
 *
 * Colours are the CSS variables --vw-accent, --vw-wave and --vw-line of the canvas.
 */

import { BIN, Peaks } from './peaks.js';

// The shortest stretch of time that fills the width, so that a first chunk does not look like a whole take.
const MIN_BINS = 400;

export class Waveform {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    /** @type {import('./take.js').Take|null} */
    this.take = null;
    this.played = 0;
    this.onProgress = () => this.draw();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** @param {import('./take.js').Take|null} take */
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

  /** Samples that the width stands for. */
  get span() {
    return Math.max(this.take ? this.take.samples : 0, MIN_BINS * BIN);
  }

  draw() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (width === 0 || height === 0) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const style = getComputedStyle(canvas);
    const pen = canvas.getContext('2d');
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = style.getPropertyValue('--vw-line');
    pen.fillRect(0, Math.floor(height / 2), width, Math.max(1, Math.floor(ratio)));
    if (this.take) this.bars(pen, Peaks.of(this.take), width, height, ratio, style);
  }

  /** @param {CanvasRenderingContext2D} pen @param {Peaks} peaks */
  bars(pen, peaks, width, height, ratio, style) {
    const { low, high } = peaks;
    const step = 3 * ratio;
    const columns = Math.floor(width / step);
    const bins = this.span / BIN;
    const playedBin = this.played / BIN;
    const accent = style.getPropertyValue('--vw-accent');
    const quiet = style.getPropertyValue('--vw-wave');
    for (let column = 0; column < columns; column++) {
      const from = Math.floor((column / columns) * bins);
      const to = Math.max(from + 1, Math.floor(((column + 1) / columns) * bins));
      if (from >= low.length) return;
      const lowest = Math.min(...low.slice(from, to));
      const highest = Math.max(...high.slice(from, to));
      const top = ((1 - highest) / 2) * height;
      const tall = Math.max(ratio, ((highest - lowest) / 2) * height);
      pen.fillStyle = from < playedBin ? accent : quiet;
      pen.fillRect(column * step, top, 2 * ratio, tall);
    }
  }
}
