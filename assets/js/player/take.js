/**
 * One take: its request, the received PCM and the results.
 *
 * Events: 'state' (queue position, start, first audio), 'progress' (more audio), 'done' (also after a cancellation) or
 * 'error' at the end, and 'stored' once the studio has stored the take.
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

const SOON_MS = 16;

export class Take extends EventTarget {
  /** @param {TakeRequest} asked */
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
    /** SHA-256 digest of the reference, once computed, if the browser supports it. @type {string|null} */
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
    /** Number of samples estimated from the text, or 0 if unknown. */
    this.planned = 0;
    /** Maximum number of takes that were generated in parallel, including this take. */
    this.parallel = 1;
    /** Arrival times of the received chunks. @type {{arrivedAt: number, samples: number}[]} */
    this.arrivals = [];
    /** Model that generates the take. @type {Model|null} */
    this.model = null;
    /** Fields of the message audio.start. @type {{model: string, voice: string|null, notes?: string[]}|null} */
    this.start = null;
    /** Metrics of the message audio.done. @type {Metrics|null} */
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
     * Utterance of the speech client.
     *
     * @type {ReturnType<import('../../../clients/js/voicewright.js').SpeechSocket['speak']>|null}
     */
    this.utterance = null;
    /** Promise that resolves at the next event of the take. @type {Promise<unknown>|null} */
    this.nextEvent = null;
    this.isRefused = false; // True if the studio could not store the take because the store is full.
    /** Function that loads the audio of a stored take. @type {(() => Promise<Int16Array|null>)|null} */
    this.audioLoader = null;
    /** @type {Promise<Int16Array|null>|null} */
    this.loading = null;
    this.askedAt = performance.now();
    /**
     * Emit 'state' after a short delay.
     *
     * Listeners update the page, and this must not delay the first audio.
     */
    this.notifySoon = throttle(() => this.notify('state'), SOON_MS);
    /** Times in ms after `clicked` (performance.now()), measured by this page. @type {Timing} */
    this.timing = { clicked: null, ttfa: null, audible: null, underruns: null };
  }

  /** Return a take made from a stored record and its audio. @param {TakeRecord} record @param {Int16Array} pcm */
  static fromRecord(record, pcm) {
    const take = new Take(/** @type {TakeRequest} */ ({ ...record, reference: null }));
    take.append(pcm);
    const state = record.stop_reason === 'cancelled' ? 'stopped' : 'done';
    Object.assign(take, { metrics: record.metrics, stopReason: record.stop_reason, state });
    Object.assign(take, { id: record.id, record, model: record.model });
    return take;
  }

  /**
   * Return a stored take whose audio is loaded on demand.
   *
   * @param {TakeRecord} record
   * @param {() => Promise<Int16Array|null>} load returns null after showing an error if the audio is unavailable
   */
  static withLoader(record, load) {
    const take = Take.fromRecord(record, new Int16Array());
    take.samples = record.samples;
    take.chunks = [];
    take.audioLoader = load;
    return take;
  }

  /**
   * Load the audio of a stored take, if it is not loaded yet.
   *
   * After a failure, the next call requests the audio again.
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

  /** Text that is sent to the runtime, after pronunciations and with tags. */
  get sent() {
    return sentText(this.spoken ?? this.text);
  }

  /** Text that is spoken, without tags. */
  get words() {
    return this.config.tags ? untagged(this.sent).trim() : this.sent;
  }

  /** True if audio may still arrive. */
  get isReceiving() {
    return this.state === 'queued' || this.state === 'streaming';
  }

  /** True if the server has not responded to the request yet. */
  get isUnanswered() {
    return this.state === 'queued' && !this.queue && !this.start;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** True if the take ended (EOS) too early for its text. */
  get isShort() {
    if (this.state !== 'done') return false;
    return this.stopReason === 'short' || (this.stopReason === 'eos' && isTooShort(this.words, this.seconds));
  }

  /** Integrated loudness in LUFS, or null if it is unknown or the take is too short. */
  get lufs() {
    return this.record?.lufs ?? null;
  }

  /**
   * Add text to a take with streamed text.
   *
   * @param {string} text
   * @param {string|null} spoken text after pronunciations, or null if equal
   */
  extend(text, spoken) {
    if (spoken ?? this.spoken) this.spoken = `${this.spoken ?? this.text}${spoken ?? text}`;
    this.text += text;
    this.config = configFor(this.config, this.text);
    this.write(spoken ?? text);
  }

  /** Send more streamed text, which is spoken immediately. @param {string} text */
  write(text) {
    this.utterance?.write(text);
    this.utterance?.flush();
  }

  /** @param {Int16Array} pcm */
  append(pcm) {
    this.chunks.push(pcm);
    this.samples += pcm.length;
  }

  /**
   * Cancel the generation of the take.
   *
   * The received audio is kept. It is also stored, unless `isKept` is false.
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

  /** @param {Take['state']} state @param {string} event */
  enter(state, event) {
    this.state = state;
    this.notify(event);
  }

  /** @param {string} event */
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

  /** Resolve with the take when its audio has ended, or reject if the take failed. */
  async finished() {
    while (this.isReceiving) await this.waitForEvent();
    if (this.state === 'failed') throw this.error;
    return this;
  }

  /** True if the take has to be stored: a complete take, or a cancelled take with audio. */
  get isStorable() {
    return this.state === 'done' || (this.state === 'stopped' && this.keepsStopped && this.samples > 0);
  }

  /** Resolve with the take when it is stored or refused, or reject if it failed. */
  async stored() {
    await this.finished();
    while (this.isStorable && !this.record && !this.isRefused) await this.waitForEvent();
    return this;
  }

  /** @returns {Blob} */
  wav() {
    return wavBlob(this.chunks, SAMPLE_RATE);
  }

  /** @returns {string} */
  get filename() {
    return fileName(this.text, 'wav');
  }
}
