/**
 * A script while it is read aloud: its takes and silences in order, each asked for when the one before it is whole,
 * and never more than two lines ahead of the one that sounds.
 *
 * @typedef {import('../take.js').Take} Take
 * @typedef {Take|{silence: number}} Item  silence in seconds
 *
 * @typedef {Object} Beginning  where in the first line it begins
 * @property {number} gap       seconds of the silence before the line
 * @property {number} part      the first of its stretches
 * @property {number} skip      samples of that stretch that are left out
 *
 * @typedef {Object} Given      what was handed out
 * @property {Item} item
 * @property {number} place     of its line, in ids
 * @property {number} part      of the line's stretches; -1: the silence before the line
 * @property {number} skipped   samples of a pause that were left out; a take is handed out whole
 */

import { SAMPLE_RATE } from '../wav.js';

const AHEAD = 2; // Lines.
const WHOLE = { gap: 0, part: 0, skip: 0 };

export class Performance {
  /**
   * @param {import('./making.js').Maker} maker
   * @param {string[]} ids  of the lines, in order; one that is gone when its turn comes is left out
   * @param {Beginning} [begin]
   */
  constructor(maker, ids, begin = WHOLE) {
    this.maker = maker;
    this.ids = ids;
    this.begin = begin;
    this.sounding = 0; // Index in ids.
    /** @type {Given[]} */
    this.given = [];
    this.wake = () => {};
  }

  /** The stage has come to an item. @param {number} index @returns {string} the id of the line that sounds */
  reach(index) {
    this.sounding = this.given[index].place;
    this.wake();
    return this.ids[this.sounding];
  }

  /** @returns {AsyncGenerator<Item>} */
  async *items() {
    const { maker, ids } = this;
    /** @type {import('./document.js').Line|null} */
    let before = null;
    for (let place = 0; place < ids.length; place++) {
      await this.near(place);
      const line = maker.script?.line(ids[place]);
      if (!line) continue;
      maker.prepare(line);
      const plan = maker.plan(line);
      if (plan.length === 0) continue;
      const { gap, part: first, skip } = place === 0 ? this.begin : WHOLE;
      const silence = before ? (maker.script?.gapAfter(before) ?? 0) : gap;
      if (silence > 0) yield this.give({ silence }, place, -1);
      before = line;
      for (let part = first; part < plan.length; part++) {
        const stretch = plan[part];
        const skipped = part === first ? skip : 0;
        if (stretch.silence) {
          const left = Math.max(0, stretch.silence - skipped / SAMPLE_RATE);
          yield this.give({ silence: left }, place, part, skipped);
          continue;
        }
        const take = await maker.take(stretch, line);
        yield this.give(take, place, part);
        if (!(await whole(take))) return;
      }
    }
  }

  /** @param {Item} item @param {number} place @param {number} part @param {number} [skipped] */
  give(item, place, part, skipped = 0) {
    this.given.push({ item, place, part, skipped });
    return item;
  }

  /** Resolve when a line may be prepared. @param {number} place */
  async near(place) {
    while (place - this.sounding > AHEAD) await new Promise((wake) => (this.wake = () => wake(undefined)));
  }
}

/** Whether a take came to its end. @param {Take} take */
async function whole(take) {
  try {
    return (await take.whole()).state === 'done';
  } catch {
    return false; // The line shows the error.
  }
}
