/**
 * Timeline of a script: clips for the lines, and the position of playback.
 *
 * The timeline is a slider for pointer and keys. It fits the window, or scrolls for long scripts.
 *
 * @typedef {import('./schedule.js').Clip} Clip
 */

import { clock, SAMPLE_RATE } from '../common/audio.js';
import { mark, write } from '../common/elements.js';
import { hueOf } from '../speak/voices.js';
import { heightOf, LEVEL_SAMPLES } from './schedule.js';

const MIN_SCALE = 14; // Minimum number of pixels per second, so that clips can be clicked.
const MARK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600]; // Possible distances between two time marks in seconds.
const MIN_MARK_DISTANCE_PX = 64;
const MARK_WIDTH_PX = 36;
const MAX_DRAWN_CLIPS = 500; // If there are more clips, only the visible clips are drawn.
const MIN_PEAK_HEIGHT = 0.3; // If all peaks are below this fraction of the height, they are not scaled up to full height.

/**
 * @typedef {Object} Acts
 * @property {(line: import('./document.js').Line) => string} nameOf   returns the name of a line's voice
 * @property {(part: import('./making.js').Stretch) => string} levels  returns the encoded levels of a segment
 * @property {(event: KeyboardEvent) => void} onKey
 */

export class Timeline {
  /** @param {HTMLElement} root element of the slider @param {Acts} acts */
  constructor(root, acts) {
    this.root = root;
    this.acts = acts;
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
    /** Highest level of each text with encoded levels. @type {Map<string, number>} */
    this.peaks = new Map();
    /** Number of samples per pixel during a drag, or null. @type {number|null} */
    this.held = null;
    /** Id of the selected line, or null. @type {string|null} */
    this.chosen = null;
    /** Id of the line that is playing, or null. @type {string|null} */
    this.sounding = null;
    /** @type {number|undefined} */
    this.frame = undefined;
    root.addEventListener('scroll', () => this.onScroll(), { passive: true });
    root.onkeydown = (event) => this.acts.onKey(event);
    this.inner.onpointermove = (event) => this.onHover(event);
    this.inner.onpointerleave = () => (this.hover.hidden = true);
    new ResizeObserver(() => this.measure()).observe(root);
  }

  /** Show the clips of a script. @param {Clip[]} clips */
  show(clips) {
    const { acts } = this;
    this.clips = clips;
    const outlines = clips.flatMap(({ parts }) => parts.map((one) => acts.levels(one)));
    this.peaks = new Map(outlines.map((levels) => [levels, this.peaks.get(levels) ?? heightOf(highest(levels))]));
    this.loudest = Math.max(MIN_PEAK_HEIGHT, ...this.peaks.values());
    this.samples = clips.at(-1)?.end ?? 0;
    if (this.held) this.inner.style.width = `${this.samples / this.held}px`;
    this.inner.style.minWidth = this.held ? '' : `${Math.ceil((this.samples / SAMPLE_RATE) * MIN_SCALE)}px`;
    this.drawClips();
    this.measure();
  }

  /** Draw the visible clips, or all clips if there are few. */
  drawClips() {
    const { clips } = this;
    const [from, to] = this.sight();
    const first = clips.length > MAX_DRAWN_CLIPS ? Math.max(0, clips.findIndex(({ end }) => end >= from)) : 0;
    const last = clips.length > MAX_DRAWN_CLIPS ? clips.findLastIndex(({ start }) => start <= to) : clips.length - 1;
    const seen = clips.slice(first, last + 1);
    const before = this.elements;
    this.elements = new Map(seen.map((clip) => [clip.line.id, this.draw(clip, before.get(clip.line.id) ?? build(clip.line.id))]));
    const wanted = [...this.elements.values()];
    if (wanted.length !== this.track.children.length || wanted.some((element, at) => element !== this.track.children[at])) {
      this.track.replaceChildren(...wanted);
    }
    this.showGaps(clips.slice(first, last + 2));
    this.choose(this.chosen);
    this.mark(this.sounding);
  }

  /** Return the visible range plus the width of the window on each side, in samples. */
  sight() {
    const { root, inner, samples } = this;
    const scale = samples / Math.max(1, inner.clientWidth);
    return [(root.scrollLeft - root.clientWidth) * scale, (root.scrollLeft + 2 * root.clientWidth) * scale];
  }

  /** Draw the clips that became visible. */
  onScroll() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.clips.length > MAX_DRAWN_CLIPS) this.drawClips();
      this.measure();
    });
  }

  /** Draw a clip. @param {Clip} clip @param {HTMLElement} element */
  draw({ line, state, start, end, parts }, element) {
    const [name, sound] = element.children;
    element.className = `vw-clip vw-hue-${hueOf(line.voice?.voice ?? line.voice?.mode ?? '')}`;
    element.dataset.state = state;
    element.style.setProperty('--start', this.share(start));
    element.style.setProperty('--part', this.share(end - start));
    write(name, this.acts.nameOf(line));
    sound.setAttribute('viewBox', `0 0 ${((end - start) / LEVEL_SAMPLES).toFixed(2)} 2`);
    const outline = parts.map((one) => outlineOf(this.acts.levels(one), (one.start - start) / LEVEL_SAMPLES, 0.96 / this.loudest)).join('');
    if (sound.firstElementChild?.getAttribute('d') !== outline) sound.firstElementChild?.setAttribute('d', outline);
    return element;
  }

  /** Show a handle between every two clips. @param {Clip[]} clips */
  showGaps(clips) {
    const { gaps } = this;
    while (gaps.children.length > Math.max(0, clips.length - 1)) gaps.lastElementChild?.remove();
    while (gaps.children.length < clips.length - 1) gaps.append(document.createElement('i'));
    const handles = /** @type {HTMLElement[]} */ ([...gaps.children]);
    handles.forEach((handle, at) => {
      const { line, end } = clips[at];
      const { start } = clips[at + 1];
      handle.dataset.gap = line.id;
      handle.style.setProperty('--start', this.share((end + start) / 2));
      handle.style.setProperty('--part', this.share(start - end));
    });
  }

  // --- Dragging

  /** Keep the scale during a drag. @returns {number} samples per pixel */
  hold() {
    this.held = this.samples / this.inner.clientWidth;
    return this.held;
  }

  /** End a drag and fit the timeline into the window again. */
  release() {
    this.held = null;
    this.inner.style.width = '';
    this.hover.hidden = true;
    this.show(this.clips);
  }

  /** Show that a clip is dragged. @param {string} id */
  lift(id) {
    this.elements.get(id)?.setAttribute('data-lifted', '');
    this.drop.hidden = false;
    this.hover.hidden = true; // The pointer has left the timeline.
  }

  /** Move a dragged clip with the pointer, and mark where a drop would insert it. @param {string} id @param {number} by distance in pixels @param {string|null} before */
  carry(id, by, before) {
    this.elements.get(id)?.style.setProperty('--by', `${by}px`);
    const at = this.clips.findIndex(({ line }) => line.id === before);
    const left = this.clips[(at < 0 ? this.clips.length : at) - 1]?.end ?? 0;
    this.drop.style.setProperty('--start', this.share(at < 0 ? this.samples : (left + this.clips[at].start) / 2));
  }

  /** Show a clip at its place again after a drag. @param {string} id */
  put(id) {
    const element = this.elements.get(id);
    element?.removeAttribute('data-lifted');
    element?.style.removeProperty('--by');
    this.drop.hidden = true;
  }

  /** Show a text at the pointer. @param {PointerEvent} event @param {string} words text to show */
  say(event, words) {
    this.hover.hidden = false;
    write(this.hover, words);
    this.hover.style.setProperty('--start', this.share(this.placeOf(event)));
  }

  /** Mark the selected line. @param {string|null} id */
  choose(id) {
    this.chosen = id;
    for (const [line, element] of this.elements) element.toggleAttribute('data-chosen', line === id);
  }

  /** Return a length as a fraction of the full width. @param {number} samples */
  share(samples) {
    return String(this.samples > 0 ? samples / this.samples : 0);
  }

  /** Mark the line that is playing. @param {string|null} id */
  mark(id) {
    this.sounding = id;
    for (const [line, element] of this.elements) element.toggleAttribute('data-sounding', line === id);
  }

  /** Show the position of playback. @param {number|null} at position in samples, or null if the script is not playing */
  follow(at) {
    const { root, head } = this;
    head.hidden = at === null || this.samples === 0;
    head.style.setProperty('--start', this.share(at ?? 0));
    mark(root, {
      'aria-valuemax': (this.samples / SAMPLE_RATE).toFixed(1),
      'aria-valuenow': ((at ?? 0) / SAMPLE_RATE).toFixed(1),
      'aria-valuetext': `${clock(at ?? 0)} / ${clock(this.samples)}`,
    });
  }

  /** Scroll to a position. @param {number} at position in samples */
  reveal(at) {
    const { root, inner } = this;
    const x = (at / Math.max(1, this.samples)) * inner.clientWidth;
    if (x < root.scrollLeft || x > root.scrollLeft + root.clientWidth) root.scrollLeft = x - root.clientWidth / 8;
  }

  /** Show as many time marks above the clips as fit. */
  measure() {
    this.root.toggleAttribute('data-scrolls', this.root.scrollWidth > this.root.clientWidth);
    const seconds = this.samples / SAMPLE_RATE;
    const scale = this.inner.clientWidth / Math.max(seconds, 0.001);
    const step = MARK_STEPS_S.find((one) => one * scale >= MIN_MARK_DISTANCE_PX) ?? MARK_STEPS_S[MARK_STEPS_S.length - 1];
    // The last mark must be completely visible.
    const last = Math.floor(Math.max(0, this.inner.clientWidth - MARK_WIDTH_PX) / (step * scale));
    const [from, to] = this.sight().map((at) => Math.floor(at / SAMPLE_RATE / step));
    const first = Math.max(0, Math.min(from, last));
    const count = seconds > 0 ? 1 + Math.min(last, to) - first : 0;
    while (this.marks.children.length > count) this.marks.lastElementChild?.remove();
    while (this.marks.children.length < count) this.marks.append(document.createElement('span'));
    [...this.marks.children].forEach((mark, at) => {
      const time = (first + at) * step;
      write(mark, `${Math.floor(time / 60)}:${String(time % 60).padStart(2, '0')}`);
      /** @type {HTMLElement} */ (mark).style.setProperty('--start', this.share(time * SAMPLE_RATE));
    });
  }

  /** Return the position at the pointer. @param {MouseEvent} event @returns {number} position in samples */
  placeOf({ clientX }) {
    const { left, width } = this.inner.getBoundingClientRect();
    return Math.round(Math.max(0, Math.min(1, (clientX - left) / width)) * this.samples);
  }

  /** Show the time at the pointer. @param {PointerEvent} event */
  onHover(event) {
    this.say(event, clock(this.placeOf(event)));
    this.hover.hidden = this.samples === 0 || event.pointerType === 'touch';
  }
}

/** @param {HTMLElement} root @param {string} name @returns {HTMLElement} */
function part(root, name) {
  return /** @type {HTMLElement} */ (root.querySelector(`.vw-timeline-${name}`));
}

/** Return a new element for a clip. @param {string} id id of the line */
function build(id) {
  const clip = document.createElement('div');
  clip.dataset.clip = id;
  clip.innerHTML = '<span dir="auto"></span><svg preserveAspectRatio="none" viewBox="0 0 1 2"><path /></svg>';
  return clip;
}

/** Return the highest level. @param {string} levels */
function highest(levels) {
  return [...levels].reduce((most, level) => (level > most ? level : most), '0');
}

/** Return the outline of a clip's waveform as an SVG path. @param {string} levels @param {number} from first x coordinate @param {number} scale */
function outlineOf(levels, from, scale) {
  if (!levels) return '';
  const heights = [...levels].map((level) => Math.max(0.03, scale * heightOf(level)));
  const points = heights.map((height, at) => `${(from + at + 0.5).toFixed(1)} ${(1 - height).toFixed(2)}`);
  const back = heights.map((height, at) => `${(from + at + 0.5).toFixed(1)} ${(1 + height).toFixed(2)}`).reverse();
  return `M${from.toFixed(1)} 1L${[...points, `${(from + heights.length).toFixed(1)} 1`, ...back].join('L')}Z`;
}
