/** The room that the address names, as `#/design`: for bookmarks, for Back and Forward, and for a reload. */

/** Where a room's address has another word than its id. @type {Object<string, string>} */
const NAMES = { speakers: 'speak' };

export class Addresses {
  /** @param {string[]} rooms their ids @param {() => void} onMoved Back, Forward, or an address that was typed */
  constructor(rooms, onMoved) {
    this.rooms = rooms;
    addEventListener('popstate', onMoved);
  }

  /** @returns {string|null} null where the address names none */
  get room() {
    const [, name] = /^#\/([\w-]+)/.exec(location.hash) ?? [];
    return this.rooms.find((id) => [id, NAMES[id]].includes(name ?? '')) ?? null;
  }

  /** Name another room; Back leads to the one before. @param {string} id */
  go(id) {
    if (id === this.room) return;
    const there = new URL(location.href);
    there.hash = `/${NAMES[id] ?? id}`;
    history.pushState(null, '', there);
  }
}
