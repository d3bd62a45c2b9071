/**
 * Timeline of a script, which shows a clip for each line and the playback position.
 *
 * The timeline is a slider, operated by mouse, touch or keyboard. It fits the window, or scrolls for long scripts.
 *
 * @typedef {import('./schedule.js').Clip} Clip
 */

import { clock, SAMPLE_RATE } from '../common/audio.js';
import { getElements, arrangeChildren, setAttributes, writeText } from '../common/elements.js';
import { hueOf } from '../speak/voices.js';
import { heightOf, LEVEL_SAMPLES } from './schedule.js';

const MIN_SCALE = 14; // Minimum scale in pixels per second at which clips can be clicked.
const MARK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600]; // Possible distances between two time marks in seconds.
const MIN_MARK_DISTANCE_PX = 64;
const MARK_WIDTH_PX = 36;
// Minimum height of the largest peak that is scaled up to full height. Lower peaks are scaled by the same factor.
const MIN_PEAK_HEIGHT = 0.3;

/**
 * @typedef {Object} TimelineCallbacks
 * @property {(line: import('./document.js').Line) => string} nameOf   returns the name of a line's voice
 * @property {(part: import('./making.js').Segment) => string} levels  returns the encoded levels of a segment
 * @property {(event: KeyboardEvent) => void} onKey
 */

/** Timeline of a script, which shows a clip for each line and the playback position. */
export class Timeline {
  /** Create an empty timeline. @param {HTMLElement} root element of the slider @param {TimelineCallbacks} callbacks */
  constructor(root, callbacks) {
    this.root = root;
    this.callbacks = callbacks;
    /** @type {HTMLElement} */
    this.inner = part(root, 'in');
    this.marks = part(root, 'marks');
    this.track = part(root, 'clips');
    this.gaps = part(root, 'gaps');
    this.drop = part(root, 'drop');
    this.head = part(root, 'head');
    this.hover = part(root, 'hover');
    /** Clip elements by line id. @type {Map<string, HTMLElement>} */
    this.elements = new Map();
    /** @type {Clip[]} */
    this.clips = [];
    this.samples = 0;
    this.loudest = 1;
    /** Highest audio level, by text with encoded levels. @type {Map<string, number>} */
    this.peaks = new Map();
    // Cached width and scroll position in pixels, because reading them would force a layout.
    this.width = 0;
    this.left = 0;
    this.scale = MIN_SCALE; // Pixels per second.
    this.isHeld = false; // True during a drag, in which the scale does not change.
    /** Playback position in samples. @type {number|null} */
    this.position = null;
    /** Id of the selected line, or null. @type {string|null} */
    this.chosen = null;
    /** Id of the line that is playing, or null. @type {string|null} */
    this.playingId = null;
    /** @type {number|undefined} */
    this.frame = undefined;
    root.addEventListener('scroll', () => this.onScroll(), { passive: true });
    root.onkeydown = (event) => this.callbacks.onKey(event);
    this.inner.onpointermove = (event) => this.onHover(event);
    this.inner.onpointerleave = () => (this.hover.hidden = true);
    new ResizeObserver(([{ contentRect }]) => {
      this.width = contentRect.width;
      this.draw();
    }).observe(root);
  }

  /** Show the clips (audio blocks) of a script, one for each line. @param {Clip[]} clips */
  show(clips) {
    const { callbacks } = this;
    this.clips = clips;
    const outlines = clips.flatMap(({ parts }) => parts.map((one) => callbacks.levels(one)));
    this.peaks = new Map(outlines.map((levels) => [levels, this.peaks.get(levels) ?? heightOf(highest(levels))]));
    this.loudest = Math.max(MIN_PEAK_HEIGHT, ...this.peaks.values());
    this.samples = clips.at(-1)?.end ?? 0;
    this.draw();
  }

  /** Draw the visible part of the timeline, and the same width on each side. */
  draw() {
    const { clips, root, inner, width, left } = this;
    const seconds = this.samples / SAMPLE_RATE;
    if (!this.isHeld) this.scale = Math.max(MIN_SCALE, width / Math.max(seconds, 0.001));
    const length = seconds * this.scale;
    inner.style.minWidth = `${Math.ceil(seconds * MIN_SCALE)}px`;
    inner.style.width = this.isHeld ? `${length}px` : '';
    root.toggleAttribute('data-scrolls', length > width + 1);
    const [from, to] = [left - width, left + 2 * width].map((x) => x / this.scale);
    const first = Math.max(0, clips.findIndex(({ end }) => end >= from * SAMPLE_RATE));
    const last = clips.findLastIndex(({ start }) => start <= to * SAMPLE_RATE);
    const before = this.elements;
    this.elements = new Map(clips.slice(first, last + 1).map((clip) => [clip.line.id, this.drawClip(clip, before.get(clip.line.id) ?? build(clip.line.id))]));
    arrangeChildren(this.track, [...this.elements.values()]);
    this.showGaps(clips.slice(first, last + 2));
    // Omit a last mark that would not fit completely.
    this.showTimes(from, Math.min(to, (length - MARK_WIDTH_PX) / this.scale));
    this.choose(this.chosen);
    this.mark(this.playingId);
    this.follow(this.position);
  }

  onScroll() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.left = this.root.scrollLeft;
      this.draw();
    });
  }

  /** Draw the clip of a line: colour, name and waveform outline. @param {Clip} clip @param {HTMLElement} element */
  drawClip({ line, state, start, end, parts }, element) {
    const [name, sound] = element.children;
    setAttributes(element, { class: `vw-clip vw-hue-${hueOf(line.voice?.voice ?? line.voice?.mode ?? '')}`, 'data-state': state });
    this.placeElement(element, start, end - start);
    writeText(name, this.callbacks.nameOf(line));
    const outline = parts.map((one) => outlineOf(this.callbacks.levels(one), (one.start - start) / LEVEL_SAMPLES, 0.96 / this.loudest)).join('');
    setAttributes(sound, { viewBox: `0 0 ${((end - start) / LEVEL_SAMPLES).toFixed(2)} 2` });
    setAttributes(/** @type {Element} */ (sound.firstElementChild), { d: outline });
    return element;
  }

  /** Show a handle between each two neighbouring clips. @param {Clip[]} clips */
  showGaps(clips) {
    resizeChildren(this.gaps, 'i', clips.length - 1).forEach((handle, at) => {
      const { line, end } = clips[at];
      const { start } = clips[at + 1];
      setAttributes(handle, { 'data-gap': line.id });
      this.placeElement(handle, (end + start) / 2, start - end);
    });
  }

  // --- Dragging

  /** Keep the scale constant during a drag. @returns {number} scale in samples per pixel */
  fixScale() {
    this.isHeld = true;
    return SAMPLE_RATE / this.scale;
  }

  /** Fit the timeline into the window again after a drag. */
  fitScale() {
    this.isHeld = false;
    this.hover.hidden = true;
    this.draw();
  }

  /** Show that the clip of a line is being dragged. @param {string} id */
  startDrag(id) {
    this.elements.get(id)?.setAttribute('data-lifted', '');
    this.drop.hidden = false;
    this.hover.hidden = true; // The time at the pointer is not shown during a drag.
  }

  /**
   * Move a clip during a drag, and mark the position at which it would be inserted.
   *
   * @param {string} id
   * @param {number} distance distance in pixels
   * @param {string|null} nextId id of the line after this position, or null for the end
   */
  dragTo(id, distance, nextId) {
    this.elements.get(id)?.style.setProperty('--by', `${distance}px`);
    const at = this.clips.findIndex(({ line }) => line.id === nextId);
    const left = this.clips[(at < 0 ? this.clips.length : at) - 1]?.end ?? 0;
    this.placeElement(this.drop, at < 0 ? this.samples : (left + this.clips[at].start) / 2);
  }

  /** Show a clip at its own position again after a drag. @param {string} id */
  endDrag(id) {
    const element = this.elements.get(id);
    element?.removeAttribute('data-lifted');
    element?.style.removeProperty('--by');
    this.drop.hidden = true;
  }

  /** Show a text at the pointer. @param {PointerEvent} event @param {string} words text to show */
  showAtPointer(event, words) {
    this.hover.hidden = false;
    writeText(this.hover, words);
    this.placeElement(this.hover, this.placeOf(event));
  }

  /** Mark the clip of the selected line. @param {string|null} id */
  choose(id) {
    this.chosen = id;
    for (const [line, element] of this.elements) element.toggleAttribute('data-chosen', line === id);
  }

  /**
   * Set the position of an element on the time axis, and optionally its width.
   *
   * @param {HTMLElement} element
   * @param {number} start position in samples
   * @param {number} [length] width in samples
   */
  placeElement({ style }, start, length) {
    const pixels = (/** @type {number} */ samples) => `${((samples / SAMPLE_RATE) * this.scale).toFixed(2)}px`;
    style.translate = pixels(start);
    if (length !== undefined) style.width = pixels(length);
  }

  /** Mark the clip of the line that is playing. @param {string|null} id */
  mark(id) {
    this.playingId = id;
    for (const [line, element] of this.elements) element.toggleAttribute('data-sounding', line === id);
  }

  /**
   * Show the playback position.
   *
   * @param {number|null} at position in samples, or null if the script is not playing
   */
  follow(at) {
    const { root, head } = this;
    this.position = at;
    head.hidden = at === null || this.samples === 0;
    this.placeElement(head, at ?? 0);
    setAttributes(root, {
      'aria-valuemax': (this.samples / SAMPLE_RATE).toFixed(1),
      'aria-valuenow': ((at ?? 0) / SAMPLE_RATE).toFixed(1),
      'aria-valuetext': `${clock(at ?? 0)} / ${clock(this.samples)}`,
    });
  }

  /** Scroll so that a position becomes visible. @param {number} at position in samples */
  scrollToTime(at) {
    const { root, left, width } = this;
    const x = (at / SAMPLE_RATE) * this.scale;
    if (x < left || x > left + width) root.scrollLeft = x - width / 8;
  }

  /**
   * Show as many time marks as fit into a range of the time axis.
   *
   * @param {number} from start in seconds @param {number} to end in seconds
   */
  showTimes(from, to) {
    const step = MARK_STEPS_S.find((one) => one * this.scale >= MIN_MARK_DISTANCE_PX) ?? MARK_STEPS_S[MARK_STEPS_S.length - 1];
    const first = Math.max(0, Math.floor(from / step));
    resizeChildren(this.marks, 'span', this.samples > 0 ? 1 + Math.max(0, Math.floor(to / step)) - first : 0).forEach((mark, at) => {
      const time = (first + at) * step;
      writeText(mark, `${Math.floor(time / 60)}:${String(time % 60).padStart(2, '0')}`);
      this.placeElement(mark, time * SAMPLE_RATE);
    });
  }

  /**
   * Return the position in the script at the pointer.
   *
   * @param {MouseEvent} event @returns {number} position in samples
   */
  placeOf({ clientX }) {
    const { left, width } = this.inner.getBoundingClientRect();
    return Math.round(Math.max(0, Math.min(1, (clientX - left) / width)) * this.samples);
  }

  /** Show the time at the pointer's position. @param {PointerEvent} event */
  onHover(event) {
    this.showAtPointer(event, clock(this.placeOf(event)));
    this.hover.hidden = this.samples === 0 || event.pointerType === 'touch';
  }
}

/**
 * Return an element of the timeline by its name.
 *
 * @param {HTMLElement} root @param {string} name @returns {HTMLElement}
 */
function part(root, name) {
  return /** @type {HTMLElement} */ (root.querySelector(`.vw-timeline-${name}`));
}

/**
 * Add or remove children at the end of an element until it has a number of children.
 *
 * @param {HTMLElement} parent
 * @param {string} tag
 * @param {number} count
 * @returns {HTMLElement[]}
 */
function resizeChildren(parent, tag, count) {
  while (parent.children.length > Math.max(0, count)) parent.lastElementChild?.remove();
  while (parent.children.length < count) parent.append(document.createElement(tag));
  return getElements(parent, ':scope > *');
}

/** Return a new element for the clip of a line. @param {string} id id of the line */
function build(id) {
  const clip = document.createElement('div');
  clip.dataset.clip = id;
  clip.innerHTML = '<span dir="auto"></span><svg preserveAspectRatio="none" viewBox="0 0 1 2"><path /></svg>';
  return clip;
}

/** Return the highest character of encoded levels. @param {string} levels */
function highest(levels) {
  return [...levels].reduce((most, level) => (level > most ? level : most), '0');
}

/**
 * Return the outline of a clip's waveform as an SVG path.
 *
 * @param {string} levels
 * @param {number} from first x coordinate
 * @param {number} scale
 */
function outlineOf(levels, from, scale) {
  if (!levels) return '';
  const heights = [...levels].map((level) => Math.max(0.03, scale * heightOf(level)));
  const points = heights.map((height, at) => `${(from + at + 0.5).toFixed(1)} ${(1 - height).toFixed(2)}`);
  const back = heights.map((height, at) => `${(from + at + 0.5).toFixed(1)} ${(1 + height).toFixed(2)}`).reverse();
  return `M${from.toFixed(1)} 1L${[...points, `${(from + heights.length).toFixed(1)} 1`, ...back].join('L')}Z`;
}
