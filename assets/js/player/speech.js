/**
 * Requests for takes over the WebSocket, with their errors and their storage.
 *
 * A take is the generated audio of one request.
 */

import { SpeechError } from '../../../clients/js/voicewright.js';
import { api, errorOf } from '../common/api.js';
import { dataUrl } from '../common/audio.js';
import { FieldError } from '../common/fields.js';
import { digestOf } from '../common/files.js';
import { errorSentence } from '../common/server_messages.js';
import { configFor, expectedSeconds, sentLength } from '../common/text.js';
import { LOST } from './reload.js';
import { Take, UNANSWERED_DELAY_MS } from './take.js';

/** @typedef {import('./take.js').TakeRequest} TakeRequest */

// Interval in milliseconds between attempts to save a take while the studio does not respond.
const KEEP_AGAIN_MS = 5000;
// Duration of the toast about full storage. It is long, because no take is saved until the user frees space.
const STORAGE_FULL_TOAST_MS = 60_000;

/** Requests for takes over the WebSocket, with their errors and their storage. */
export class Speech {
  /**
   * Create the requests of a page, which are sent over its WebSocket.
   *
   * @param {import('../app/studio.js').Studio} studio
   */
  constructor(studio) {
    this.studio = studio;
    this.socket = studio.socket;
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
   * Request a take, which is the generated audio of one request.
   *
   * When the take is complete, the studio stores it. To play the take, pass it to `stage.play`.
   *
   * @param {import('../player/take.js').TakeRequest} request
   * @returns {Take}
   * @throws {FieldError} There is no text, or no connection.
   */
  say(request) {
    const { studio } = this;
    if (studio.status.isStudioAway) throw Object.assign(new FieldError('request', studio.t('shell.not_sent')), { unreachable: true });
    if (!request.text.trim()) throw new FieldError('text', studio.t('shell.text_first'));
    const config = configFor(request.config, request.text);
    const take = this.request({ spoken: studio.pronunciation.spokenText(request.text), ...request, config });
    if (!take.isSample) studio.interruptedRequests.forget();
    if (!take.isTyped) take.planned = studio.paces.samplesOf(take);
    for (const event of ['state', 'done', 'error']) take.addEventListener(event, () => studio.refreshPlayback());
    setTimeout(() => take.isUnanswered && studio.refresh(), UNANSWERED_DELAY_MS);
    studio.refresh();
    return take;
  }

  /**
   * Send a request for speech, and return the `Take` object that receives the audio.
   *
   * @param {TakeRequest} asked @returns {Take}
   */
  request(asked) {
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
        take.model = this.modelOf(model);
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
        this.checkLength(take);
        this.studio.realVoices.onPlayed();
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
    if (!take.isQuiet) this.showError(take);
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
      if (error && isNew && (!isFull || this.refusedTakes.size === 1)) this.showStorageError(error);
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
      this.studio.history.add(record);
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

  // --- Errors and hints about takes.

  /** Show the error of a failed speech request, and show the previous audio again. @param {Take} take */
  showError(take) {
    const { studio } = this;
    const { error, room } = take;
    if (LOST.includes(error?.code ?? '')) studio.interruptedRequests.add(take);
    if (error?.code === 'runtime_unavailable') studio.errorMessages.showUntilReady('request', error, studio.t('shell.runtime_back'), room);
    else if (error?.code === 'unknown_voice') this.onUnknownVoice(take, error);
    else if (error) studio.errorMessages.showMessage(error.param ?? 'request', error, room);
    if (studio.current?.mode) studio.stage.showPrevious(take);
  }

  /**
   * Show an error about an unknown voice.
   *
   * Another window may have deleted the voice. Then the message contains the name of the voice.
   *
   * @param {Take} take
   * @param {import('../common/api.js').AppError} error
   */
  async onUnknownVoice({ config, label, room }, error) {
    const { studio } = this;
    const { clicked } = studio;
    const name = studio.catalogue.findByName(config.voice ?? '')?.name ?? label;
    // If the list of voices cannot be loaded, the runtime's own error message is shown.
    await studio.voices.refresh().catch(() => {});
    const isGone = name && studio.voices.isListed && !studio.catalogue.findByName(config.voice ?? '');
    if (clicked === studio.clicked) studio.errorMessages.showMessage(error.param ?? 'request', isGone ? studio.t('shell.voice_deleted', { name }) : error, room);
  }

  /**
   * Learn the speaking rate of a voice from a take, which is generated audio.
   *
   * If the audio is too short for its text, show a hint instead.
   *
   * @param {Take} take
   */
  checkLength(take) {
    const { studio } = this;
    if (take.stopReason === 'eos' && !take.isShort) studio.paces.learn(take);
    if (take.isQuiet || take.room === 'design' || !take.isShort) return;
    studio.errorMessages.showMessage('request', this.shortness(take), take.room);
  }

  /**
   * Return a sentence about a take that is shorter than its text, with advice.
   *
   * @param {Pick<Take, 'words'|'seconds'|'mode'|'config'>} take
   */
  shortness({ words, seconds, mode, config }) {
    const { t } = this.studio;
    const way = mode !== 'base' ? 'seed' : config.voice ? 'voice' : config.x_vector_only_mode ? 'recording' : 'words';
    const about = Math.round(expectedSeconds(words));
    return `${t('shell.too_short', { s: seconds.toFixed(1), about })} ${t(`shell.too_short.${way}`)}`;
  }

  /** Show a message that generated audio could not be stored. @param {import('../common/api.js').AppError} error */
  showStorageError(error) {
    const { studio } = this;
    const { t } = studio;
    if (error.code === 'store_full') {
      const onAction = () => studio.go('library', { half: 'takes', isFull: true });
      studio.toasts.show(t('shell.kept_once_free'), { isOfPage: true, action: t('library.free'), onAction, stayMs: STORAGE_FULL_TOAST_MS });
    } else {
      studio.toasts.show(error.unreachable ? t('shell.kept_later') : t('shell.not_kept', { why: error.message }), { isOfPage: true });
    }
  }

  /**
   * Return the id, fingerprint, device and dtype of a model.
   *
   * @param {string} id
   * @returns {import('../player/take.js').Model}
   */
  modelOf(id) {
    const card = [...this.studio.cards.values()].find((one) => one.id === id);
    return card ? { id, fingerprint: card.fingerprint, device: card.device, dtype: card.dtype } : { id };
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
