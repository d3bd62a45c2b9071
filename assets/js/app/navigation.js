/** Switching between rooms, which are the tabs of the page, by URL and by keyboard. */

import { getElement } from '../common/elements.js';

// --- The current room in the page's URL, such as `#/design`, for bookmarks, Back, Forward and reloads.

/** Names of rooms in URLs, if they differ from the room's id. @type {Object<string, string>} */
const NAMES = { speakers: 'speak' };

// Number of the current entry of the browser's history. Each entry has its number as its state.
let entryNumber = 0;

/** Change the URL, and add an entry to the browser's history. @param {URL} there */
export function pushEntry(there) {
  entryNumber += 1;
  history.pushState({ entryNumber }, '', there);
}

/** The current room in the page's URL, for bookmarks, Back, Forward and reloads. */
export class RoomAddress {
  /**
   * Read the room from the URL, and follow later changes of the URL.
   *
   * With an open sheet, Back closes the sheet and does not change the room. Forward closes it and changes the room.
   *
   * @param {string[]} rooms ids of the rooms
   * @param {() => void} onMoved called after Back, Forward, or an edit of the URL
   */
  constructor(rooms, onMoved) {
    this.rooms = rooms;
    entryNumber = history.state?.entryNumber ?? 0;
    history.replaceState({ entryNumber }, '');
    addEventListener('popstate', ({ state }) => {
      const sheet = document.querySelector('.vw :is(:popover-open, dialog[open])');
      if (sheet instanceof HTMLDialogElement) sheet.close();
      else if (sheet instanceof HTMLElement) sheet.hidePopover();
      // An edit of the URL creates an entry without a number.
      const next = state?.entryNumber ?? entryNumber + 1;
      if (sheet && next < entryNumber) return history.go(entryNumber - next);
      entryNumber = next;
      history.replaceState({ entryNumber }, '');
      onMoved();
    });
  }

  /** Return the id of the room in the URL, or null if the URL has no valid room. @returns {string|null} */
  get room() {
    const [, name] = /^#\/([\w-]+)/.exec(location.hash) ?? [];
    return this.rooms.find((id) => [id, NAMES[id]].includes(name ?? '')) ?? null;
  }

  /**
   * Change the URL to another room, and add an entry to the browser's history.
   *
   * @param {string} id id of the room
   */
  go(id) {
    if (id === this.room) return;
    const there = new URL(location.href);
    there.hash = `/${NAMES[id] ?? id}`;
    pushEntry(there);
  }
}

// --- Keys that change the room (g, then a letter), and the sheet that lists all keys (?).

/** @type {Object<string, string>} */
const ROOMS = { s: 'speakers', d: 'design', c: 'clone', t: 'script', l: 'library' };
const SECOND_KEY_TIMEOUT_MS = 1500; // Maximum time between pressing g and the letter.

/** Keys that open a room (g, then a letter), and the dialog that lists all keys (?). */
class Shortcuts {
  /**
   * Create the shortcuts.
   *
   * `go` opens a room by its id, and `sheet` is the list of all keys.
   *
   * @param {HTMLDialogElement} sheet @param {(room: string) => void} go
   */
  constructor(sheet, go) {
    this.sheet = sheet;
    this.go = go;
    this.startedAt = -Infinity; // Time stamp of the key press of g in milliseconds.
    /** @type {HTMLButtonElement} */ (sheet.querySelector('button')).onclick = () => sheet.close();
  }

  /**
   * Handle a key press: `g` and a letter open a room, and `?` opens the list of all keys.
   *
   * @param {KeyboardEvent} event event that no other element has handled @returns {boolean} true if a key was handled
   */
  onKey({ key, timeStamp }) {
    const room = timeStamp - this.startedAt < SECOND_KEY_TIMEOUT_MS ? ROOMS[key.toLowerCase()] : undefined;
    this.startedAt = key === 'g' ? timeStamp : -Infinity;
    if (room) this.go(room);
    else if (key === '?') this.sheet.showModal();
    else return key === 'g';
    return true;
  }
}

/**
 * Handler of all key presses on the page.
 *
 * Dialogs, form fields and the current room handle their own keys first.
 */
export class Keys {
  /**
   * Handle the key presses of a page from now on.
   *
   * @param {HTMLElement} page @param {import('./studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.page = page;
    this.studio = studio;
    this.shortcuts = new Shortcuts(getElement(page, '#vw-shortcuts', HTMLDialogElement), (id) => studio.go(id));
    document.addEventListener('keydown', (event) => this.onKey(event));
    page.addEventListener('click', leaveFocus);
    getElement(page, '[role=tablist]').onkeydown = (event) => this.onTabKey(event);
  }

  /** Handle a key press outside the dialogs. @param {KeyboardEvent} event */
  onKey(event) {
    const { page, studio } = this;
    if (event.target instanceof Element && event.target.closest('dialog')) return; // A dialog handles its own keys.
    const isCommand = event.ctrlKey || event.metaKey;
    if (event.key === 'Enter' && isCommand) {
      event.preventDefault();
      studio.speak();
    } else if (event.key.toLowerCase() === 'z' && isCommand && !event.shiftKey && (studio.undo.back || !isTyping(event))) {
      event.preventDefault(); // Prevent the browser's own undo, which would change a hidden field.
      studio.undo.back?.();
    } else if (event.key === 'Escape' && !studio.stopButton.disabled && !page.querySelector(':popover-open')) {
      studio.stop();
    } else if (!isTyping(event) && !isCommand && !event.altKey) {
      if (studio.current?.onKey?.(event) || this.shortcuts.onKey(event)) event.preventDefault();
      else if (event.key === ' ' && !usesSpaceKey(event)) {
        event.preventDefault();
        studio.stage.toggle();
      }
    }
  }

  /** Open the next or previous room, if an arrow key was pressed on a tab. @param {KeyboardEvent} event */
  onTabKey({ key }) {
    const step = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const { tabs } = this.studio;
    const at = tabs.findIndex(({ tabIndex }) => tabIndex === 0);
    const tab = tabs[(at + step + tabs.length) % tabs.length];
    this.studio.go(tab.dataset.room ?? '');
    tab.focus();
  }
}

/**
 * Remove the focus from a clicked button, so that the Space key plays and pauses.
 *
 * If the click has hidden the button and the focus has moved to the button next to it, this button loses the focus.
 *
 * @param {MouseEvent} event
 */
function leaveFocus({ detail, target }) {
  const button = detail > 0 && target instanceof Element ? target.closest('button:not([role=tab])') : null;
  const focused = document.activeElement;
  if (!(button instanceof HTMLElement && focused instanceof HTMLButtonElement) || button.closest('dialog')) return;
  if (focused === button || (button.hidden && focused.parentElement === button.parentElement)) focused.blur();
}

/** Return true if the user is typing in a form field. @param {KeyboardEvent} event */
function isTyping({ target }) {
  return target instanceof Element && target.matches('textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range])');
}

/** Return true if the focused element handles the Space key. @param {KeyboardEvent} event */
function usesSpaceKey({ target }) {
  return target instanceof Element && target.closest('button, a[href], summary, input, audio, [role=button]') !== null;
}
