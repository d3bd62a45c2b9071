/** Recordings that outlive the page, in the browser's own database; where there is none, they last as long as the page. */

const DATABASE = 'voicewright';
const STORE = 'recordings';

/** @returns {Promise<IDBDatabase>} */
function opened() {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(DATABASE, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

/** @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest} ask */
async function within(mode, ask) {
  try {
    const database = await opened();
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const asked = ask(transaction.objectStore(STORE));
      transaction.oncomplete = () => {
        database.close();
        resolve(asked.result);
      };
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  } catch {
    return undefined;
  }
}

/** @typedef {Pick<import('./reference.js').Reference, 'pcm'|'file'|'name'|'source'> & {at: number}} Recording at: when it was put there */

export const recordings = {
  /** @param {string} name @returns {Promise<Recording|undefined>} undefined where none is kept */
  get: (name) => within('readonly', (store) => store.get(name)),
  /** @param {string} name @param {Recording} value samples and files are kept as they are */
  put: (name, value) => within('readwrite', (store) => store.put(value, name)),
  /** @param {string} name */
  delete: (name) => within('readwrite', (store) => store.delete(name)),
};
