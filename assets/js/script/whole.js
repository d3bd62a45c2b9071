/**
 * A script as one sound: what stands on the stage while it is read aloud and afterwards, and where in it one is.
 *
 * To the stage it looks like a take, but its sound is that of its lines, from whatever place it is begun (`from`).
 * Events: 'state' when it is longer, shorter, or somewhere else.
 *
 * @typedef {import('./schedule.js').Clip} Clip
 *
 * @typedef {Object} Sounding
 * @property {AsyncGenerator<import('./performance.js').Item>} items
 * @property {number} skip   samples of the first item that are left out
 * @property {(index: number) => void} onItem  the loudspeaker has come to it
 * @property {(index: number, at: number) => number|null} place  of a sample of an item, in the whole
 */

import { errorOf } from '../errors.js';
import { SAMPLE_RATE } from '../wav.js';
import { BIN } from '../peaks.js';
import { heightOf, LEVEL } from './levels.js';
import { Performance } from './performance.js';
import { layOut, samplesOf } from './schedule.js';

export class Whole extends EventTarget {
  room = 'script';
  mode = null;
  record = null;
  metrics = null;
  stopReason = null;
  error = null;
  /** @type {{at: number, samples: number}[]} */
  arrivals = [];
  /** @type {import('../take.js').Timing} */
  timing = { clicked: null, ttfa: null, audible: null, underruns: null };
  /** @type {Clip[]} */
  clips = [];
  /** The id of the line that sounds. @type {string|null} */
  sounding = null;
  /** What of it is at the loudspeaker: a take, or a silence. @type {import('./performance.js').Item|null} */
  item = null;
  /** @type {{low: number[], high: number[]}|null} */
  drawn = null;

  /**
   * @param {import('./making.js').Maker} maker
   * @param {Object} acts
   * @param {(ids: string[]) => void} acts.check  throws what is wrong with lines that are to sound
   * @param {(error: Error) => void} acts.onError
   * @param {(whole: Whole) => string} acts.label
   * @param {(button: HTMLElement) => void} acts.download
   */
  constructor(maker, { check, onError, label, download }) {
    super();
    this.maker = maker;
    this.check = check;
    this.onError = onError;
    this.labelOf = label;
    this.download = download;
  }

  get label() {
    return this.labelOf(this);
  }

  get samples() {
    return this.clips.at(-1)?.end ?? 0;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** Whether something of it is still to be made. */
  get live() {
    return this.clips.some(({ state }) => state !== 'made');
  }

  /** The take at the loudspeaker. */
  get take() {
    return this.item && 'silence' in this.item ? null : this.item;
  }

  get queue() {
    return this.take?.queue ?? null;
  }

  get start() {
    return this.take?.start ?? null;
  }

  /** A line is another, was made, came or went. */
  renew() {
    this.clips = this.maker.script ? layOut(this.maker.script, this.maker) : [];
    this.drawn = null;
    this.tell();
  }

  /** @param {string} id @returns {Clip|null} of a line, or of the next that has one */
  clipFrom(id) {
    const lines = this.maker.script?.lines ?? [];
    const at = lines.findIndex((line) => line.id === id);
    return this.clips.find(({ line }) => lines.indexOf(line) >= at) ?? null;
  }

  /**
   * Its sound from a place on; at its end, from its beginning.
   *
   * @param {number} at samples @param {{only?: boolean}} [options]  only: to the end of the line there
   * @returns {Sounding}
   */
  from(at, { only = false } = {}) {
    const first = Math.max(0, this.clips.findIndex(({ end }) => at < end));
    const clip = this.clips[first];
    const lines = this.maker.script?.lines ?? [];
    const from = clip ? lines.indexOf(clip.line) : 0;
    const ids = lines.slice(from, only ? from + 1 : undefined).map(({ id }) => id);
    const begin = clip && at < clip.end ? beginning(clip, at) : undefined;
    const performance = new Performance(this.maker, this.ready(ids) ? ids : [], begin);
    const isTake = begin?.gap === 0 && !clip.parts[begin.part].silence;
    return {
      items: performance.items(),
      skip: isTake ? begin.skip : 0,
      onItem: (index) => this.reach(performance, index),
      place: (index, into) => this.placeOf(performance, index, into),
    };
  }

  /** Whether these lines can sound; what is wrong with them is said. @param {string[]} ids */
  ready(ids) {
    try {
      this.check(ids);
      return true;
    } catch (error) {
      this.onError(errorOf(error));
      return false;
    }
  }

  /** @param {Performance} performance @param {number} index */
  reach(performance, index) {
    this.item = performance.given[index].item;
    this.sound(performance.reach(index));
  }

  /** This line sounds, or none. @param {string|null} id */
  sound(id) {
    if (id === null) this.item = null;
    if (id === this.sounding) return;
    this.sounding = id;
    this.tell();
  }

  /** @param {Performance} performance @param {number} index @param {number} at @returns {number|null} null: its line is gone */
  placeOf(performance, index, at) {
    const { item, place, part, skipped } = performance.given[index];
    const clip = this.clips.find(({ line }) => line.id === performance.ids[place]);
    if (!clip) return null;
    if (part < 0) return clip.start - samplesOf('silence' in item ? item.silence : 0) + at;
    const stretch = clip.parts[Math.min(part, clip.parts.length - 1)];
    return Math.min(stretch.start + skipped + at, clip.end);
  }

  /** As Peaks has those of a take. */
  get peaks() {
    this.drawn ??= this.draw();
    return this.drawn;
  }

  draw() {
    const bins = Math.ceil(this.samples / BIN);
    const high = new Array(bins).fill(0);
    for (const part of this.clips.flatMap(({ parts }) => parts)) {
      const levels = this.maker.levels(part);
      for (let at = 0; at < levels.length; at++) {
        const from = Math.floor((part.start + at * LEVEL) / BIN);
        high.fill(heightOf(levels[at]) ** 2, from, Math.min(bins, from + LEVEL / BIN));
      }
    }
    return { low: high.map((value) => -value), high };
  }

  tell() {
    this.dispatchEvent(new Event('state'));
  }
}

/** Where in a line's sound a place is; what is not made yet is begun at its beginning. @param {Clip} clip @param {number} at */
function beginning(clip, at) {
  if (at < clip.start) return { gap: (clip.start - at) / SAMPLE_RATE, part: 0, skip: 0 };
  const part = Math.max(0, clip.parts.findLastIndex(({ start }) => start <= at));
  const { start, silence, sound, length } = clip.parts[part];
  const known = silence ? length : (sound?.samples ?? 0);
  return { gap: 0, part, skip: Math.min(at - start, known) };
}
