/**
 * The sets of takes that stood in the Design room when the page was left, brought back from the studio's store; and the
 * places of takes that were not there yet.
 *
 * @typedef {import('../take.js').Take} Take
 * @typedef {Omit<KeptSet, 'takes'> & {letter: string, note: string|null}} Place  where a take stands
 * @typedef {{id: string, letter: string, note: string|null, voice: {id: string, name: string}|null}} KeptTake
 * @typedef {{number: number, at: number, origin: import('./take_set.js').Origin, description: string, takes: KeptTake[]}} KeptSet
 */

export class Kept {
  /** @param {import('../rooms/design.js').DesignRoom} room */
  constructor(room) {
    this.room = room;
    /** What is still on its way. @type {KeptSet[]} */
    this.coming = [];
    /** Settled when all have come. */
    this.reopened = Promise.resolve();
  }

  /** Newest first; takes that the studio does not have are left out. @returns {KeptSet[]} */
  draft() {
    const shown = this.room.shown.sets.map(({ number, at, origin, cards }) => {
      const takes = cards.flatMap(({ take, letter, note, voice }) =>
        take.id ? [{ id: take.id, letter, note, voice: voice && { id: voice.id, name: voice.name } }] : [],
      );
      return { number, at, origin, description: cards[0]?.description ?? '', takes };
    });
    return [...shown, ...this.coming].filter(({ takes }) => takes.length > 0);
  }

  /** Bring them back below what was made meanwhile, one set after the other. @param {KeptSet[]} [sets] */
  reopen(sets = []) {
    return (this.reopened = this.bringBack(sets));
  }

  /** @param {KeptSet[]} sets */
  async bringBack(sets) {
    this.coming = sets;
    this.room.awaits(sets.length > 0);
    for (const { takes, ...set } of sets) {
      const found = await Promise.all(takes.map((kept) => this.fetch(kept)));
      this.coming = this.coming.slice(1);
      const cards = found.flatMap((take, index) => (take ? [{ ...takes[index], take }] : []));
      if (cards.length > 0) this.room.shown.bring(set, cards);
    }
    this.room.awaits(false);
  }

  /** @param {KeptTake} kept @returns {Promise<Take|null>} null where it was deleted meanwhile */
  async fetch({ id }) {
    const { api, history } = this.room.studio;
    try {
      const record = await api.get(`studio/takes/${id}`);
      const take = await history.load(record);
      take.reference = await history.reference(record);
      return take;
    } catch {
      return null;
    }
  }

  /** Where a take stands, for a page that is loaded anew; null: nowhere. @param {Take} take @returns {Place|null} */
  placeOf(take) {
    for (const { number, at, origin, cards } of this.room.shown.sets) {
      const card = cards.find((one) => one.take === take);
      if (card) return { number, at, origin, description: card.description, letter: card.letter, note: card.note };
    }
    return null;
  }

  /** Put a take where it stood, beside those of its set that are here. @param {Take} take @param {Place} place */
  async regain(take, { letter, note, ...given }) {
    await this.reopened;
    const set = this.room.shown.sets.find(({ number }) => number === given.number);
    const card = { take, letter, note, voice: null };
    if (set) this.room.shown.join(set, card, given.description);
    else this.room.shown.bring(given, [card]);
  }
}
