/**
 * A script while it is read aloud: its takes and silences in order, each asked for when the one before it is whole,
 * and never more than two lines ahead of the one that sounds.
 *
 * @typedef {import('../take.js').Take} Take
 * @typedef {Take|{silence: number}} Item  silence in seconds
 */

const AHEAD = 2; // lines

export class Performance {
  /**
   * @param {import('./making.js').Maker} maker
   * @param {string[]} ids  of the lines, in order; one that is gone when its turn comes is left out
   */
  constructor(maker, ids) {
    this.maker = maker;
    this.ids = ids;
    this.sounding = 0; // place in ids
    /** What has been given, and the place of its line. @type {{item: Item, place: number}[]} */
    this.given = [];
    this.wake = () => {};
  }

  /** The stage has come to an item. @param {number} index @returns {string} the id of the line that sounds */
  reach(index) {
    this.sounding = this.given[index].place;
    this.wake();
    return this.ids[this.sounding];
  }

  /** @param {Take} take */
  has(take) {
    return this.given.some(({ item }) => item === take);
  }

  /** @returns {AsyncGenerator<Item>} */
  async *items() {
    const { maker, ids } = this;
    for (let place = 0; place < ids.length; place++) {
      await this.near(place);
      const line = maker.script?.line(ids[place]);
      if (!line) continue;
      maker.prepare(line);
      const plan = maker.plan(line);
      if (plan.length > 0 && this.given.length > 0) yield this.give({ silence: maker.script?.gap ?? 0 }, place);
      for (const part of plan) {
        /** @type {any} */
        const item = part.silence ? part : await maker.take(part, line);
        yield this.give(item, place);
        if (!part.silence && !(await whole(item))) return;
      }
    }
  }

  /** @param {Item} item @param {number} place */
  give(item, place) {
    this.given.push({ item, place });
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
    return false; // the line says why
  }
}
