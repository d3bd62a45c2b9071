/** Ways from room to room: addresses and keys. */

// --- The room that the address names, as `#/design`: for bookmarks, for Back and Forward, and for a reload.

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

// --- The keys that lead from room to room (g, then a letter), and the sheet that lists all keys (?).

/** @type {Object<string, string>} */
const ROOMS = { s: 'speakers', d: 'design', c: 'clone', t: 'script', l: 'library' };
const PAUSE_MS = 1500; // Maximum time between g and the letter.

export class Shortcuts {
  /** @param {HTMLDialogElement} sheet @param {(room: string) => void} go */
  constructor(sheet, go) {
    this.sheet = sheet;
    this.go = go;
    this.begun = -Infinity; // Time at which g was pressed.
    /** @type {HTMLButtonElement} */ (sheet.querySelector('button')).onclick = () => sheet.close();
  }

  /** @param {KeyboardEvent} event that nothing else takes @returns {boolean} whether it was one of these */
  onKey({ key, timeStamp }) {
    const room = timeStamp - this.begun < PAUSE_MS ? ROOMS[key.toLowerCase()] : undefined;
    this.begun = key === 'g' ? timeStamp : -Infinity;
    if (room) this.go(room);
    else if (key === '?') this.sheet.showModal();
    else return key === 'g';
    return true;
  }
}
