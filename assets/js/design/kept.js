/** The takes that stood in the Design room when the page was left, brought back from the studio's store. */

/** @typedef {{id: string, origin: import('./card.js').Origin|null, description: string, voice: {id: string, name: string}|null}} KeptTake */

export class Kept {
  /** @param {import('../rooms/design.js').DesignRoom} room */
  constructor(room) {
    this.room = room;
    /** What is still on its way. @type {(KeptTake|null)[]|null} */
    this.coming = null;
  }

  /** By place; null where nothing stands that the studio has. @returns {(KeptTake|null)[]} */
  draft() {
    if (this.coming) return this.coming;
    return this.room.cards.map(({ take, dropped, origin, description, voice }) => {
      if (!take?.id || dropped) return null;
      return { id: take.id, origin, description, voice: voice && { id: voice.id, name: voice.name } };
    });
  }

  /** @param {(KeptTake|null)[]} [takes] */
  async reopen(takes = []) {
    if (!takes.some(Boolean)) return;
    const { room } = this;
    this.coming = takes;
    const found = await Promise.all(takes.map((kept) => kept && this.fetch(kept)));
    this.coming = null;
    if (room.cards.some(({ take }) => take)) return; // new ones were made meanwhile
    room.lay(Math.max(room.cards.length, takes.length));
    found.forEach((take, index) => {
      const kept = takes[index];
      if (!take || !kept) return;
      const card = room.cards[index];
      const seed = card.lock.checked ? card.seed.value : null;
      const { origin, description, voice } = kept;
      room.watch(card, take, { origin, description });
      if (seed !== null) card.seed.value = seed;
      Object.assign(card, { voice, favourite: Boolean(take.record?.favourite) && !voice });
      card.refresh();
    });
    room.match();
  }

  /** @param {KeptTake} kept @returns {Promise<import('../take.js').Take|null>} null where it was deleted meanwhile */
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
}
