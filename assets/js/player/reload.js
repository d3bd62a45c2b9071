/**
 * Restoration of the player after a reload of the page.
 *
 * The page restores the take that was shown last, and offers to repeat interrupted requests.
 */

import { api, errorOf } from '../common/api.js';
import { digestOf } from '../common/files.js';
import { recall, remember } from '../common/storage.js';
import { Take } from './take.js';

// --- Restore the take of the dock after a reload without playing it. The audio is loaded afterwards.

/**
 * @typedef {import('./take.js').TakeRecord} TakeRecord @typedef {{take?: TakeRecord, script?: string}} DockState a stored
 * take, or the id of a script whose full audio was shown
 */

const HEARD_KEY = 'voicewright.heard';
const MAX_PRELOADED_S = 300; // Maximum duration of a take that is loaded before the user plays it.

/** Storage of the shown take in the browser, so that a reload can show it again. */
export class LastTake {
  /** Id of the script whose full audio is shown once the script is open, or null. @type {string|null} */
  script = null;
  /** Last stored state of the dock. @type {DockState} */
  recentTakes = {};

  /** Save the state of the dock whenever it changes. @param {import('../app/studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    studio.stage.addEventListener('change', () => this.saveState());
    studio.history.addEventListener('moved', () => this.check());
  }

  /**
   * Show the take that the player showed before the reload.
   *
   * It is shown before the page is visible, so that the layout does not move later.
   */
  recall() {
    const { take: record, script = null } = /** @type {DockState} */ (recall('sessionStorage', HEARD_KEY) ?? {});
    this.script = script;
    if (record) this.show(record);
  }

  /** Show a stored take in the player without playing it. @param {TakeRecord} record */
  show(record) {
    const take = Take.withLoader(record, () => this.pcm(record.id));
    this.studio.stage.show(take);
    this.load(take);
  }

  /** Remove the shown take from the player if it was deleted in the studio. */
  check() {
    const { take } = this.studio.stage;
    if (take instanceof Take && take.id) this.load(take);
  }

  /**
   * Load the current record and the audio of a stored take.
   *
   * If the take was deleted, remove it from the player.
   *
   * @param {Take} take
   */
  async load(take) {
    const { stage } = this.studio;
    try {
      take.record = await api.get(`studio/takes/${take.id}`);
    } catch (error) {
      // The take was deleted, perhaps while the page was closed.
      if (errorOf(error).status === 404 && stage.take === take) stage.show(null);
      return;
    }
    if (take.seconds <= MAX_PRELOADED_S) await take.loadAudio();
    if (stage.take === take) stage.refresh();
  }

  /**
   * Load the samples of a stored take, or show an error and return null.
   *
   * @param {string} id id of the take
   * @returns {Promise<Int16Array|null>}
   */
  async pcm(id) {
    const { history, toasts } = this.studio;
    return (await toasts.guard(() => history.loadPcm(id, { cache: 'default' }))) ?? null;
  }

  /**
   * Return true if the player showed the full audio of this script before the reload.
   *
   * @param {string} id id of the script
   */
  wasShown(id) {
    const is = id === this.script;
    this.script = null;
    return is;
  }

  /**
   * Remember the shown take or script, to restore it after a reload of the page.
   *
   * Samples of voices, and takes that the studio has not stored, are not remembered.
   */
  saveState() {
    const { take } = this.studio.stage;
    if (take) this.script = null;
    /** @type {DockState|null} */
    const source = take instanceof Take ? take.record && { take: take.record } : take && { script: take.maker.script?.id };
    if (!source) return;
    if (source.take !== this.recentTakes.take || source.script !== this.recentTakes.script) remember('sessionStorage', HEARD_KEY, source);
    this.recentTakes = source;
  }
}

// --- Requests whose takes were not complete or not stored when the page was reloaded. The page offers to repeat these
// requests with the same seeds until another take is requested or the user leaves the room. If the studio has already
// stored such a take, the take is shown. Rooms with several takes return the place of a take (`placeOf`) and restore
// the take there (`regain`). Reference audio is too large to be stored here, so the room returns it (`referenceOf`).
// The Script room returns the line that it reads (`reading`), and the page offers to continue there.

/**
 * @typedef {import('./take.js').TakeRequest} TakeRequest
 * @typedef {{placeOf?(take: Take): Object|null, regain?(take: Take, place: any): Promise<void>, hear?(take: Take, options: {clicked: number}): void,
 *   referenceOf?(asked: TakeRequest): Promise<Blob|null>, reading?: Object|null}} ResumableRoom  methods of a room that return the place and the reference of a take
 * @typedef {{asked: TakeRequest, digest: string|null, place: any}} InterruptedRequest digest: SHA-256 of the reference audio; place: value
 * that the room defines
 */

const CUT_OFF_KEY = 'voicewright.cut_off';
const RESUMED_ROOMS = ['speakers', 'design', 'clone']; // Rooms whose takes are requested again.
/** Codes of errors after which a request can be repeated. */
export const LOST = ['runtime_unavailable', 'engine_dead'];
const SEARCHED_TAKES = 12; // Number of recent takes to search, of which some may be from other tabs.

/** Requests that a reload interrupted, with an offer to repeat them. */
export class InterruptedRequests {
  /** Interrupted requests, which all belong to one room. @type {InterruptedRequest[]} */
  requests = [];
  /** Remove the offer to repeat the requests from the page. */
  removeOffer = () => {};
  isAsking = false;

  /** Create an empty list of interrupted requests. @param {import('../app/studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.requests = takeStored();
    addEventListener('pagehide', () => this.saveRequests());
    // If the browser restores the page from its cache, the page still has its state, and nothing was interrupted.
    addEventListener('pageshow', () => takeStored());
  }

  /**
   * Store the unfinished requests in the browser, before the page is closed.
   *
   * Only the requests of one room are stored: the room of the newest request.
   */
  saveRequests() {
    const { storing, liveTakes } = this.studio.speech;
    const { reading } = this.studio.room('script');
    if (reading) return remember('sessionStorage', CUT_OFF_KEY, [{ asked: { room: 'script' }, place: reading }]);
    const cut = [...storing, ...liveTakes].filter(isRepeatable);
    const last = cut.at(-1);
    if (!last) return;
    const room = this.studio.room(last.room);
    const ofRoom = room.placeOf ? cut.filter((take) => take.room === room.id) : [last];
    const left = ofRoom.map((take) => requestOf(take, room.placeOf?.(take) ?? null)).filter(({ place }) => place || !room.placeOf);
    remember('sessionStorage', CUT_OFF_KEY, left);
  }

  /**
   * Remember a request that failed because the runtime stopped.
   *
   * Rooms with several takes have their own buttons to repeat a request.
   *
   * @param {Take} take
   */
  add(take) {
    if (isRepeatable(take) && !this.studio.room(take.room).placeOf) this.requests = [requestOf(take, null)];
  }

  /** Discard the interrupted requests, because the user has sent another request. */
  forget() {
    this.requests = [];
    this.removeOffer();
  }

  /**
   * Show interrupted takes that the studio has stored, and offer to repeat the others.
   *
   * This is called when the runtime has become ready.
   */
  async offer() {
    const { requests, studio } = this;
    this.requests = [];
    if (requests.length === 0) return;
    const [{ asked, place: start }] = requests;
    if (asked.room === 'script') return this.propose(() => studio.go('script', start), start);
    const records = await this.recordsOf(requests);
    const found = requests.map((one) => ({ ...one, record: records.find((record) => isSameRequest(record, one)) }));
    for (const { place, record } of found) if (record) await studio.toasts.guard(() => this.show(record, place));
    const lost = found.filter(({ record }) => !record);
    if (lost.length === 0) return;
    this.propose(() => this.repeatRequests(lost));
  }

  /**
   * Show a toast with a button that speaks again.
   *
   * The toast disappears when another take is requested.
   *
   * @param {() => void} onAction @param {Record<string, string>} [reading] name of a script and number of a line, where the script continues
   */
  propose(onAction, reading) {
    const { studio } = this;
    const [sentence, action] = reading ? ['shell.cut_off_reading', 'shell.continue'] : ['shell.cut_off', 'shell.speak_again'];
    const keys = { sentence, action, dismiss: 'shell.cut_off_leave', values: reading };
    this.removeOffer = studio.toasts.show(studio.t(sentence, reading), { action: studio.t(action), onAction, dismiss: studio.t(keys.dismiss), keys });
  }

  /**
   * Return the recent complete takes of the requests' room.
   *
   * @param {InterruptedRequest[]} left
   * @returns {Promise<TakeRecord[]>}
   */
  async recordsOf([{ asked }]) {
    const { takes } = await this.studio.api.get(`studio/takes?room=${asked.room}&limit=${SEARCHED_TAKES}`).catch(() => ({ takes: [] }));
    return takes.filter((/** @type {TakeRecord} */ record) => record.stop_reason !== 'cancelled');
  }

  /**
   * Show a stored take in its room, at the position that the room has returned before.
   *
   * @param {TakeRecord} record @param {any} place
   */
  async show(record, place) {
    const { studio } = this;
    const room = studio.room(record.room);
    if (!room.regain) return studio.isBusy ? undefined : studio.lastTake.show(record);
    const take = await studio.history.load(record);
    take.reference = await studio.history.reference(record);
    await room.regain(take, place);
  }

  /**
   * Send the interrupted requests again, and play the first take.
   *
   * @param {InterruptedRequest[]} left
   */
  async repeatRequests(left) {
    const { studio } = this;
    if (this.isAsking) return;
    this.isAsking = true;
    const clicked = performance.now();
    const room = studio.room(left[0].asked.room);
    try {
      /**
       * References by the id of the parent take.
       *
       * Takes of the same parent share their reference.
       *
       * @type {Map<string|null|undefined, Blob|null>}
       */
      const references = new Map();
      for (const one of left) if (!references.get(one.asked.parent)) references.set(one.asked.parent, await this.reference(one));
      const takes = left.map(({ asked, digest }) => studio.speech.say({ ...asked, reference: digest ? references.get(asked.parent) : null }));
      for (const [index, take] of takes.entries()) await room.regain?.(take, left[index].place);
      if (room.hear) room.hear(takes[0], { clicked });
      else studio.stage.play(takes[0], { clicked });
    } catch (error) {
      studio.toasts.show(errorOf(error).message, { isOfPage: true }); // Keep the toast if the user opens another room.
    } finally {
      this.isAsking = false;
    }
  }

  /**
   * Return the reference audio of an interrupted request, or null if it had none.
   *
   * @param {InterruptedRequest} left @throws {Error} The room has other reference audio now.
   */
  async reference({ asked, digest }) {
    if (!digest) return null;
    const blob = await this.studio.room(asked.room).referenceOf?.(asked);
    if (blob && (await digestOf(blob)) === digest) return blob;
    throw new Error(this.studio.t('shell.cut_off_other'));
  }
}

/**
 * Return true if the request of a take can be repeated with the same result.
 *
 * If the request has reference audio, the digest of the audio must be known.
 *
 * @param {Take} take
 */
function isRepeatable({ room, isSample, isQuiet, state, reference, digest }) {
  return RESUMED_ROOMS.includes(room) && !isSample && !isQuiet && state !== 'stopped' && (!reference || digest !== null);
}

/**
 * Return the stored form of a take's request, with its position in the room.
 *
 * @param {Take} take @param {any} place @returns {InterruptedRequest}
 */
function requestOf({ room, mode, config, text, spoken, seed, label, parent, digest }, place) {
  return { asked: { room, mode, config, text, spoken, seed, label, parent }, digest, place };
}

/**
 * Return true if a stored take has the audio that a request would generate.
 *
 * The text, the seed, the settings and the reference audio must be equal.
 *
 * @param {TakeRecord} record @param {InterruptedRequest} left
 */
function isSameRequest(record, { asked, digest }) {
  const { mode, text, spoken = null, seed, config, parent = null } = asked;
  const names = new Set([...Object.keys(record.config), ...Object.keys(config)]);
  const isSame = [...names].every((name) => (record.config[name] ?? null) === (config[name] ?? null));
  return isSame && record.mode === mode && record.text === text && (record.spoken ?? null) === spoken && record.seed === seed && (record.parent ?? null) === parent && (record.reference ?? null) === digest;
}

/** Return the stored requests, and remove them from the browser's storage. @returns {InterruptedRequest[]} */
function takeStored() {
  const left = recall('sessionStorage', CUT_OFF_KEY);
  if (left) remember('sessionStorage', CUT_OFF_KEY, null);
  return Array.isArray(left) ? left : [];
}
