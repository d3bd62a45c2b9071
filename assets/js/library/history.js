/**
 * List of the stored takes, actions on them, and comparison of reproduced takes.
 *
 * A take is the audio that was generated for one request.
 */

import { api } from '../common/api.js';
import { Take } from '../player/take.js';

// --- Comparison of a reproduced take with the original take.

/** Return all chunks in one array with this number of samples. @param {Int16Array[]} chunks @param {number} samples */
function joined(chunks, samples) {
  const all = new Int16Array(samples);
  let at = 0;
  for (const pcm of chunks) {
    all.set(pcm, at);
    at += pcm.length;
  }
  return all;
}

/**
 * Return the number of samples that differ, and the largest difference.
 *
 * The second take must be at least as long as the first take.
 *
 * @param {import('../player/take.js').Take} first @param {import('../player/take.js').Take} second
 */
function differenceOf(first, second) {
  const [a, b] = [first, second].map(({ chunks, samples }) => joined(chunks, samples));
  let count = 0;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    const step = Math.abs(a[i] - b[i]);
    if (step) count += 1;
    if (step > most) most = step;
  }
  return { count, most };
}

/** @typedef {Partial<import('../player/take.js').Model>} Model */

/** @param {Model} model */
const device = ({ device: name, dtype }) => [name, dtype].filter(Boolean).join(', ');

/**
 * Compare newly generated audio with the original audio, sample by sample.
 *
 * The result is a message for the user.
 *
 * @param {import('../player/take.js').Take} before  stored take with its audio
 * @param {import('../player/take.js').Take} after   new take
 * @returns {{identical: boolean, key: string, values: Object<string, any>}}  message key and its values
 */
export function compare(before, after) {
  /** @param {string} key @param {Object<string, any>} [values] */
  const different = (key, values = {}) => ({ identical: false, key: `library.different.${key}`, values });
  if (after.state === 'stopped') return different('stopped');
  // If the first take was stopped early, compare only its samples.
  const wasStopped = before.state === 'stopped';
  const sameLength = wasStopped ? before.samples <= after.samples : before.samples === after.samples;
  const { count, most } = sameLength ? differenceOf(before, after) : { count: undefined, most: Infinity };
  const bySamples = wasStopped || after.record === null;
  const same = bySamples ? count === 0 : before.record?.sha256 === after.record?.sha256;
  if (same) return { identical: true, key: `library.identical${wasStopped ? '_so_far' : ''}`, values: { n: before.samples } };
  /** @type {Model[]} */
  const [then, now] = [before.record?.model ?? {}, after.model ?? {}];
  if (then.id && now.id && then.id !== now.id) return different('model', { then: then.id, now: now.id });
  if (then.fingerprint && then.fingerprint !== now.fingerprint) return different('weights', { now: now.id });
  if (device(then) !== device(now)) return different('device', { then: device(then), now: device(now) });
  if (!sameLength) return different('length', { then: before.samples, now: after.samples });
  return different(most <= 1 ? 'step' : 'sound', { n: count });
}

// --- The stored takes by page, newest first, and actions on them. Event: 'change'.

/** @typedef {import('../player/take.js').TakeRecord} TakeRecord @typedef {Partial<Pick<TakeRecord, 'name'|'tags'|'favourite'|'notes'>>} Changes */

/** @typedef {{takes: number, in_bin: number, max_takes: number, bytes: number, max_bytes: number, removable: {takes: number, bytes: number, from: number|null, until: number|null}, restorable_s: number}} StorageUse as GET studio/takes/space */

export const PAGE = 30;

/** List of the stored takes, which is loaded from the studio page by page. */
export class TakeHistory extends EventTarget {
  /** @type {TakeRecord[]} */
  list = [];
  /** @type {string|null} */
  next = null;
  /**
   * Filter of the list.
   *
   * `loose` excludes the takes of scripts. `cursor` is the position at which the list starts.
   */
  /** @type {{search?: string, room?: string, favourite?: string, loose?: string, cursor?: string}} */
  filter = { loose: '1' };
  /** Number of list requests, used to ignore responses to earlier requests. */
  requestNumber = 0;
  /** Number of changes to takes, used to detect that a loaded page is outdated. */
  changeCount = 0;
  /**
   * Promise of the last change.
   *
   * Each change waits for the previous change, so the last change has precedence.
   *
   * @type {Promise<unknown>}
   */
  changes = Promise.resolve();

  /**
   * Create an empty list of takes.
   *
   * @param {import('../player/speech.js').Speech} speech
   * @param {(key: string, values?: Object<string, any>) => string} t
   */
  constructor(speech, t) {
    super();
    this.speech = speech;
    this.t = t;
  }

  /** Load the first page of the list again, optionally with a new filter. @param {TakeHistory['filter']} [filter] */
  async refresh(filter = this.filter) {
    this.filter = filter;
    const turn = (this.requestNumber += 1);
    let edits, first;
    do {
      edits = this.changeCount;
      first = await this.page(null);
      if (turn !== this.requestNumber) return; // Ignore the response, because a newer request was sent.
    } while (edits !== this.changeCount);
    this.show(first.takes, first.next);
  }

  async more() {
    const { next, requestNumber } = this;
    if (!next) return;
    const page = await this.page(next);
    // Ignore the page if the list was reloaded, or if the page is already shown.
    if (requestNumber !== this.requestNumber || next !== this.next) return;
    this.show([...this.list, ...page.takes], page.next);
  }

  /**
   * Request one page of the list.
   *
   * The first page has no cursor.
   *
   * @param {string|null} cursor
   */
  page(cursor) {
    const query = new URLSearchParams({ limit: String(PAGE) });
    for (const [name, value] of Object.entries({ ...this.filter, cursor: cursor ?? this.filter.cursor })) if (value) query.set(name, value);
    return api.get(`studio/takes?${query}`);
  }

  /** Replace the list, and emit the event 'change'. @param {TakeRecord[]} list @param {string|null} [next] */
  show(list, next = this.next) {
    this.list = list;
    this.next = next;
    this.dispatchEvent(new Event('change'));
  }

  /**
   * Change fields of a stored take, and return its new record.
   *
   * @param {string} id @param {Changes} fields @returns {Promise<TakeRecord>}
   */
  async change(id, fields) {
    const change = this.changes.then(() => api.patch(`studio/takes/${id}`, fields));
    this.changes = change.catch(() => {});
    const record = await change;
    this.changeCount += 1;
    this.show(this.list.map((take) => (take.id === id ? record : take)));
    return record;
  }

  /** Add a take to the favourites, or remove it from them. @param {string} id @param {boolean} on */
  favourite(id, on) {
    return this.change(id, { favourite: on });
  }

  /** Delete a take. @param {string} id */
  async remove(id) {
    await api.delete(`studio/takes/${id}`);
    this.changeCount += 1;
    this.speech.storeWaiting();
    this.dispatchEvent(new Event('moved'));
    this.show(this.list.filter((take) => take.id !== id));
  }

  /** Restore a deleted take. @param {string} id */
  async restore(id) {
    await api.post(`studio/takes/${id}/restore`);
    await this.refresh();
  }

  /** Request the storage space that the takes use, and its limit. @returns {Promise<StorageUse>} */
  space() {
    return api.get('studio/takes/space');
  }

  /**
   * Move the oldest takes to the bin, to free space.
   *
   * Favourites and the takes of scripts are not moved.
   *
   * @param {number} count number of takes
   * @returns {Promise<string[]>} ids of the moved takes
   */
  async freeSpace(count) {
    return (await this.moveSeveral(api.post('studio/takes/free', { takes: count }))).takes;
  }

  /** Delete several takes in one request. @param {string[]} ids */
  removeSeveral(ids) {
    return this.moveSeveral(api.post('studio/takes/delete', { takes: ids }));
  }

  /** Restore several deleted takes in one request. @param {string[]} ids */
  restoreSeveral(ids) {
    return this.moveSeveral(api.post('studio/takes/restore', { takes: ids }));
  }

  restoreBin() {
    return this.moveSeveral(api.post('studio/takes/bin/restore'));
  }

  emptyBin() {
    return this.moveSeveral(api.delete('studio/takes/bin'));
  }

  /**
   * Wait for a request that moves several takes, and load the list again.
   *
   * The result is the response of the request.
   *
   * @template T
   * @param {Promise<T>} request
   */
  async moveSeveral(request) {
    const response = await request;
    this.changeCount += 1;
    this.speech.storeWaiting();
    this.dispatchEvent(new Event('moved'));
    await this.refresh();
    return response;
  }

  /** Load the audio for a stored record, and return both as a take. @param {TakeRecord} record */
  async load(record) {
    return Take.fromRecord(record, await this.loadPcm(record.id));
  }

  /** Load the samples of a stored take (16-bit mono at 24 kHz). @param {string} id @param {RequestInit} [options] */
  async loadPcm(id, options) {
    const blob = await api.blob(`studio/takes/${id}/audio?format=pcm&inline=1`, options);
    return new Int16Array(await blob.arrayBuffer());
  }

  /**
   * Return the reference audio of a take, or null if it has none.
   *
   * @param {TakeRecord} record @returns {Promise<Blob|null>}
   */
  async reference(record) {
    return record.reference ? api.blob(`studio/takes/${record.id}/reference`) : null;
  }

  /**
   * Generate stored speech again, and compare the new audio with the original.
   *
   * @param {string} id
   * @param {{onTake?: (take: Take) => void}} [options]  onTake: called with the new take during generation
   * @returns {Promise<{take: Take, identical: boolean, why: string}>}  why: message for the user about the comparison
   */
  async reproduce(id, { onTake = () => {} } = {}) {
    const record = await api.get(`studio/takes/${id}`);
    const { room, mode, config, text, spoken, seed, label } = record;
    const [before, reference] = await Promise.all([this.load(record), this.reference(record)]);
    const take = this.speech.request({ room, mode, config, text, spoken, seed, label, parent: id, reference, isQuiet: true });
    onTake(take);
    await take.stored();
    const { identical, key, values } = compare(before, take);
    return { take, identical, why: this.t(key, values) };
  }

  /** Add a newly stored take (generated audio) to the list if it matches the filter. @param {TakeRecord} record */
  async add(record) {
    const { search, room, favourite, loose, cursor } = this.filter;
    this.changeCount += 1;
    if (cursor) return; // The list starts at an earlier day, so the new take does not belong to it.
    if (loose && record.room === 'script') return;
    if (favourite || (room && room !== record.room)) return;
    if (search && !(await this.isFound(record))) return;
    this.show([record, ...this.list]);
  }

  /** Return true if the current search finds a stored take (generated audio). @param {TakeRecord} record */
  async isFound({ id }) {
    const { requestNumber } = this;
    const { takes } = await this.page(null).catch(() => ({ takes: [] }));
    return requestNumber === this.requestNumber && takes.some((/** @type {TakeRecord} */ one) => one.id === id);
  }
}
