/**
 * One take: request, received PCM, and results.
 *
 * Events: 'state' (queue position, start, first audio), 'progress' (more audio), then 'done' (also when stopped) or
 * 'error', and 'stored' once the studio has saved it.
 *
 * @typedef {'custom_voice'|'voice_design'|'base'} Mode
 * @typedef {{voice?: string, language?: string, instructions?: string, ref_text?: string, x_vector_only_mode?: boolean,
 *   [setting: string]: string|number|boolean|null|undefined}} Config  fields of session.config without seed and ref_audio
 *
 * @typedef {Object} Asked
 * @property {string} room
 * @property {Mode} mode
 * @property {Config} config
 * @property {string} text
 * @property {string|null} [spoken]  the text with pronunciations, if it differs
 * @property {number} seed
 * @property {string} [label]     caption next to the waveform
 * @property {string|null} [parent]  id of the take that this one repeats or varies
 * @property {Blob|null} [reference]
 * @property {boolean} [isQuiet]   the caller shows errors
 * @property {boolean} [isSample]  not saved
 * @property {boolean} [keepsStopped]  save it also if it was stopped; default true
 * @property {boolean} [isTyped]   its text grows during typing
 *
 * @typedef {{queue_ms?: number, prefill_ms?: number, ttfa_ms?: number, rtf?: number,
 *   heard?: {ttfa_ms: number|null, audible_ms: number|null, underruns: number|null}}} Metrics  heard: measured by the requesting page
 * @typedef {{clicked: number|null, ttfa: number|null, audible: number|null, underruns: number|null}} Timing
 * @typedef {{id: string, fingerprint?: string, device?: string, dtype?: string}} Model
 *
 * @typedef {Object} TakeRecord    a stored take
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
 * @property {string|null} reference  SHA-256 of the reference audio
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
  /** @param {Asked} asked */
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
    /** SHA-256 of the reference, once it was computed and if the browser supports it. @type {string|null} */
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
    /** Expected samples by its text, or 0 if not estimated. */
    this.planned = 0;
    /** Maximum number of parallel takes, including this one. */
    this.parallel = 1;
    /** Arrival times of its audio. @type {{arrivedAt: number, samples: number}[]} */
    this.arrivals = [];
    /** The model that speaks. @type {Model|null} */
    this.model = null;
    /** Fields of audio.start. @type {{model: string, voice: string|null, notes?: string[]}|null} */
    this.start = null;
    /** Metrics of audio.done. @type {Metrics|null} */
    this.metrics = null;
    /** @type {string|null} */
    this.stopReason = null;
    /** @type {{position: number, etaMs: number|null}|null} */
    this.queue = null;
    /** @type {TakeRecord|null} */
    this.record = null;
    /** @type {import('../common/api.js').Thrown|null} */
    this.error = null;
    /**
     * The client's utterance. @type
     * {ReturnType<import('../../../clients/js/voicewright.js').SpeechSocket['speak']>|null}
     */
    this.utterance = null;
    /** Promise that the next change of the take settles. @type {Promise<unknown>|null} */
    this.changing = null;
    this.unkept = false; // True if the studio had no space for the take.
    /** Loads the audio of a recalled take. @type {(() => Promise<Int16Array|null>)|null} */
    this.ask = null;
    /** @type {Promise<Int16Array|null>|null} */
    this.loading = null;
    this.askedAt = performance.now();
    /**
     * Emit 'state' with a delay.
     *
     * Listeners draw the page, and the first audio must not wait for that.
     */
    this.notifySoon = throttle(() => this.notify('state'), SOON_MS);
    /** Measurements of this page, in ms after `clicked` (performance.now()). @type {Timing} */
    this.timing = { clicked: null, ttfa: null, audible: null, underruns: null };
  }

  /** Return a stored take with its audio. @param {TakeRecord} record @param {Int16Array} pcm */
  static kept(record, pcm) {
    const take = new Take(/** @type {Asked} */ ({ ...record, reference: null }));
    take.append(pcm);
    const state = record.stop_reason === 'cancelled' ? 'stopped' : 'done';
    Object.assign(take, { metrics: record.metrics, stopReason: record.stop_reason, state });
    Object.assign(take, { id: record.id, record, model: record.model });
    return take;
  }

  /**
   * Return a stored take whose audio is loaded later. @param {TakeRecord} record @param {() =>
   * Promise<Int16Array|null>} ask null: unavailable, and the error was shown
   */
  static recalled(record, ask) {
    const take = Take.kept(record, new Int16Array());
    take.samples = record.samples;
    take.chunks = [];
    take.ask = ask;
    return take;
  }

  /**
   * Load the audio of a stored take.
   *
   * After a failure, it is requested again the next time.
   */
  async here() {
    if (!this.ask) return;
    this.loading ??= this.ask().finally(() => (this.loading = null));
    const pcm = await this.loading;
    if (!pcm || !this.ask) return;
    this.ask = null;
    this.chunks = [pcm];
    this.samples = pcm.length;
    this.notify('progress');
  }

  /** The text that is sent: with pronunciations, and with tags. */
  get sent() {
    return sentText(this.spoken ?? this.text);
  }

  /** The words that are spoken. */
  get words() {
    return this.config.tags ? untagged(this.sent).trim() : this.sent;
  }

  /** True if audio may still arrive. */
  get live() {
    return this.state === 'queued' || this.state === 'streaming';
  }

  /** True if the server has not responded yet. */
  get isUnanswered() {
    return this.state === 'queued' && !this.queue && !this.start;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** True if the take ended with EOS too early for its text. */
  get isShort() {
    if (this.state !== 'done') return false;
    return this.stopReason === 'short' || (this.stopReason === 'eos' && isTooShort(this.words, this.seconds));
  }

  /** Integrated loudness, or null if it is unknown or the take is too short. */
  get lufs() {
    return this.record?.lufs ?? null;
  }

  /** Speak more text. @param {string} text @param {string|null} spoken with pronunciations, if it differs */
  extend(text, spoken) {
    if (spoken ?? this.spoken) this.spoken = `${this.spoken ?? this.text}${spoken ?? text}`;
    this.text += text;
    this.config = configFor(this.config, this.text);
    this.write(spoken ?? text);
  }

  /** Send a part of a streamed text, which is spoken at once. @param {string} text */
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
   * Cancel generation.
   *
   * The received audio is kept, and is saved unless `isKept` is false.
   *
   * @param {{isKept?: boolean}} [options]
   */
  cancel({ isKept = true } = {}) {
    if (!this.live) return;
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
    this.wake?.(undefined);
    this.changing = null;
    this.dispatchEvent(new Event(event));
  }

  /** Resolve at the next event. */
  change() {
    this.changing ??= new Promise((resolve) => (this.wake = resolve));
    return this.changing;
  }

  /** Resolve with the take at the end of its audio, or reject if it failed. */
  async finished() {
    while (this.live) await this.change();
    if (this.state === 'failed') throw this.error;
    return this;
  }

  /** True if the take is to be saved: complete takes, and stopped ones with audio. */
  get lasts() {
    return this.state === 'done' || (this.state === 'stopped' && this.keepsStopped && this.samples > 0);
  }

  /** Resolve with the take once it is stored or refused, or reject if it failed. */
  async stored() {
    await this.finished();
    while (this.lasts && !this.record && !this.unkept) await this.change();
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
