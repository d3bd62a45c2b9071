/**
 * The take as it grows: lowest and highest sample of each 10 ms, on a canvas.
 *
 * What was played stands in the accent colour, what waits in a quiet one. Colours are the CSS variables
 * --vw-accent, --vw-wave and --vw-line of the canvas.
 */

import { SAMPLE_RATE } from './outputs.js';

const BIN = SAMPLE_RATE / 100;
// The shortest stretch of time that fills the width, so that a first chunk does not look like a whole take.
const MIN_BINS = 400;

export class Waveform {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.clear();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  clear() {
    /** @type {number[]} */
    this.low = [];
    /** @type {number[]} */
    this.high = [];
    this.samples = 0;
    this.played = 0;
    this.draw();
  }

  /** @param {Int16Array} pcm */
  append(pcm) {
    for (const sample of pcm) {
      const bin = Math.floor(this.samples / BIN);
      const value = sample / 32768;
      if (bin === this.low.length) {
        this.low.push(value);
        this.high.push(value);
      } else {
        if (value < this.low[bin]) this.low[bin] = value;
        if (value > this.high[bin]) this.high[bin] = value;
      }
      this.samples += 1;
    }
  }

  /** @param {number} played samples */
  seek(played) {
    this.played = played;
    this.draw();
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
    this.bars(pen, width, height, ratio, style);
  }

  bars(pen, width, height, ratio, style) {
    const step = 3 * ratio;
    const columns = Math.floor(width / step);
    const bins = Math.max(this.low.length, MIN_BINS);
    const playedBin = this.played / BIN;
    const accent = style.getPropertyValue('--vw-accent');
    const quiet = style.getPropertyValue('--vw-wave');
    for (let column = 0; column < columns; column++) {
      const from = Math.floor((column / columns) * bins);
      const to = Math.max(from + 1, Math.floor(((column + 1) / columns) * bins));
      if (from >= this.low.length) return;
      const low = Math.min(...this.low.slice(from, to));
      const high = Math.max(...this.high.slice(from, to));
      const top = ((1 - high) / 2) * height;
      const tall = Math.max(ratio, ((high - low) / 2) * height);
      pen.fillStyle = from < playedBin ? accent : quiet;
      pen.fillRect(column * step, top, 2 * ratio, tall);
    }
  }
}
