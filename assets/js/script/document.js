/**
 * Script: its lines and the changes to them, independent of the page and the audio.
 *
 * A script emits the event 'change' after every change. `lines` in its detail is true if lines were added, removed or
 * moved.
 *
 * @typedef {Object} Voice      voice of a line. Fields that a mode does not use are undefined.
 * @property {'custom_voice'|'base'|'voice_design'} mode
 * @property {string} [voice]        name of a speaker of the checkpoint, or id of a stored voice
 * @property {string} [name]         name of a stored voice, shown if the voice is deleted
 * @property {string} [description]  description of a designed voice
 * @property {string} [language]
 *
 * @typedef {Object} StoredPart   stored take of a segment of a line's text
 * @property {string} key       identity of the request (making.js)
 * @property {string} take      id of the stored take
 * @property {number} samples
 * @property {string} [levels]  levels over time (schedule.js)
 *
 * @typedef {Object} Line
 * @property {string} id
 * @property {string|null} name  role from a pasted text. Lines with the same role share a voice.
 * @property {string} text
 * @property {Voice|null} voice  null until the voices are loaded
 * @property {string} instruct
 * @property {number|null} seed  null for a random seed at generation
 * @property {boolean} locked    true to keep the seed when the line is generated again
 * @property {StoredPart[]} takes
 * @property {number} [gap]     silence after the line in seconds, or undefined for the script's default
 * @property {number} [starts]   time of the subtitle in seconds
 * @property {string} [chapter] title of the chapter that starts with the line
 *
 * @typedef {Object} Book       metadata of an imported book
 * @property {string} author
 * @property {string} cover     data URL, or '' without a cover
 */

import { Emitter } from '../common/elements.js';

export const MAX_LINES = 10_000; // Maximum number of lines of a script, as in the studio.
// Names of the properties of a line that people edit.
const WRITTEN = /** @type {const} */ (['id', 'name', 'text', 'voice', 'instruct', 'locked', 'gap', 'starts', 'chapter']);
const MAX_CHAPTER_CHARS = 60; // Maximum length in characters of a chapter title from the text.
export const DEFAULT_GAP_S = 0.4; // Default pause between two lines.

/** Return a new random id. */
export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * Return a new line with default values for the fields that are not given.
 *
 * @param {Partial<Line>} [values] @returns {Line}
 */
export function newLine(values = {}) {
  const empty = { name: null, text: '', voice: null, instruct: '', seed: null, locked: false, takes: [] };
  return structuredClone({ ...empty, ...values, id: values.id ?? newId() });
}

/** Return the title of a chapter that starts with a text. @param {string} text */
export function chapterTitle(text) {
  return text.replace(/\s+/gu, ' ').trim().slice(0, MAX_CHAPTER_CHARS);
}

/** Return a text without a period at its end. @param {string} text */
function withoutPeriod(text) {
  return text.replace(/[.。]\s*$/u, '');
}

/** Return true if the chapter title of a line is the line's text, as in a heading. @param {Pick<Line, 'text'|'chapter'>} line */
export function isHeading({ text, chapter }) {
  const words = text.replace(/\s+/gu, ' ').trim();
  return chapter !== undefined && [words, withoutPeriod(words)].includes(chapter.replace(/\s+/gu, ' ').trim());
}

/**
 * Set the chapter title of the line with which each chapter starts.
 *
 * @param {Pick<Line, 'text'|'chapter'>[]} lines @param {{title: string, paragraphs: string[]}[]} chapters in the order of the text
 */
export function markChapters(lines, chapters) {
  const texts = lines.map(({ text }) => text.replace(/\s+/gu, ' '));
  let from = 0;
  for (const { title, paragraphs } of chapters) {
    const first = (paragraphs[0] ?? '').replace(/\s+/gu, ' ');
    const at = texts.findIndex((text, index) => index >= from && text && first.startsWith(text));
    if (at < 0) continue;
    lines[at].chapter = title || chapterTitle(first);
    from = at + 1;
  }
}

/** Return the properties of a line that users can edit as JSON, to compare lines. @param {Line} line */
function written(line) {
  return JSON.stringify(WRITTEN.map((field) => (field === 'voice' ? Object.entries(line.voice ?? {}).filter(([, value]) => value !== undefined).sort() : line[field])));
}

/**
 * Script with a name and lines, which emits an event after every change.
 *
 * @extends {Emitter<{change: {lines: boolean}}>}
 */
export class Script extends Emitter {
  /**
   * Create a script from its stored form.
   *
   * @param {Object<string, any>} [stored]  response of GET studio/scripts/{id}
   */
  constructor(stored = {}) {
    super();
    /** @type {string} */
    this.id = stored.id ?? newId();
    /** @type {string} */
    this.name = stored.name ?? '';
    /**
     * Version stored by the server, or 0 if the server has none.
     *
     * The version prevents two tabs with the same script from overwriting each other.
     *
     * @type {number}
     */
    this.updatedAt = stored.updated_at ?? 0;
    /** Silence between lines in seconds. @type {number} */
    this.gap = stored.gap_s ?? DEFAULT_GAP_S;
    /** Last known length in seconds, which the list of scripts shows. @type {number|undefined} */
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

  /**
   * Return true if another version of the script has the same content.
   *
   * The seeds and the takes may be different.
   *
   * @param {Script} other
   */
  isWrittenAs({ name, gap, book, lines }) {
    const isSame = JSON.stringify([name, gap, book]) === JSON.stringify([this.name, this.gap, this.book]);
    return isSame && lines.length === this.lines.length && lines.every((line, at) => written(line) === written(this.lines[at]));
  }

  /**
   * Return the number of lines that differ from another version of the script.
   *
   * The result is 0 if more than lines differ, such as the order of the lines or the name.
   *
   * @param {Script} other
   */
  countDifferences(other) {
    const [own, theirs] = [this, other].map(({ lines }) => new Map(lines.map((line) => [line.id, written(line)])));
    const [rest, theirRest] = [this, other].map(({ name, gap, book, lines }) =>
      JSON.stringify([name, gap, book, lines.map(({ id }) => id).filter((id) => own.has(id) && theirs.has(id))]));
    if (rest !== theirRest) return 0;
    return [...new Set([...own.keys(), ...theirs.keys()])].filter((id) => own.get(id) !== theirs.get(id)).length;
  }

  /**
   * Copy the seeds and takes of another version into lines that are otherwise equal.
   *
   * @param {Script} other
   * @param {Script|null} [base] earlier version of both; a line whose seed has changed since then is not changed
   * @returns {boolean} true if a line changed
   */
  adoptTakes(other, base = null) {
    const [theirs, before] = [other, base].map((script) => new Map(script?.lines.map((line) => [line.id, line])));
    const changed = this.lines.filter((line) => {
      const their = theirs.get(line.id);
      const isOwn = line.seed !== (before.get(line.id)?.seed ?? null);
      if (!their || isOwn || their.seed === line.seed || written(their) !== written(line)) return false;
      return Object.assign(line, { seed: their.seed, takes: their.takes });
    });
    return changed.length > 0;
  }

  /** Text of the first line that has text, or ''. */
  get begins() {
    return this.lines.find(({ text }) => text.trim())?.text ?? '';
  }

  /** Different voices of the script's lines. @returns {Voice[]} */
  get voices() {
    const voices = this.lines.flatMap(({ voice }) => (voice ? [{ mode: voice.mode, voice: voice.voice, name: voice.name }] : []));
    return [...new Map(voices.map((one) => [`${one.mode}:${one.voice}`, one])).values()];
  }

  /** Change properties of the script, such as its name. @param {Object<string, any>} values */
  set(values) {
    Object.assign(this, values);
    this.notify(false);
  }

  /** Return the line with an id, or undefined. @param {string} id @returns {Line|undefined} */
  line(id) {
    return this.lines.find((line) => line.id === id);
  }

  /** Return the silence after a line in seconds. @param {Pick<Line, 'gap'>} line */
  gapAfter({ gap }) {
    return gap ?? this.gap;
  }

  /** Return the index of a line, or -1 if there is no such line. @param {string} id */
  indexOf(id) {
    return this.lines.findIndex((line) => line.id === id);
  }

  /**
   * Change properties of a line, if a line with this id exists.
   *
   * A chapter title that is the text of its line, also without its final period, changes with the text.
   *
   * @param {string} id @param {Partial<Line>} values
   */
  change(id, values) {
    const line = this.line(id);
    if (!line) return;
    const titles = [chapterTitle, (/** @type {string} */ text) => chapterTitle(withoutPeriod(text))];
    const title = titles.find((of) => of(line.text) === line.chapter);
    Object.assign(line, values);
    if (title && 'text' in values && !('chapter' in values)) line.chapter = title(line.text);
    this.notify(false);
  }

  /**
   * Set the silence after a line.
   *
   * @param {string} id
   * @param {number|null} seconds duration, or null for the script's default
   */
  setGap(id, seconds) {
    this.change(id, { gap: seconds === null || seconds === this.gap ? undefined : seconds });
  }

  /** Return a line and all other lines of the same role. @param {string} id */
  linesOfRole(id) {
    const chosen = this.line(id);
    return this.lines.filter((line) => line === chosen || (chosen?.name && line.name === chosen.name));
  }

  /**
   * Assign a voice to a line and to all other lines of the same role.
   *
   * @param {string} id @param {Voice} voice @returns {() => void} function that undoes the change
   */
  assignVoice(id, voice) {
    const before = this.linesOfRole(id).map((line) => ({ line, voice: line.voice }));
    for (const { line } of before) line.voice = { ...voice };
    this.notify(false);
    return () => {
      for (const { line, voice: earlier } of before) line.voice = earlier;
      this.notify(false);
    };
  }

  /**
   * Insert lines into the script.
   *
   * @param {Line[]} lines
   * @param {number} [at] index of the first inserted line, by default the end
   * @returns {() => void} function that undoes the change
   */
  insert(lines, at = this.lines.length) {
    this.lines.splice(at, 0, ...lines);
    this.notify(true);
    const added = new Set(lines);
    return () => this.filterLines((line) => !added.has(line));
  }

  /** Insert a copy of a line directly after it. @param {string} id @returns {Line} the copy */
  duplicate(id) {
    const copy = newLine({ ...this.line(id), id: newId(), chapter: undefined });
    this.insert([copy], this.indexOf(id) + 1);
    return copy;
  }

  /**
   * Remove a line from the script.
   *
   * If a chapter starts with the line, it then starts with the next line.
   *
   * @param {string} id @returns {() => void} function that undoes the change
   */
  remove(id) {
    const at = this.indexOf(id);
    const [line] = this.lines.splice(at, 1);
    const next = this.lines[at];
    const isPassedOn = next && line.chapter && !next.chapter;
    if (isPassedOn) next.chapter = line.chapter;
    this.notify(true);
    return () => {
      if (isPassedOn) next.chapter = undefined;
      this.insert([line], Math.min(at, this.lines.length));
    };
  }

  /**
   * Move a line to another index.
   *
   * @param {string} id
   * @param {number} to new index
   * @returns {(() => void)|null} function that undoes the change, or null without a change
   */
  move(id, to) {
    const from = this.indexOf(id);
    const place = Math.max(0, Math.min(to, this.lines.length - 1));
    if (from < 0 || from === place) return null;
    this.lines.splice(place, 0, ...this.lines.splice(from, 1));
    this.notify(true);
    return () => void this.move(id, from);
  }

  /**
   * Move a line to the position before another line.
   *
   * @param {string} id
   * @param {string|null} nextId id of the other line, or null for the end
   * @returns {(() => void)|null} function that undoes the change, or null without a change
   */
  moveBefore(id, nextId) {
    const from = this.indexOf(id);
    const to = nextId === null ? this.lines.length : this.indexOf(nextId);
    return this.move(id, to > from ? to - 1 : to);
  }

  /** Keep only the lines for which a function returns true. @param {(line: Line) => boolean} rule */
  filterLines(rule) {
    this.lines = this.lines.filter(rule);
    this.notify(true);
  }

  /** Emit the event 'change'. @param {boolean} lines true if lines were added, removed or moved */
  notify(lines) {
    this.emit('change', { lines });
  }
}
