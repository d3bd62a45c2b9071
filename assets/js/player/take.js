/**
 * Take: one request for speech, with the received PCM and the results.
 *
 * A take emits 'state' when its queue position changes, when it starts, and at the first audio. It emits 'progress'
 * when more audio arrives, and 'done' or 'error' at the end. A cancelled take emits 'done'. The event
 * 'stored' follows when the studio has stored or refused the take.
 *
 * @typedef {'custom_voice'|'voice_design'|'base'} Mode
 * @typedef {{voice?: string, language?: string, instructions?: string, ref_text?: string, x_vector_only_mode?: boolean,
 *   [setting: string]: string|number|boolean|null|undefined}} Config  fields of session.config except seed and ref_audio
 *
 * @typedef {Object} TakeRequest
 * @property {string} room
 * @property {Mode} mode
 * @property {Config} config
 * @property {string} text
 * @property {string|null} [spoken]  text after pronunciations were applied, or null if it is the same
 * @property {number} seed
 * @property {string} [label]     caption next to the waveform
 * @property {string|null} [parent]  id of the take that this take repeats or varies
 * @property {Blob|null} [reference]
 * @property {boolean} [isQuiet]   true if the caller shows errors
 * @property {boolean} [isSample]  true if the take is not stored
 * @property {boolean} [keepsStopped]  true (default) if the take is stored even if it is cancelled
 * @property {boolean} [isTyped]   true if text is added while the user types
 *
 * @typedef {{queue_ms?: number, prefill_ms?: number, ttfa_ms?: number, rtf?: number,
 *   heard?: {ttfa_ms: number|null, audible_ms: number|null, underruns: number|null}}} Metrics  heard: values measured by the requesting page
 * @typedef {{clicked: number|null, ttfa: number|null, audible: number|null, underruns: number|null}} Timing
 * @typedef {{id: string, fingerprint?: string, device?: string, dtype?: string}} Model
 *
 * @typedef {Object} TakeRecord    stored take
 * @property {string} id
 * @property {number} created_at   seconds since 1970
 * @property {string} room
 * @property {Mode} mode
 * @property {string} text
 * @property {string|null} spoken
 * @property {string|null} label
 * @property {Config} config
 * @property {number} seed
 * @property {Model|null} model
 * @property {string|null} voice
 * @property {string|null} language
 * @property {Metrics|null} metrics
 * @property {string|null} stop_reason
 * @property {string|null} parent
 * @property {string|null} reference  SHA-256 digest of the reference audio
 * @property {number} samples
 * @property {number} seconds
 * @property {string} sha256
 * @property {number|null} lufs
 * @property {string|null} name
 * @property {string[]} tags
 * @property {boolean} favourite
 * @property {string} notes
 */

import { SAMPLE_RATE, wavBlob } from '../common/audio.js';
import { throttle } from '../common/elements.js';
import { fileName } from '../common/files.js';
import { configFor, isTooShort, sentText, untagged } from '../common/text.js';

export const UNANSWERED_DELAY_MS = 1000; // Delay of a response after which the page reports it.
const SOON_MS = 16;

/** Audio that the runtime generates for one request, and the state of this request. */
export class Take extends EventTarget {
  /** Create a take for a request, before any audio is received. @param {TakeRequest} asked */
  constructor({ room, mode, config, text, spoken = null, seed, label = '', parent = null, reference = null, isQuiet = false, isSample = false, keepsStopped = true, isTyped = false }) {
    super();
    this.room = room;
    this.mode = mode;
    this.config = config;
    this.text = text;
    this.spoken = spoken;
    this.seed = seed;
    this.label = label;
    this.parent = parent;
    this.reference = reference;
    /** SHA-256 digest of the reference audio, or null until it is computed. @type {string|null} */
    this.digest = null;
    this.isQuiet = isQuiet;
    this.isSample = isSample;
    this.keepsStopped = keepsStopped;
    this.isTyped = isTyped;
    /** @type {string|null} */
    this.id = null;
    /** @type {'queued'|'streaming'|'done'|'stopped'|'failed'} */
    this.state = 'queued';
    /** @type {Int16Array[]} */
    this.chunks = [];
    this.samples = 0;
    /** Expected number of samples, estimated from the text, or 0 if unknown. */
    this.planned = 0;
    /** Largest number of takes that were generated at the same time, including this take. */
    this.parallel = 1;
    /** Arrival times of the received chunks. @type {{arrivedAt: number, samples: number}[]} */
    this.arrivals = [];
    /** Model that generates the take. @type {Model|null} */
    this.model = null;
    /**
     * Fields of the received message `audio.start`.
     *
     * @type {{model: string, voice: string|null, notes?: string[]}|null}
     */
    this.start = null;
    /** Metrics of the received message `audio.done`. @type {Metrics|null} */
    this.metrics = null;
    /** @type {string|null} */
    this.stopReason = null;
    /** @type {{position: number, etaMs: number|null}|null} */
    this.queue = null;
    /** @type {TakeRecord|null} */
    this.record = null;
    /** @type {import('../common/api.js').AppError|null} */
    this.error = null;
    /**
     * Object of the speech client for this request.
     *
     * @type {ReturnType<import('../../../clients/js/voicewright.js').SpeechSocket['speak']>|null}
     */
    this.utterance = null;
    /** Promise that resolves at the next event of the take, or null. @type {Promise<unknown>|null} */
    this.nextEvent = null;
    this.isRefused = false; // True if the studio could not store the take because the store is full.
    /** Function that loads the audio of a stored take. @type {(() => Promise<Int16Array|null>)|null} */
    this.audioLoader = null;
    /** @type {Promise<Int16Array|null>|null} */
    this.loading = null;
    this.askedAt = performance.now();
    /** Emit 'state' after a short delay, so that page updates do not delay the first audio. */
    this.notifySoon = throttle(() => this.notify('state'), SOON_MS);
    /** Times in ms after `clicked` (performance.now()), measured by this page. @type {Timing} */
    this.timing = { clicked: null, ttfa: null, audible: null, underruns: null };
  }

  /**
   * Return a take with the data of a stored record and its samples.
   *
   * @param {TakeRecord} record @param {Int16Array} pcm
   */
  static fromRecord(record, pcm) {
    const take = new Take(/** @type {TakeRequest} */ ({ ...record, reference: null }));
    take.append(pcm);
    const state = record.stop_reason === 'cancelled' ? 'stopped' : 'done';
    return Object.assign(take, { id: record.id, record, model: record.model, metrics: record.metrics, stopReason: record.stop_reason, state });
  }

  /**
   * Return a stored take whose samples are loaded when they are needed.
   *
   * @param {TakeRecord} record
   * @param {() => Promise<Int16Array|null>} load loads the samples; returns null if it failed and has shown an error
   */
  static withLoader(record, load) {
    const take = Take.fromRecord(record, new Int16Array());
    take.samples = record.samples;
    take.chunks = [];
    take.audioLoader = load;
    return take;
  }

  /**
   * Load the samples of a stored take, if they are not loaded yet.
   *
   * After a failure, the next call tries again.
   */
  async loadAudio() {
    if (!this.audioLoader) return;
    this.loading ??= this.audioLoader().finally(() => (this.loading = null));
    const pcm = await this.loading;
    if (!pcm || !this.audioLoader) return;
    this.audioLoader = null;
    this.chunks = [pcm];
    this.samples = pcm.length;
    this.notify('progress');
  }

  /** Text that is sent to the runtime, with tags and with pronunciations applied. */
  get sent() {
    return sentText(this.spoken ?? this.text);
  }

  /** Text that is spoken: the sent text without tags. */
  get words() {
    return this.config.tags ? untagged(this.sent).trim() : this.sent;
  }

  /** True until the generation ends, fails or is cancelled. */
  get isReceiving() {
    return this.state === 'queued' || this.state === 'streaming';
  }

  /** True while the server has not responded to the request. */
  get isUnanswered() {
    return this.state === 'queued' && !this.queue && !this.start;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** True if the generation ended too early, so that part of the text is not spoken. */
  get isShort() {
    if (this.state !== 'done') return false;
    return this.stopReason === 'short' || (this.stopReason === 'eos' && isTooShort(this.words, this.seconds));
  }

  /**
   * Integrated loudness in LUFS, or null if unknown.
   *
   * It is known after the studio has stored the take, unless the take is too short.
   */
  get lufs() {
    return this.record?.lufs ?? null;
  }

  /**
   * Add text to a take that is generated while the user types.
   *
   * @param {string} text
   * @param {string|null} spoken text with pronunciations applied, or null if nothing was replaced
   */
  extend(text, spoken) {
    if (spoken ?? this.spoken) this.spoken = `${this.spoken ?? this.text}${spoken ?? text}`;
    this.text += text;
    this.config = configFor(this.config, this.text);
    this.write(spoken ?? text);
  }

  /** Send more text to the runtime, which speaks it immediately. @param {string} text */
  write(text) {
    this.utterance?.write(text);
    this.utterance?.flush();
  }

  /** Add received samples. @param {Int16Array} pcm */
  append(pcm) {
    this.chunks.push(pcm);
    this.samples += pcm.length;
  }

  /**
   * Cancel the generation of the take.
   *
   * The audio that was received is kept. It is stored unless `isKept` is false.
   *
   * @param {{isKept?: boolean}} [options]
   */
  cancel({ isKept = true } = {}) {
    if (!this.isReceiving) return;
    this.keepsStopped &&= isKept;
    this.utterance?.cancel();
    this.stopReason = 'cancelled';
    this.enter('stopped', 'done');
  }

  /** Change the state, and emit an event. @param {Take['state']} state @param {string} event */
  enter(state, event) {
    this.state = state;
    this.notify(event);
  }

  /** Emit an event of the take. @param {string} event */
  notify(event) {
    this.resolveEvent?.(undefined);
    this.nextEvent = null;
    this.dispatchEvent(new Event(event));
  }

  /** Return a promise that resolves at the next event of the take. */
  waitForEvent() {
    this.nextEvent ??= new Promise((resolve) => (this.resolveEvent = resolve));
    return this.nextEvent;
  }

  /** Wait for the end of the generation and return the take, or throw its error. */
  async finished() {
    while (this.isReceiving) await this.waitForEvent();
    if (this.state === 'failed') throw this.error;
    return this;
  }

  /** True if the studio should store the take: it is complete, or cancelled with audio. */
  get isStorable() {
    return this.state === 'done' || (this.state === 'stopped' && this.keepsStopped && this.samples > 0);
  }

  /** True until the studio has stored or refused the take. */
  get isStoring() {
    return this.isStorable && !this.record && !this.isRefused;
  }

  /** Wait until the studio has stored or refused the take, or throw its error. */
  async stored() {
    await this.finished();
    while (this.isStoring) await this.waitForEvent();
    return this;
  }

  /** Return the received audio as a WAV file. @returns {Blob} */
  wav() {
    return wavBlob(this.chunks);
  }

  /** @returns {string} */
  get filename() {
    return fileName(this.text, 'wav');
  }
}
