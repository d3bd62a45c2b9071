/** What the dock held when the page was left: a reload brings it back, silent, and its sound behind it. */

import { api } from './api.js';
import { errorOf } from './errors.js';
import { Take } from './take.js';

/** @typedef {import('./take.js').TakeRecord} TakeRecord @typedef {{take?: TakeRecord, script?: string}} Heard  a kept take, or the script that was read as a whole */

const KEY = 'voicewright.heard';
const LONG_S = 300; // Longer audio is loaded when it is played.

export class LastHeard {
  /** The script whose whole is to be shown once it is open: its id; until then the dock has the player's place. @type {string|null} */
  script = null;
  /** What is kept of it, as it was written last. @type {string|null|undefined} */
  kept = undefined;

  /** @param {import('./studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    studio.stage.addEventListener('change', () => this.note());
  }

  /** Show it, before the page is seen: what stands there first is moved by nothing. */
  recall() {
    const { take: record, script = null } = read();
    this.script = script;
    if (record) this.show(record);
  }

  /** Put a kept take into the dock, silent. @param {TakeRecord} record */
  show(record) {
    const take = Take.recalled(record, () => this.pcm(record.id));
    this.studio.stage.show(take);
    this.bring(take);
  }

  /** What is changed of it meanwhile, and its sound. @param {Take} take */
  async bring(take) {
    const { stage } = this.studio;
    try {
      take.record = await api.get(`studio/takes/${take.id}`);
    } catch (error) {
      if (errorOf(error).status === 404 && stage.take === take) stage.show(null); // The take was deleted.
      return;
    }
    if (take.seconds <= LONG_S) await take.here();
    if (stage.take === take) stage.refresh();
  }

  /** @param {string} id @returns {Promise<Int16Array|null>} null: it cannot be had now, and why was said */
  async pcm(id) {
    try {
      return await this.studio.history.sound(id, { cache: 'default' });
    } catch (error) {
      this.studio.toast(errorOf(error).message);
      return null;
    }
  }

  /** A script is open: whether it is the one whose whole was in the dock. @param {string} id */
  claims(id) {
    const is = id === this.script;
    this.script = null;
    return is;
  }

  /** Keep what the stage shows. A sample, or a take that the studio has no place for, is not there after a reload. */
  note() {
    const { take } = this.studio.stage;
    if (take) this.script = null;
    const heard = take instanceof Take ? take.record && { take: take.record } : take && { script: take.maker.script?.id };
    if (!heard) return;
    const text = JSON.stringify(heard);
    if (text === this.kept) return;
    this.kept = text;
    try {
      sessionStorage.setItem(KEY, text);
    } catch {
      // A browser that gives the page no place: the Library has it.
    }
  }
}

/** @returns {Heard} */
function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '{}');
  } catch {
    return {}; // No storage, or another program's data.
  }
}
