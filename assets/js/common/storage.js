/** Values that the browser stores: settings, recordings, and drafts of each room. */

/** Values of this page, if the browser's storage cannot be used. @type {Map<string, string>} */
const inMemory = new Map();

/**
 * Read a value from the browser's storage, or return null if missing or invalid.
 *
 * @param {'localStorage'|'sessionStorage'} storage @param {string} key @returns {any}
 */
export function recall(storage, key) {
  try {
    return JSON.parse(inMemory.get(key) ?? window[storage].getItem(key) ?? 'null');
  } catch {
    return null;
  }
}

/**
 * Store a value as JSON in the browser's storage.
 *
 * @param {'localStorage'|'sessionStorage'} storage @param {string} key @param {unknown} value
 */
export function remember(storage, key, value) {
  rememberText(storage, key, JSON.stringify(value));
}

/**
 * Store a text in the browser's storage, or in memory if the storage is not available.
 *
 * @param {'localStorage'|'sessionStorage'} storage @param {string} key @param {string} text JSON text
 */
function rememberText(storage, key, text) {
  try {
    window[storage].setItem(key, text);
  } catch {
    inMemory.set(key, text);
  }
}

// --- Recordings in the browser's database, or in memory if the browser has no database.

const DATABASE = 'voicewright';
const STORE = 'recordings';

/** Open the database of the page, and create it if necessary. @returns {Promise<IDBDatabase>} */
function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/**
 * Run one request on the database and return its result, or undefined if it fails.
 *
 * @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest} makeRequest
 */
async function runTransaction(mode, makeRequest) {
  try {
    const database = await opened();
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const request = makeRequest(transaction.objectStore(STORE));
      transaction.oncomplete = () => {
        database.close();
        resolve(request.result);
      };
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  } catch {
    return undefined;
  }
}

/**
 * @typedef {Pick<import('../clone/reference.js').Reference, 'pcm'|'file'|'name'|'source'> & {at: number}} Recording
 *   at: time at which the recording was stored
 */

export const recordings = {
  /** @param {string} name @returns {Promise<Recording|undefined>} the recording, or undefined if it is not stored */
  get: (name) => runTransaction('readonly', (store) => store.get(name)),
  /** @param {string} name @param {Recording} value recording, whose samples and file are stored unchanged */
  put: (name, value) => runTransaction('readwrite', (store) => store.put(value, name)),
  /** @param {string} name */
  delete: (name) => runTransaction('readwrite', (store) => store.delete(name)),
};

// --- Drafts of the rooms, which are saved in this browser during typing. A reload restores the tab's own draft, and a new
// tab starts with the newest draft. A source has an `id`. `draft()` returns its form as JSON values, `recall(draft)`
// restores the form, and `reopen(draft)` restores audio that must be loaded first.

const PREFIX = 'voicewright.draft.';
const SAVE_DELAY_MS = 400; // Delay between typing and saving.
const SAVE_TIME_RATIO = 20; // Minimum ratio of the delay to the duration of the last save, for long drafts.

/** @typedef {Object<string, unknown>} Draft @typedef {{id: string, draft?(): Draft|null, recall?(draft: Draft): void, reopen?(draft: Draft): void}} Source */

/** Drafts of all rooms, which the browser stores to restore them after a reload. */
export class Drafts {
  /** Save the drafts of these sources whenever the user changes a form. @param {Source[]} sources */
  constructor(sources) {
    this.sources = sources.filter(({ draft }) => draft);
    /**
     * Last draft of each source that this page has read or written, as JSON by id.
     *
     * A page in which nothing has changed does not overwrite the changes of another page.
     */
    this.lastDrafts = new Map();
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    /** Duration of the last write in milliseconds. */
    this.tookMs = 0;
    for (const event of ['input', 'change', 'click']) document.addEventListener(event, () => this.touch());
    document.addEventListener('visibilitychange', () => document.hidden && this.saveNow());
    addEventListener('pagehide', () => this.saveNow());
  }

  /** Restore the stored drafts of all rooms and forms. */
  recall() {
    for (const source of this.sources) {
      const draft = this.read(source.id);
      if (draft) {
        source.recall?.(draft);
        source.reopen?.(draft);
      }
      this.lastDrafts.set(source.id, JSON.stringify(source.draft?.()));
    }
  }

  /** Return the stored draft of a source, or null if there is no draft. @param {string} id @returns {Draft|null} */
  read(id) {
    return recall('sessionStorage', PREFIX + id) ?? recall('localStorage', PREFIX + id);
  }

  /** Save the drafts after a short delay, if they have changed. */
  touch() {
    this.timer ??= setTimeout(() => this.saveNow(), Math.max(SAVE_DELAY_MS, SAVE_TIME_RATIO * this.tookMs));
  }

  saveNow() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const begun = performance.now();
    for (const source of this.sources) {
      const text = JSON.stringify(source.draft?.());
      if (text === this.lastDrafts.get(source.id)) continue;
      this.lastDrafts.set(source.id, text);
      rememberText('sessionStorage', PREFIX + source.id, text);
      rememberText('localStorage', PREFIX + source.id, text);
    }
    this.tookMs = performance.now() - begun;
  }
}
