/** Restoration of the dock after a reload: the last take, and the interrupted requests. */

import { api, errorOf } from '../common/api.js';
import { digestOf } from '../common/files.js';
import { recall, remember } from '../common/storage.js';
import { Take } from './take.js';

// --- Restores the dock's take after a reload without playing it; its audio is loaded afterwards.

/**
 * @typedef {import('./take.js').TakeRecord} TakeRecord @typedef {{take?: TakeRecord, script?: string}} DockState a stored
 * take, or a script that was read
 */

const HEARD_KEY = 'voicewright.heard';
const MAX_PRELOADED_S = 300; // Longer audio is loaded only when it is played.

export class LastHeard {
  /** Id of the script whose full audio is shown once the script is open. @type {string|null} */
  script = null;
  /** The state that was stored last. @type {DockState} */
  kept = {};

  /** @param {import('../app/studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    studio.stage.addEventListener('change', () => this.note());
  }

  /** Show the last take before the page is visible, so that the layout does not move later. */
  recall() {
    const { take: record, script = null } = /** @type {DockState} */ (recall('sessionStorage', HEARD_KEY) ?? {});
    this.script = script;
    if (record) this.show(record);
  }

  /** Show a stored take in the dock without playing it. @param {TakeRecord} record */
  show(record) {
    const take = Take.recalled(record, () => this.pcm(record.id));
    this.studio.stage.show(take);
    this.load(take);
  }

  /** Load the stored take's current data and audio. @param {Take} take */
  async load(take) {
    const { stage } = this.studio;
    try {
      take.record = await api.get(`studio/takes/${take.id}`);
    } catch (error) {
      // The take was deleted in the meantime.
      if (errorOf(error).status === 404 && stage.take === take) stage.show(null);
      return;
    }
    if (take.seconds <= MAX_PRELOADED_S) await take.here();
    if (stage.take === take) stage.refresh();
  }

  /** @param {string} id @returns {Promise<Int16Array|null>} null: unavailable, and the error was shown */
  async pcm(id) {
    try {
      return await this.studio.history.sound(id, { cache: 'default' });
    } catch (error) {
      this.studio.toast(errorOf(error).message);
      return null;
    }
  }

  /** Return true if the opened script is the one whose full audio was in the dock. @param {string} id */
  claims(id) {
    const is = id === this.script;
    this.script = null;
    return is;
  }

  /**
   * Remember the shown take for a reload.
   *
   * Samples and unsaved takes are not restored.
   */
  note() {
    const { take } = this.studio.stage;
    if (take) this.script = null;
    /** @type {DockState|null} */
    const source = take instanceof Take ? take.record && { take: take.record } : take && { script: take.maker.script?.id };
    if (!source) return;
    if (source.take !== this.kept.take || source.script !== this.kept.script) remember('sessionStorage', HEARD_KEY, source);
    this.kept = source;
  }
}

// --- Requests that a reload or a crash interrupted before their take was complete or stored. The page offers to repeat them with
// the same seed until another take is requested or the room is left. If the studio has stored the take after all, it is
// shown instead. Rooms with several takes return the place of a take (`placeOf`) and restore it there (`regain`).
// Reference audio is too large to be stored here; the room returns it (`referenceOf`).

/**
 * @typedef {import('./take.js').Asked} Asked
 * @typedef {{placeOf?(take: Take): Object|null, regain?(take: Take, place: any): Promise<void>, hear?(take: Take, options: {clicked: number}): void,
 *   referenceOf?(asked: Asked): Promise<Blob|null>}} Place  room methods that return a take's place and reference
 * @typedef {{asked: Asked, digest: string|null, place: any}} Interrupted digest: SHA-256 of the reference audio; place:
 * defined by the room
 */

const CUT_OFF_KEY = 'voicewright.cut_off';
const RESUMED_ROOMS = ['speakers', 'design', 'clone']; // A script shows interrupted lines itself.
const SEARCHED_TAKES = 12; // Another tab may have spoken in the meantime.

export class CutOff {
  /** Interrupted requests, all of one room. @type {Interrupted[]} */
  left = [];
  /** Removes the offer. */
  withdraw = () => {};
  isAsking = false;

  /** @param {import('../app/studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.left = takeStored();
    addEventListener('pagehide', () => this.keep());
    addEventListener('pageshow', () => takeStored()); // The page was restored from the cache with its state.
  }

  /** Store the unfinished requests of the room with the newest request. */
  keep() {
    const { keeping, live } = this.studio.speech;
    const cut = [...keeping, ...live].filter(isRepeatable);
    const last = cut.at(-1);
    if (!last) return;
    const room = this.studio.room(last.room);
    const ofRoom = room.placeOf ? cut.filter((take) => take.room === room.id) : [last];
    const left = ofRoom.map((take) => interruptedOf(take, room.placeOf?.(take) ?? null)).filter(({ place }) => place || !room.placeOf);
    remember('sessionStorage', CUT_OFF_KEY, left);
  }

  /**
   * Remember a request that ended with the runtime.
   *
   * A room with several takes offers to repeat them itself.
   *
   * @param {Take} take
   */
  add(take) {
    if (isRepeatable(take) && !this.studio.room(take.room).placeOf) this.left = [interruptedOf(take, null)];
  }

  /** Drop the requests, because another one has begun. */
  forget() {
    this.left = [];
    this.withdraw();
  }

  /** Offer to repeat the requests, once the runtime is ready. */
  async offer() {
    const { left, studio } = this;
    this.left = [];
    if (left.length === 0) return;
    const records = await this.kept(left);
    const found = left.map((one) => ({ ...one, record: records.find((record) => sameRequest(record, one)) }));
    for (const { place, record } of found) if (record) await this.show(record, place).catch((error) => studio.toast(errorOf(error).message));
    const lost = found.filter(({ record }) => !record);
    if (lost.length === 0) return;
    const keys = { sentence: 'shell.cut_off', action: 'shell.speak_again', dismiss: 'shell.cut_off_leave' };
    const onAction = () => this.again(lost);
    this.withdraw = studio.toast(studio.t(keys.sentence), { action: studio.t(keys.action), onAction, dismiss: studio.t(keys.dismiss), keys });
  }

  /** Return the studio's recent complete takes. @param {Interrupted[]} left @returns {Promise<TakeRecord[]>} */
  async kept([{ asked }]) {
    const { takes } = await this.studio.api.get(`studio/takes?room=${asked.room}&limit=${SEARCHED_TAKES}`).catch(() => ({ takes: [] }));
    return takes.filter((/** @type {TakeRecord} */ record) => record.stop_reason !== 'cancelled');
  }

  /** Restore a stored take to its place. @param {TakeRecord} record @param {any} place */
  async show(record, place) {
    const { studio } = this;
    const room = studio.room(record.room);
    if (!room.regain) return studio.isBusy ? undefined : studio.lastHeard.show(record);
    const take = await studio.history.load(record);
    take.reference = await studio.history.reference(record);
    await room.regain(take, place);
  }

  /**
   * Repeat all requests and play the first one.
   *
   * Requests that fail are still offered.
   *
   * @param {Interrupted[]} left
   */
  async again(left) {
    const { studio } = this;
    if (this.isAsking) return;
    this.isAsking = true;
    const clicked = performance.now();
    const room = studio.room(left[0].asked.room);
    try {
      /**
       * References by parent.
       *
       * Takes of one parent share their reference.
       *
       * @type {Map<string|null|undefined, Blob|null>}
       */
      const references = new Map();
      for (const one of left) if (!references.get(one.asked.parent)) references.set(one.asked.parent, await this.reference(one));
      const takes = left.map(({ asked, digest }) => studio.say({ ...asked, reference: digest ? references.get(asked.parent) : null }));
      for (const [index, take] of takes.entries()) await room.regain?.(take, left[index].place);
      if (room.hear) room.hear(takes[0], { clicked });
      else studio.stage.play(takes[0], { clicked });
    } catch (error) {
      studio.toast(errorOf(error).message, { isOfPage: true }); // In its own room, which may not be the current one.
    } finally {
      this.isAsking = false;
    }
  }

  /** Return the reference of a request, or null if the room has another one now. @param {Interrupted} left */
  async reference({ asked, digest }) {
    if (!digest) return null;
    const blob = await this.studio.room(asked.room).referenceOf?.(asked);
    if (blob && (await digestOf(blob)) === digest) return blob;
    throw new Error(this.studio.t('shell.cut_off_other'));
  }
}

/**
 * True if the request can be repeated exactly.
 *
 * Its recording must have a digest, and it must have been sent before.
 *
 * @param {Take} take
 */
function isRepeatable({ room, isSample, isQuiet, state, reference, digest }) {
  return RESUMED_ROOMS.includes(room) && !isSample && !isQuiet && state !== 'stopped' && (!reference || digest !== null);
}

/** @param {Take} take @param {any} place @returns {Interrupted} */
function interruptedOf({ room, mode, config, text, spoken, seed, label, parent, digest }, place) {
  return { asked: { room, mode, config, text, spoken, seed, label, parent }, digest, place };
}

/**
 * True if a stored take has the same audio as a request.
 *
 * Text, seed and reference must be equal.
 *
 * @param {TakeRecord} record @param {Interrupted} left
 */
function sameRequest(record, { asked, digest }) {
  const { mode, text, spoken = null, seed, config, parent = null } = asked;
  const names = new Set([...Object.keys(record.config), ...Object.keys(config)]);
  const isSame = [...names].every((name) => (record.config[name] ?? null) === (config[name] ?? null));
  return isSame && record.mode === mode && record.text === text && (record.spoken ?? null) === spoken && record.seed === seed && (record.parent ?? null) === parent && (record.reference ?? null) === digest;
}

/** Remove and returns the stored requests. @returns {Interrupted[]} */
function takeStored() {
  const left = recall('sessionStorage', CUT_OFF_KEY);
  if (left) remember('sessionStorage', CUT_OFF_KEY, null);
  return Array.isArray(left) ? left : [];
}
