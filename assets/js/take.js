/**
 * One take: what was asked for, the PCM as it comes, and what is known of it in the end.
 *
 * Events: 'progress' (sound, start or queue), then one of 'done' (also when it was stopped) and 'error',
 * and 'stored' once the studio keeps it.
 *
 * @typedef {Object} Asked
 * @property {string} room
 * @property {'custom_voice'|'voice_design'|'base'} mode
 * @property {Object<string, any>} config      fields of session.config without seed and ref_audio
 * @property {string} text
 * @property {string|null} [spoken]  what is sent in its place, where words of it are said otherwise
 * @property {number} seed
 * @property {string} [label]     what stands beside the waveform
 * @property {string|null} [parent]  id of the take that this one repeats or varies
 * @property {Blob|null} [reference]
 * @property {boolean} [isQuiet]   whoever asked says himself what goes wrong
 * @property {boolean} [isSample]  played and forgotten: it is not kept in the history
 * @property {boolean} [keepsStopped]  what had come when it was stopped is kept; true unless said
 */

import { fileName } from './file_name.js';
import { SAMPLE_RATE } from './outputs.js';
import { isTooShort } from './speech_rate.js';
import { wavBlob } from './wav.js';

export class Take extends EventTarget {
  /** @param {Asked} asked */
  constructor({ room, mode, config, text, spoken = null, seed, label = '', parent = null, reference = null, isQuiet = false, isSample = false, keepsStopped = true }) {
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
    this.isQuiet = isQuiet;
    this.isSample = isSample;
    this.keepsStopped = keepsStopped;
    /** @type {string|null} */
    this.id = null;
    /** @type {'queued'|'streaming'|'done'|'stopped'|'failed'} */
    this.state = 'queued';
    /** @type {Int16Array[]} */
    this.chunks = [];
    this.samples = 0;
    /** When its sound came. @type {{at: number, samples: number}[]} */
    this.arrivals = [];
    /** The model that speaks: id, fingerprint, device, dtype. @type {Object<string, any>|null} */
    this.model = null;
    /** @type {Object<string, any>|null} audio.start */
    this.start = null;
    /** @type {Object<string, any>|null} metrics of audio.done */
    this.metrics = null;
    /** @type {string|null} */
    this.stopReason = null;
    /** @type {{position: number, etaMs: number|null}|null} */
    this.queue = null;
    /** @type {Object<string, any>|null} the stored JSON */
    this.record = null;
    /** @type {Error|null} */
    this.error = null;
    /** @type {Object<string, any>|null} of the client's */
    this.utterance = null;
    /** @type {Promise<unknown>|null} settled by the next change */
    this.changing = null;
    this.unkept = false; // the studio has no place for it
    /** What this page measured, ms after `clicked` (performance.now()). */
    this.timing = { clicked: null, ttfa: null, audible: null, underruns: null };
  }

  /** A kept take with its sound, to be played and shown like a fresh one. @param {Object<string, any>} record @param {Int16Array} pcm */
  static kept(record, pcm) {
    const take = new Take(/** @type {Asked} */ ({ ...record, reference: null }));
    take.append(pcm);
    const state = record.stop_reason === 'cancelled' ? 'stopped' : 'done';
    Object.assign(take, { metrics: record.metrics, stopReason: record.stop_reason, state });
    Object.assign(take, { id: record.id, record, model: record.model });
    return take;
  }

  /** The words that are spoken. */
  get sent() {
    return this.spoken ?? this.text;
  }

  /** Whether sound may still come. */
  get live() {
    return this.state === 'queued' || this.state === 'streaming';
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** Whether it ended by itself long before its text can have been said. */
  get isShort() {
    if (this.state !== 'done') return false;
    return this.stopReason === 'short' || (this.stopReason === 'eos' && isTooShort(this.sent, this.seconds));
  }

  /** Integrated loudness, null before it is known or where the take is too short for one. */
  get lufs() {
    return this.record?.lufs ?? null;
  }

  /** @param {Int16Array} pcm */
  append(pcm) {
    this.chunks.push(pcm);
    this.samples += pcm.length;
  }

  /** Stop the runtime's work on it; what has come stays, and is kept unless `isKept` is false. @param {{isKept?: boolean}} [options] */
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
    this.tell(event);
  }

  /** @param {string} event */
  tell(event) {
    this.wake?.(undefined);
    this.changing = null;
    this.dispatchEvent(new Event(event));
  }

  /** Resolve at the next event. */
  change() {
    this.changing ??= new Promise((resolve) => (this.wake = resolve));
    return this.changing;
  }

  /** Resolve with the take when no more sound will come; reject where it failed. */
  async whole() {
    while (this.live) await this.change();
    if (this.state === 'failed') throw this.error;
    return this;
  }

  /** Whether the studio is to keep it: all that came whole, and what came before it was stopped. */
  get lasts() {
    return this.state === 'done' || (this.state === 'stopped' && this.keepsStopped && this.samples > 0);
  }

  /** Resolve with the take when the studio keeps it, or will not; reject where it failed. */
  async stored() {
    await this.whole();
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
