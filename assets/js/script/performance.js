/**
 * A script while it is read aloud: its takes and silences in order, each asked for when the one before it is whole,
 * and never more than two lines ahead of the one that sounds.
 *
 * It is iterated by the stage, and from its beginning again after a pause: what was given once is given again.
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
    /** What has been given, and whose it is. @type {{item: Item, place: number}[]} */
    this.given = [];
    this.source = this.items();
    /** @type {Promise<boolean>|null} */
    this.growing = null;
    this.wake = () => {};
  }

  async *[Symbol.asyncIterator]() {
    for (let at = 0; at < this.given.length || (await this.grow()); at++) yield this.given[at].item;
  }

  /** Have one more item given. Two who wait for it wait for the same. @returns {Promise<boolean>} false at the end */
  grow() {
    this.growing ??= this.source.next().then(({ value, done }) => {
      this.growing = null;
      if (!done) this.given.push(value);
      return !done;
    });
    return this.growing;
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

  async *items() {
    const { maker, ids } = this;
    let first = true;
    for (let place = 0; place < ids.length; place++) {
      await this.near(place);
      const line = maker.script.line(ids[place]);
      if (!line) continue;
      maker.prepare(line);
      const plan = maker.plan(line);
      if (plan.length > 0 && !first) yield { item: { silence: maker.script.gap }, place };
      for (const part of plan) {
        first = false;
        const item = part.silence ? part : await maker.take(part, line);
        yield { item, place };
        if (!part.silence && !(await whole(item))) return;
      }
    }
  }

  /** Resolve when a line may be prepared. @param {number} place */
  async near(place) {
    while (place - this.sounding > AHEAD) await new Promise((wake) => (this.wake = wake));
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
