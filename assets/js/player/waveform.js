/** Peaks of a take (minimum and maximum of every 10 ms), and waveforms on a canvas. */

import { SAMPLE_RATE } from '../common/audio.js';
import { throttle } from '../common/elements.js';

// --- Minimum and maximum of every 10 ms of a take. They are extended as the take grows.

export const BIN = SAMPLE_RATE / 100;

/** @type {WeakMap<import('./take.js').Take, Peaks>} */
const known = new WeakMap();

/** Peaks of a take: the minimum and the maximum of every 10 ms. */
export class Peaks {
  /** Return the peaks of the audio that was received for a take. @param {import('./take.js').Take} take */
  static of(take) {
    const peaks = known.get(take) ?? new Peaks();
    known.set(take, peaks);
    for (; peaks.chunks < take.chunks.length; peaks.chunks++) peaks.append(take.chunks[peaks.chunks]);
    return peaks;
  }

  constructor() {
    /** @type {number[]} */
    this.low = [];
    /** @type {number[]} */
    this.high = [];
    this.bin = BIN; // Number of samples per bin.
    this.samples = 0;
    this.chunks = 0;
  }

  /** Add samples to the peaks. @param {Int16Array} pcm */
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
}

// --- Waveform of a take on a canvas, with the played part in the accent colour. The colours are the CSS variables
// --vw-accent, --vw-wave and --vw-line of the canvas. Only changes are drawn, and not after every chunk.

/** @typedef {import('./stage.js').ShownAudio} ShownAudio */

// Exponent that enlarges quiet passages, of which speech has many.
const SHOWN = 0.6;
// Minimum number of bins in the full width. With fewer, the first chunk would look like a whole take.
const MIN_BINS = 400;

/** Waveform of a take on a canvas. */
export class Waveform {
  /** Create an empty waveform on a canvas. @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    /** @type {ShownAudio|null} */
    this.take = null;
    this.played = 0;
    this.onProgress = throttle(() => this.draw());
    /** State of the canvas: style, last drawn bin, and last bin in the accent colour. */
    this.drawn = { how: '', low: /** @type {number[]|null} */ (null), length: 0, edge: 0 };
    new ResizeObserver(() => this.draw()).observe(canvas);
    redrawOnTheme(this, (waveform) => waveform.draw());
  }

  /** Show the waveform of a take, and follow the audio that it still receives. @param {ShownAudio|null} take */
  show(take) {
    this.take?.removeEventListener('progress', this.onProgress);
    this.take = take;
    this.take?.addEventListener('progress', this.onProgress);
    this.played = 0;
    this.draw();
  }

  /**
   * Set the playback position, up to which the waveform is drawn in the accent colour.
   *
   * @param {number} played number of played samples
   */
  seek(played) {
    this.played = played;
    this.draw();
  }

  /**
   * Number of samples that the full width shows.
   *
   * During generation, this is the estimated length of the take.
   */
  get span() {
    const { take } = this;
    const planned = take && 'planned' in take && take.state === 'streaming' ? take.planned : 0;
    return Math.max(take?.samples ?? 0, planned, MIN_BINS * BIN);
  }

  draw() {
    const { canvas, take, span, drawn } = this;
    const style = getComputedStyle(canvas);
    const [accent, quiet, line] = ['--vw-accent', '--vw-wave', '--vw-line'].map((name) => style.getPropertyValue(name));
    const peaks = take && ('peaks' in take ? take.peaks : Peaks.of(take));
    const { low, bin } = peaks ?? { low: null, bin: BIN };
    const length = low?.length ?? 0;
    const edge = Math.ceil(this.played / bin);
    const how = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio, span, accent, quiet, line].join();
    const bars = new Bars(canvas, peaks, span / bin, (from) => (from < edge ? accent : quiet));
    if (how !== drawn.how || low !== drawn.low || length < drawn.length) bars.paint();
    else {
      // Draw the last bin again, because it may have been incomplete.
      if (length > drawn.length) bars.paint(drawn.length - 1, length);
      if (edge !== drawn.edge) bars.paint(Math.min(edge, drawn.edge), Math.max(edge, drawn.edge));
    }
    this.drawn = { how, low, length, edge };
  }
}

/**
 * Weak references to objects with canvases, and the functions that redraw them.
 *
 * @type {Set<{what: WeakRef<object>, draw: () => void}>}
 */
const coloured = new Set();
/** @type {MutationObserver|undefined} */
let themes;

/**
 * Call a draw function whenever the theme of the page changes.
 *
 * Only a weak reference to the drawn object is kept.
 *
 * @template {object} T
 * @param {T} drawn
 * @param {(drawn: T) => void} draw
 */
export function redrawOnTheme(drawn, draw) {
  const what = new WeakRef(drawn);
  const one = { what, draw: () => draw(/** @type {T} */ (what.deref())) };
  coloured.add(one);
  if (themes) return;
  themes = new MutationObserver(() => {
    for (const each of coloured) {
      if (each.what.deref()) each.draw();
      else coloured.delete(each);
    }
  });
  themes.observe(document.body, { attributeFilter: ['class'] });
}

/** Bars on a canvas that show peaks. */
export class Bars {
  /**
   * Create bars on a canvas.
   *
   * @param {HTMLCanvasElement} canvas
   * @param {{low: number[], high: number[]}|null} peaks
   * @param {number} bins            number of bins in the full width
   * @param {(bin: number) => string} colour  returns the colour of a bar that begins at a bin
   */
  constructor(canvas, peaks, bins, colour) {
    this.canvas = canvas;
    this.peaks = peaks;
    this.bins = bins;
    this.colour = colour;
  }

  /**
   * Draw the bars for a range of bins.
   *
   * @param {number} [begin] index of the first bin @param {number} [end] index after the last bin
   */
  paint(begin = 0, end = Infinity) {
    const { canvas, peaks, bins } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (width === 0 || height === 0) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext('2d');
    if (!pen) return;
    const step = 3 * ratio;
    const columns = Math.floor(width / step);
    const first = Math.max(0, Math.floor((begin * columns) / bins) - 1);
    const last = Math.min(columns, Math.ceil((end * columns) / bins) + 1);
    const [left, right] = [first * step, last === columns ? width : last * step];
    pen.clearRect(left, 0, right - left, height);
    pen.fillStyle = getComputedStyle(canvas).getPropertyValue('--vw-line');
    pen.fillRect(left, Math.floor(height / 2), right - left, Math.max(1, Math.floor(ratio)));
    if (!peaks) return;
    const { low, high } = peaks;
    for (let column = first; column < last; column++) {
      const from = Math.floor((column / columns) * bins);
      const to = Math.max(from + 1, Math.floor(((column + 1) / columns) * bins));
      if (from >= low.length) return;
      const lowest = Math.min(...low.slice(from, to));
      const highest = Math.max(...high.slice(from, to));
      const top = (1 - drawnHeight(highest)) * (height / 2);
      const tall = Math.max(ratio, (drawnHeight(highest) - drawnHeight(lowest)) * (height / 2));
      pen.fillStyle = this.colour(from);
      pen.fillRect(column * step, top, 2 * ratio, tall);
    }
  }
}

/**
 * Return the drawn height of a sample, relative to half the height of the canvas.
 *
 * The height grows more slowly than the sample, so that quiet audio is visible.
 *
 * @param {number} value sample in [-1, 1]
 */
export function drawnHeight(value) {
  return Math.sign(value) * Math.abs(value) ** SHOWN;
}
