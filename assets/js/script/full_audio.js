/**
 * Audio of a script: the takes of its lines and the silences between them, in order.
 *
 * A take is generated audio. Each take is requested when the previous take is complete, at most two lines ahead of
 * playback.
 *
 * @typedef {import('../player/take.js').Take} Take
 * @typedef {Take|{silence: number}} Item  a take, or a silence in seconds
 *
 * @typedef {Object} StartPosition  start position in the first line
 * @property {number} gap       silence before the line in seconds
 * @property {number} part      index of the first segment to play
 * @property {number} skip      number of samples to skip in this segment
 *
 * @typedef {Object} GivenItem      item that was passed to the player
 * @property {Item} item
 * @property {number} place     index of the item's line in `ids`
 * @property {number} part      index of the item's segment in the line, or -1 for the silence before the line
 * @property {number} skipped   number of samples cut from the start of a pause; 0 for a take, whose start the player skips
 */

import { errorOf } from '../common/api.js';
import { SAMPLE_RATE } from '../common/audio.js';
import { heightOf, clipsOf, LEVEL_SAMPLES, samplesOf } from './schedule.js';

const MAX_LINES_AHEAD = 2;
const MAX_BINS = 4000; // Maximum number of peaks, several for each pixel column of the waveform.
const WHOLE = { gap: 0, part: 0, skip: 0 };

/** Audio of a script: the takes of its lines and the silences between them, in order. */
export class ScriptPerformance {
  /**
   * Create the audio of some lines.
   *
   * @param {import('./making.js').Maker} maker
   * @param {string[]} ids  ids of the lines in order. Deleted lines are skipped.
   * @param {StartPosition} [begin]
   */
  constructor(maker, ids, begin = WHOLE) {
    this.maker = maker;
    this.ids = ids;
    this.begin = begin;
    // Index in `ids` of the line that is played.
    this.sounding = 0;
    /** @type {GivenItem[]} */
    this.givenItems = [];
    this.wake = () => {};
  }

  /**
   * Record that playback has reached an item.
   *
   * This allows the generation of further lines.
   *
   * @param {number} index @returns {string} id of the item's line
   */
  onItem(index) {
    this.sounding = this.givenItems[index].place;
    this.wake();
    return this.ids[this.sounding];
  }

  /** Yield the takes and silences of the lines, and generate missing takes. @returns {AsyncGenerator<Item>} */
  async *items() {
    const { maker, ids } = this;
    /** @type {import('./document.js').Line|null} */
    let before = null;
    for (let place = 0; place < ids.length; place++) {
      await this.waitUntilNear(place);
      const line = maker.script?.line(ids[place]);
      if (!line) continue;
      if (maker.isLost(line)) return maker.studio.errorMessages.showMessage('request', maker.deletedVoiceError(line), 'script');
      maker.assignSeed(line);
      const plan = maker.segmentsOf(line);
      if (plan.length === 0) continue;
      const { gap, part: first, skip } = place === 0 ? this.begin : WHOLE;
      const silence = before ? (maker.script?.gapAfter(before) ?? 0) : gap;
      if (silence > 0) yield this.recordItem({ silence }, place, -1);
      before = line;
      for (let part = first; part < plan.length; part++) {
        const stretch = plan[part];
        const skipped = part === first ? skip : 0;
        if (stretch.silence) {
          const left = Math.max(0, stretch.silence - skipped / SAMPLE_RATE);
          yield this.recordItem({ silence: left }, place, part, skipped);
          continue;
        }
        const take = await maker.take(stretch, line);
        yield this.recordItem(take, place, part);
        if (!(await isFinished(take))) return;
      }
    }
  }

  /**
   * Record an item that is passed to the player, and return the item.
   *
   * @param {Item} item
   * @param {number} index index of the line
   * @param {number} part index of the segment in the line, or -1
   * @param {number} [skipped]
   */
  recordItem(item, index, part, skipped = 0) {
    this.givenItems.push({ item, place: index, part, skipped });
    return item;
  }

  /** Wait until playback is at most two lines before a line. @param {number} index */
  async waitUntilNear(index) {
    while (index - this.sounding > MAX_LINES_AHEAD) await new Promise((wake) => (this.wake = () => wake(undefined)));
  }
}

/** Wait for the end of a take, and return true if it is complete. @param {Take} take */
async function isFinished(take) {
  try {
    return (await take.finished()).state === 'done';
  } catch {
    return false; // The line shows the error.
  }
}

/**
 * Audio of a whole script, which the player can show and play like a single take.
 *
 * Playback can start at any position (`from`). Event: 'state' when the length or the position changes.
 *
 * @typedef {import('./schedule.js').Clip} Clip
 *
 * @typedef {Object} ScriptPlayback   audio of the script from a position
 * @property {AsyncGenerator<Item>} items
 * @property {number} skip   number of samples to skip in the first item
 * @property {(index: number) => void} onItem  called when playback reaches an item
 * @property {(index: number, at: number) => number|null} place  returns the position in the script of a sample of an item
 */

export class FullAudio extends EventTarget {
  room = 'script';
  mode = null;
  record = null;
  metrics = null;
  stopReason = null;
  /** @type {{arrivedAt: number, samples: number}[]} */
  arrivals = [];
  /** @type {import('../player/take.js').Timing} */
  timing = { clicked: null, ttfa: null, audible: null, underruns: null };
  /** @type {Clip[]} */
  clips = [];
  /** Id of the line that is playing. @type {string|null} */
  playingId = null;
  /** Item that is playing: a take or a silence. @type {Item|null} */
  item = null;
  /** @type {{low: number[], high: number[], bin: number}|null} */
  drawn = null;

  /**
   * Create the full audio of a script.
   *
   * @param {import('./making.js').Maker} maker
   * @param {Object} acts
   * @param {(ids: string[]) => void} acts.check  throws an error for lines that cannot be spoken
   * @param {(error: Error) => void} acts.onError
   * @param {(fullAudio: FullAudio) => string} acts.label
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

  /** True if the audio of some lines is not generated yet. */
  get isReceiving() {
    return this.clips.some(({ state }) => state !== 'made');
  }

  /** Take that is playing, or null during a silence and without playback. */
  get take() {
    return this.item && 'silence' in this.item ? null : this.item;
  }

  get queue() {
    return this.take?.queue ?? null;
  }

  get start() {
    return this.take?.start ?? null;
  }

  /** Compute the positions of the lines again after a change of the script. */
  updateClips() {
    this.clips = this.maker.script ? clipsOf(this.maker.script, this.maker) : [];
    this.drawn = null;
    this.notify();
  }

  /**
   * Return the clip (audio range) of a line, or of the next line that has one.
   *
   * @param {string} id @returns {Clip|null}
   */
  clipFrom(id) {
    const lines = this.maker.script?.lines ?? [];
    const at = lines.findIndex((line) => line.id === id);
    return this.clips.find(({ line }) => lines.indexOf(line) >= at) ?? null;
  }

  /**
   * Return the audio of the script from a position.
   *
   * If the position is the end, return all audio.
   *
   * @param {number} at position in samples @param {{only?: boolean}} [options]  only: true to stop at the end of the line
   * @returns {ScriptPlayback}
   */
  from(at, { only = false } = {}) {
    const first = Math.max(0, this.clips.findIndex(({ end }) => at < end));
    const clip = this.clips[first];
    const lines = this.maker.script?.lines ?? [];
    const from = clip ? lines.indexOf(clip.line) : 0;
    // In a long script, the clip of a removed line is still shown for a moment.
    const ids = from < 0 ? [] : lines.slice(from, only ? from + 1 : undefined).map(({ id }) => id);
    const begin = clip && at < clip.end ? startPosition(clip, at) : undefined;
    const performance = new ScriptPerformance(this.maker, this.canSpeak(ids) ? ids : [], begin);
    const isTake = begin?.gap === 0 && !clip.parts[begin.part].silence;
    return {
      items: performance.items(),
      skip: isTake ? begin.skip : 0,
      onItem: (index) => this.onItem(performance, index),
      place: (index, into) => this.placeOf(performance, index, into),
    };
  }

  /** Return true if all lines can be spoken, otherwise show the error. @param {string[]} ids */
  canSpeak(ids) {
    try {
      this.check(ids);
      return true;
    } catch (error) {
      this.onError(errorOf(error));
      return false;
    }
  }

  /**
   * Record that playback has reached an item, and set the line that is playing.
   *
   * @param {ScriptPerformance} performance @param {number} index
   */
  onItem(performance, index) {
    this.item = performance.givenItems[index].item;
    this.setPlaying(performance.onItem(index));
  }

  /** Set the line that is playing, or null. @param {string|null} id */
  setPlaying(id) {
    if (id === null) this.item = null;
    if (id === this.playingId) return;
    this.playingId = id;
    this.notify();
  }

  /**
   * Convert a position in an item to a position in the script, in samples.
   *
   * The result is null if the line was deleted.
   *
   * @param {ScriptPerformance} performance
   * @param {number} index index of the item
   * @param {number} at position in the item in samples
   * @returns {number|null}
   */
  placeOf(performance, index, at) {
    const { item, place, part, skipped } = performance.givenItems[index];
    const clip = this.clips.find(({ line }) => line.id === performance.ids[place]);
    if (!clip) return null;
    if (part < 0) return clip.start - samplesOf('silence' in item ? item.silence : 0) + at;
    const stretch = clip.parts[Math.min(part, clip.parts.length - 1)];
    return Math.min(stretch.start + skipped + at, clip.end);
  }

  /** Peaks of the whole script for the waveform, in the format of a take's peaks. */
  get peaks() {
    this.drawn ??= this.draw();
    return this.drawn;
  }

  draw() {
    const bin = Math.max(LEVEL_SAMPLES, Math.ceil(this.samples / MAX_BINS));
    const parts = this.clips.flatMap((clip) => clip.parts);
    /** @type {number[]} */
    const high = [];
    let next = 0;
    let levels = '';
    for (let at = 0; at < this.samples; at += bin) {
      for (; parts[next]?.start <= at; next++) levels = this.maker.levels(parts[next]);
      const level = levels[Math.floor((at - parts[next - 1].start) / LEVEL_SAMPLES)];
      high.push(level ? heightOf(level) ** 2 : 0);
    }
    return { low: high.map((value) => -value), high, bin };
  }

  notify() {
    this.dispatchEvent(new Event('state'));
  }
}

/**
 * Return the silence, the segment and the offset at which playback of a clip starts.
 *
 * @param {Clip} clip @param {number} at position in the script in samples
 */
function startPosition(clip, at) {
  if (at < clip.start) return { gap: (clip.start - at) / SAMPLE_RATE, part: 0, skip: 0 };
  const part = Math.max(0, clip.parts.findLastIndex(({ start }) => start <= at));
  const { start, silence, sound, length } = clip.parts[part];
  const known = silence ? length : (sound?.samples ?? 0);
  return { gap: 0, part, skip: Math.min(at - start, known) };
}
