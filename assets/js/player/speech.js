/**
 * Requests for takes over the WebSocket, and storage of complete takes in the studio.
 *
 * A take is the generated audio of one request.
 */

import { SpeechError } from '../../../clients/js/voicewright.js';
import { api, errorOf } from '../common/api.js';
import { dataUrl } from '../common/audio.js';
import { digestOf } from '../common/files.js';
import { errorSentence } from '../common/server_messages.js';
import { sentLength } from '../common/text.js';
import { Take } from './take.js';

/** @typedef {import('./take.js').TakeRequest} TakeRequest */

// Interval in milliseconds between attempts to save a take while the studio does not respond.
const KEEP_AGAIN_MS = 5000;

/** Requests for takes over the WebSocket, and storage of complete takes in the studio. */
export class Speech {
  /**
   * Create the requests of a page, which are sent over this WebSocket.
   *
   * @param {import('../../../clients/js/voicewright.js').SpeechSocket} socket
   * @param {Object} callbacks
   * @param {(id: string) => import('./take.js').Model} callbacks.modelOf  returns the identity of a model
   * @param {(take: Take) => void} callbacks.onComplete
   * @param {(take: Take) => void} callbacks.onFailed
   * @param {(take: Take) => void} callbacks.onStored
   * @param {(take: Take, error: import('../common/api.js').AppError) => void} callbacks.onNotStored
   */
  constructor(socket, callbacks) {
    this.socket = socket;
    this.callbacks = callbacks;
    /** Takes that may still receive audio. @type {Set<Take>} */
    this.liveTakes = new Set();
    /** Complete takes that are being stored. @type {Set<Take>} */
    this.storing = new Set();
    /**
     * Recordings as `data:` URLs, so that each recording is read only once.
     *
     * @type {WeakMap<Blob, Promise<string>>}
     */
    this.urls = new WeakMap();
    /** SHA-256 digests of recordings. @type {WeakMap<Blob, Promise<string|null>>} */
    this.digests = new WeakMap();
    /**
     * Takes that the studio refused to store because the store is full.
     *
     * These takes are stored once other takes are deleted.
     *
     * @type {Set<Take>}
     */
    this.refusedTakes = new Set();
    this.canStore = true; // False if the studio has reported that it does not store takes.
  }

  /**
   * Send a request for speech, and return the `Take` object that receives the audio.
   *
   * @param {TakeRequest} asked @returns {Take}
   */
  say(asked) {
    const take = new Take(asked);
    this.liveTakes.add(take);
    for (const one of this.liveTakes) one.parallel = Math.max(one.parallel, this.liveTakes.size);
    const refusal = this.lengthError(take.sent);
    // Report the error after the caller has attached its listeners to the take.
    if (refusal) queueMicrotask(() => this.fail(take, refusal));
    else if (!asked.reference) this.sendRequest(take, null);
    else this.requestWithReference(take, asked.reference);
    take.addEventListener('done', () => {
      this.liveTakes.delete(take);
      if (take.isStorable) this.store(take);
    });
    return take;
  }

  /**
   * Return an error if a text is longer than the server's limit, otherwise null.
   *
   * The runtime would report only that the message is too large.
   *
   * @param {string} text text as it is sent
   */
  lengthError(text) {
    const limit = this.socket.session?.limits?.max_text_chars ?? Infinity;
    const count = sentLength(text);
    if (count <= limit) return null;
    const error = new SpeechError({ code: 'text_too_long', message: '', param: 'input', facts: { count, limit, unit: 'characters' } });
    return Object.assign(error, { message: errorSentence(error) });
  }

  /**
   * Send a request with reference audio, after the audio was read and encoded.
   *
   * @param {Take} take
   * @param {Blob} reference
   */
  async requestWithReference(take, reference) {
    try {
      const url = await cached(this.urls, reference, dataUrl);
      if (take.isReceiving) this.sendRequest(take, url);
      take.digest = await cached(this.digests, reference, digestOf);
    } catch (error) {
      this.fail(take, errorOf(error)); // The browser cannot read the recording.
    }
  }

  /**
   * Send the request of a take.
   *
   * The URL contains the reference audio.
   *
   * @param {Take} take @param {string|null} referenceUrl
   */
  sendRequest(take, referenceUrl) {
    // Enable tags, because text that is sent later may contain them.
    const growing = take.isTyped && { text_filter: 'none', tags: true };
    const config = { task_type: take.mode, ...take.config, seed: take.seed, ...(referenceUrl && { ref_audio: referenceUrl }), ...growing };
    take.utterance = this.socket.speak(config, take.isTyped ? null : take.sent, {
      onQueue: (position, etaMs) => {
        take.queue = { position, etaMs };
        take.notify('state');
      },
      onStart: ({ model, voice, notes }) => {
        take.start = { model, voice, notes };
        take.model = this.callbacks.modelOf(model);
        take.queue = null;
        take.notifySoon();
      },
      onAudio: (pcm) => {
        take.arrivals.push({ arrivedAt: performance.now(), samples: pcm.length });
        take.append(pcm);
        if (take.state === 'queued') {
          take.state = 'streaming';
          take.notifySoon();
        }
        take.notify('progress');
      },
      onDone: (done) => {
        Object.assign(take, { metrics: done.metrics, stopReason: done.stop_reason, queue: null });
        take.enter('done', 'done');
        this.callbacks.onComplete(take);
      },
      onError: (error) => this.fail(take, Object.assign(error, { message: errorSentence(error) })),
    });
    if (take.isTyped) take.write(take.spoken ?? take.text);
  }

  /** Report that the request of a take has failed. @param {import('./take.js').Take} take @param {Error} error */
  fail(take, error) {
    this.liveTakes.delete(take);
    Object.assign(take, { error, stopReason: 'error', queue: null });
    take.enter('failed', 'error');
    if (!take.isQuiet) this.callbacks.onFailed(take);
  }

  /**
   * Store a finished take (audio and request) in the studio.
   *
   * If the studio is unreachable, this is repeated until it succeeds.
   *
   * @param {Take} take
   */
  async store(take) {
    this.storing.add(take);
    /** @param {import('../common/api.js').AppError|null} error */
    const unkept = (error) => {
      const isNew = !take.isRefused;
      const isFull = error?.code === 'store_full';
      if (isFull) this.refusedTakes.add(take);
      else if (!error?.unreachable) this.storing.delete(take);
      take.isRefused = true;
      take.notify('stored');
      if (error && isNew && (!isFull || this.refusedTakes.size === 1)) this.callbacks.onNotStored(take, error);
    };
    if (!this.canStore || take.isSample) return unkept(null);
    const form = new FormData();
    form.append('take', JSON.stringify(metadataOf(take)));
    form.append('pcm', new Blob(/** @type {BlobPart[]} */ (take.chunks), { type: 'application/octet-stream' }), 'take.pcm');
    if (take.reference) form.append('reference', take.reference, take.reference instanceof File ? take.reference.name : 'reference.wav');
    try {
      const record = await api.form('studio/takes', form);
      this.storing.delete(take);
      take.record = record;
      take.id = record.id;
      take.notify('stored');
      this.callbacks.onStored(take);
    } catch (thrown) {
      const error = errorOf(thrown);
      if (error.missing) this.canStore = false;
      if (error.unreachable) setTimeout(() => this.store(take), KEEP_AGAIN_MS);
      unkept(error.missing ? null : error);
    }
  }

  /** Store the takes that the studio has refused because its storage was full. */
  storeWaiting() {
    const takes = [...this.refusedTakes];
    this.refusedTakes.clear();
    for (const take of takes) this.store(take);
  }

  /** Cancel all speech requests whose audio is not complete. */
  cancel() {
    for (const take of [...this.liveTakes]) take.cancel();
  }
}

/**
 * Return the cached result for a recording, or compute it.
 *
 * @template T
 * @param {WeakMap<Blob, Promise<T>>} known @param {Blob} reference @param {(reference: Blob) => Promise<T>} read
 */
function cached(known, reference, read) {
  const result = known.get(reference) ?? read(reference);
  known.set(reference, result);
  return result;
}

/** Return the data about a take that the studio stores with the audio. @param {Take} take */
function metadataOf(take) {
  const { room, mode, text, spoken, label, config, seed, parent, metrics, stopReason, samples, start, model, timing } = take;
  return {
    room,
    mode,
    text,
    spoken,
    label,
    config,
    seed,
    parent,
    metrics: { ...metrics, heard: { ttfa_ms: timing.ttfa, audible_ms: timing.audible, underruns: timing.underruns } },
    stop_reason: stopReason,
    samples,
    model,
    voice: start?.voice ?? config.voice ?? null,
    language: config.language ?? 'auto',
  };
}
