/**
 * A script as a value: lines, and what may be done with them. It knows neither page nor sound.
 *
 * Whatever changes it says so by the event 'change'; its detail's `lines` is true where lines came, went or moved.
 *
 * @typedef {Object} Voice      who speaks; what a mode does not use is left out
 * @property {'custom_voice'|'base'|'voice_design'} mode
 * @property {string} [voice]        a speaker of the checkpoint, or the id of a stored voice
 * @property {string} [name]         of a stored voice, for when it is gone
 * @property {string} [description]  of a designed voice
 * @property {string} [language]
 *
 * @typedef {Object} MadePart   the take of one stretch of a line's text
 * @property {string} key       what was asked for (making.js)
 * @property {string} take      the stored take's id
 * @property {number} samples
 * @property {string} [levels]  how loud it is along its way (schedule.js)
 *
 * @typedef {Object} Line
 * @property {string} id
 * @property {string|null} name  the role that a pasted text gave it; lines of one role have one voice
 * @property {string} text
 * @property {Voice|null} voice  null until it is known who can speak
 * @property {string} instruct
 * @property {number|null} seed  null: drawn when it is made
 * @property {boolean} locked    made again with the same seed
 * @property {MadePart[]} takes
 * @property {number} [gap]     seconds of silence behind it; left out: as everywhere in the script
 * @property {number} [starts]   time of the subtitle in seconds
 * @property {string} [chapter] title of the chapter that begins with it
 *
 * @typedef {Object} Book       what an imported book says of itself
 * @property {string} author
 * @property {string} cover     data URL; '' if there is none
 */

import { Emitter } from '../common/elements.js';

export const MAX_LINES = 10_000; // Lines of a script, as in the studio.
const LONGEST_CHAPTER = 60; // Characters of a chapter's name that is its beginning.
export const GAP_S = 0.4; // Seconds between lines, unless the script has its own gap.

/** A short name that is not there yet. */
export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {Partial<Line>} [values] @returns {Line} */
export function newLine(values = {}) {
  const empty = { name: null, text: '', voice: null, instruct: '', seed: null, locked: false, takes: [] };
  return structuredClone({ ...empty, ...values, id: values.id ?? newId() });
}

/**
 * Mark the first line of each chapter.
 *
 * @param {Pick<Line, 'text'|'chapter'>[]} lines @param {{title: string, paragraphs: string[]}[]} chapters in order
 */
export function markChapters(lines, chapters) {
  const texts = lines.map(({ text }) => text.replace(/\s+/gu, ' '));
  let from = 0;
  for (const { title, paragraphs } of chapters) {
    const first = (paragraphs[0] ?? '').replace(/\s+/gu, ' ');
    const at = texts.findIndex((text, index) => index >= from && text && first.startsWith(text));
    if (at < 0) continue;
    lines[at].chapter = title || first.slice(0, LONGEST_CHAPTER);
    from = at + 1;
  }
}

/** @extends {Emitter<{change: {lines: boolean}}>} */
export class Script extends Emitter {
  /** @param {Object<string, any>} [stored]  as GET studio/scripts/{id} gives it */
  constructor(stored = {}) {
    super();
    /** @type {string} */
    this.id = stored.id ?? newId();
    /** @type {string} */
    this.name = stored.name ?? '';
    /** @type {number} the version that the server has; 0: none yet, so that two tabs with one draft do not overwrite each other */
    this.updatedAt = stored.updated_at ?? 0;
    /** @type {number} seconds of silence between lines */
    this.gap = stored.gap_s ?? GAP_S;
    /** @type {number|undefined} how long it was when it was laid out last, for lists of scripts */
    this.seconds = stored.seconds;
    /** @type {Book} */
    this.book = { author: stored.author ?? '', cover: stored.cover ?? '' };
    /** @type {Line[]} */
    this.lines = (stored.lines ?? []).map(newLine);
  }

  toJSON() {
    const { id, name, gap, lines, seconds, voices, book, updatedAt } = this;
    return { id, name, gap_s: gap, lines, seconds, voices, ...book, updated_at: updatedAt };
  }

  /** The text of its first line that has one. */
  get begins() {
    return this.lines.find(({ text }) => text.trim())?.text ?? '';
  }

  /** The distinct voices of the script. @returns {Voice[]} */
  get voices() {
    const voices = this.lines.flatMap(({ voice }) => (voice ? [{ mode: voice.mode, voice: voice.voice, name: voice.name }] : []));
    return [...new Map(voices.map((one) => [`${one.mode}:${one.voice}`, one])).values()];
  }

  /** Values of the whole script: name, gap. @param {Object<string, any>} values */
  set(values) {
    Object.assign(this, values);
    this.tell(false);
  }

  /** @param {string} id @returns {Line|undefined} */
  line(id) {
    return this.lines.find((line) => line.id === id);
  }

  /** Seconds of silence between a line and the next. @param {Pick<Line, 'gap'>} line */
  gapAfter({ gap }) {
    return gap ?? this.gap;
  }

  /** @param {string} id its place; -1 where there is none */
  at(id) {
    return this.lines.findIndex((line) => line.id === id);
  }

  /** @param {string} id @param {Partial<Line>} values */
  change(id, values) {
    const line = this.line(id);
    if (!line) return;
    Object.assign(line, values);
    this.tell(false);
  }

  /** Set the silence after a line; none for the default. @param {string} id @param {number|null} seconds */
  setGap(id, seconds) {
    this.change(id, { gap: seconds === null || seconds === this.gap ? undefined : seconds });
  }

  /** Give a line a voice, and with it every line of its role. @param {string} id @param {Voice} voice */
  cast(id, voice) {
    const chosen = this.line(id);
    for (const line of this.lines) {
      if (line === chosen || (chosen?.name && line.name === chosen.name)) line.voice = { ...voice };
    }
    this.tell(false);
  }

  /** @param {Line[]} lines @param {number} [at] @returns {() => void} undoes it */
  insert(lines, at = this.lines.length) {
    this.lines.splice(at, 0, ...lines);
    this.tell(true);
    const added = new Set(lines);
    return () => this.keep((line) => !added.has(line));
  }

  /** @param {string} id @returns {Line} the copy, behind it */
  duplicate(id) {
    const copy = newLine({ ...this.line(id), id: newId() });
    this.insert([copy], this.at(id) + 1);
    return copy;
  }

  /** @param {string} id @returns {() => void} undoes it */
  remove(id) {
    const at = this.at(id);
    const [line] = this.lines.splice(at, 1);
    this.tell(true);
    return () => void this.insert([line], Math.min(at, this.lines.length));
  }

  /** @param {string} id @param {number} to where it stands afterwards @returns {(() => void)|null} undoes it; null: it stands there already */
  move(id, to) {
    const from = this.at(id);
    const place = Math.max(0, Math.min(to, this.lines.length - 1));
    if (from < 0 || from === place) return null;
    this.lines.splice(place, 0, ...this.lines.splice(from, 1));
    this.tell(true);
    return () => void this.move(id, from);
  }

  /** @param {string} id @param {string|null} before the line that follows it afterwards; null: none @returns {(() => void)|null} as of move */
  moveBefore(id, before) {
    const from = this.at(id);
    const to = before === null ? this.lines.length : this.at(before);
    return this.move(id, to > from ? to - 1 : to);
  }

  /** @param {(line: Line) => boolean} rule */
  keep(rule) {
    this.lines = this.lines.filter(rule);
    this.tell(true);
  }

  /** @param {boolean} lines whether lines came, went or moved */
  tell(lines) {
    this.emit('change', { lines });
  }
}
