/**
 * Waveform of a recording with two handles that set the start and the end of a part.
 *
 * Mouse, touch and keyboard can move the handles. Events: 'move' while a handle moves, and 'trimmed' with the previous
 * selection after a finger has moved a handle.
 *
 * The colours are the CSS variables --vw-accent, --vw-soft and --vw-wave of the canvas.
 */

import { clock, SAMPLE_RATE } from '../common/audio.js';
import { createElement, Emitter, getElements, getElement } from '../common/elements.js';
import { Bars, BIN, redrawOnTheme, Peaks } from '../player/waveform.js';

const STEP_S = 0.05;
const RULER_MARKS = 5;
const MIN_DRAG_PX = 8; // Minimum movement of a finger that starts a drag. A shorter movement is a tap.

/** @typedef {'start'|'end'} Edge */

/** Number of steps that a key moves a handle. @type {Object<string, number>} */
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

/**
 * Waveform of a recording with two handles that set the start and the end of a part.
 *
 * @extends {Emitter<{trimmed: import('./reference.js').Reference['selection']}>}
 */
export class Trimmer extends Emitter {
  /** Create the waveform and its handles from the elements of the Clone room. @param {HTMLElement} root */
  constructor(root) {
    super();
    this.root = root;
    this.canvas = getElement(root, 'canvas', HTMLCanvasElement);
    this.window = getElement(root, '.vw-trim-window');
    this.ruler = getElement(root, '.vw-trim-ruler');
    this.handles = getElements(root, '[data-edge]');
    /** @type {import('./reference.js').Reference|null} */
    this.reference = null;
    this.peaks = new Peaks();
    /** Playback position in seconds, or null if nothing plays. @type {number|null} */
    this.played = null;
    new ResizeObserver(() => this.paint()).observe(this.canvas);
    redrawOnTheme(this, (trimmer) => trimmer.paint());
    root.onpointerdown = (event) => this.grab(event);
    for (const handle of this.handles) handle.onkeydown = (event) => this.onKey(event, handle);
  }

  /**
   * Show the waveform of a recording, or an empty one if the value is null.
   *
   * @param {import('./reference.js').Reference|null} reference
   */
  show(reference) {
    this.reference = reference;
    this.peaks = new Peaks();
    if (reference?.pcm) this.peaks.append(reference.pcm);
    this.showTimes();
    this.paint();
  }

  /** Show time marks below the waveform. */
  showTimes() {
    const { seconds } = this.reference ?? { seconds: 0 };
    const marks = Array.from({ length: RULER_MARKS }, (_, k) => {
      const at = (seconds * k) / (RULER_MARKS - 1);
      return createElement('span', { textContent: clock(at * SAMPLE_RATE) });
    });
    this.ruler.replaceChildren(...marks);
  }

  /** Mark the spans that are removed from the selection. */
  showCuts() {
    if (!this.reference) return;
    const { cuts, start, end, seconds } = this.reference;
    const length = end - start;
    this.window.style.left = `${(start / seconds) * 100}%`;
    this.window.style.width = `${(length / seconds) * 100}%`;
    const shown = cuts.filter((cut) => cut.end > start && cut.start < end);
    this.window.replaceChildren(
      ...shown.map((cut) => {
        const mark = document.createElement('i');
        const from = Math.max(start, cut.start);
        mark.style.left = `${((from - start) / length) * 100}%`;
        mark.style.width = `${((Math.min(end, cut.end) - from) / length) * 100}%`;
        return mark;
      }),
    );
  }

  /**
   * Start to drag the nearest handle.
   *
   * A finger has to begin on a handle, because it may also tap the waveform or scroll the page.
   *
   * @param {PointerEvent} event
   */
  grab(event) {
    const isTouch = event.pointerType === 'touch';
    const held = this.handles.find((handle) => handle === event.target);
    if (!this.reference?.pcm || event.button !== 0 || (isTouch && !held)) return;
    event.preventDefault();
    const at = this.secondsAt(event);
    const { start, end, selection } = this.reference;
    let isMoved = !isTouch;
    const edge = held ? edgeOf(held) : Math.abs(at - start) < Math.abs(at - end) ? 'start' : 'end';
    this.handles.find((handle) => edgeOf(handle) === edge)?.focus({ preventScroll: true });
    this.root.setPointerCapture(event.pointerId);
    if (!held) this.move(edge, at);
    this.root.onpointermove = (moved) => {
      isMoved ||= Math.abs(moved.clientX - event.clientX) >= MIN_DRAG_PX;
      if (isMoved) this.move(edge, this.secondsAt(moved));
    };
    this.root.onpointerup = this.root.onpointercancel = () => {
      this.root.onpointermove = this.root.onpointerup = this.root.onpointercancel = null;
      if (isTouch && isMoved) this.emit('trimmed', selection);
    };
  }

  /** Return the position of the pointer in seconds of the recording. @param {PointerEvent} event */
  secondsAt({ clientX }) {
    const { left, width } = this.canvas.getBoundingClientRect();
    return ((clientX - left) / width) * (this.reference?.seconds ?? 0);
  }

  /** Move a handle by an arrow key, Page Up or Page Down. @param {KeyboardEvent} event @param {HTMLElement} handle */
  onKey(event, handle) {
    if (!this.reference) return;
    const edge = edgeOf(handle);
    const step = STEPS[event.key];
    if (step) this.move(edge, this.reference[edge] + step * STEP_S * (event.shiftKey ? 10 : 1));
    else if (event.key === 'Home') this.move(edge, 0);
    else if (event.key === 'End') this.move(edge, this.reference.seconds);
    else return;
    event.preventDefault();
  }

  /** Move the start or the end of the selection. @param {Edge} edge @param {number} at position in seconds */
  move(edge, at) {
    this.reference?.move(edge, at);
    this.paint();
    this.dispatchEvent(new Event('move'));
  }

  /** Show the playback position in the waveform. @param {number|null} played seconds in the whole recording, or null */
  follow(played) {
    this.played = played;
    this.paint();
  }

  paint() {
    const { reference, canvas } = this;
    if (!reference?.pcm) return;
    const { seconds, start, end } = reference;
    for (const handle of this.handles) {
      const at = reference[edgeOf(handle)];
      handle.style.left = `${(at / seconds) * 100}%`;
      handle.ariaValueMin = '0';
      handle.ariaValueMax = seconds.toFixed(2);
      handle.ariaValueNow = at.toFixed(2);
      handle.ariaValueText = `${at.toFixed(2)} s`;
    }
    this.showCuts();
    const bin = (/** @type {number} */ at) => (at * SAMPLE_RATE) / BIN;
    const played = bin(this.played ?? 0);
    const style = getComputedStyle(canvas);
    const [accent, wave, out] = ['--vw-accent', '--vw-soft', '--vw-wave'].map((name) => style.getPropertyValue(name));
    const bars = new Bars(canvas, this.peaks, bin(seconds), (from) => {
      if (from < bin(start) || from >= bin(end)) return out;
      return from < played ? accent : wave;
    });
    bars.paint();
  }
}

/** Return the edge of the selection that belongs to a handle or a field. @param {HTMLElement} handle @returns {Edge} */
export function edgeOf({ dataset }) {
  return dataset.edge === 'start' ? 'start' : 'end';
}
