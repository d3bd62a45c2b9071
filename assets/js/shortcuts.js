/** The keys that lead from room to room (g, then a letter), and the sheet that lists all keys (?). */

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
