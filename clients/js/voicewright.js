/**
 * A client of the speech protocol `voicewright.speech.v1`: one socket, several utterances at once, heard as they
 * are made. For browsers and Node; one file, no dependencies, no globals. It knows neither sound nor page.
 *
 *     import { SpeechSocket } from 'voicewright';
 *
 *     const socket = new SpeechSocket('ws://localhost:8210/v1/audio/speech/stream');
 *     socket.speak({ voice: 'clara' }, 'The kettle is on.', {
 *       onAudio: (pcm, firstSample) => play(pcm), // Int16Array, mono, 24 kHz
 *       onDone: (done) => console.log(done.stop_reason, done.metrics.ttfa_ms),
 *       onError: (error) => console.error(error.code, error.message),
 *     });
 *
 * A text that is still being written goes in piece by piece, and is spoken meanwhile:
 *
 *     const utterance = socket.speak({ voice: 'clara' }, null, handlers);
 *     utterance.write('The kettle ');
 *     utterance.write('is on.');
 *     utterance.finish(); // or flush(), to have spoken what is there, and go on
 *
 * The socket opens with the first utterance, stays open and comes back after a loss, but never resumes: what was in
 * flight ends with the error `runtime_unavailable`. A server that answers no ping for ten seconds makes the state
 * `stalled`; an idle socket is replaced then, one with utterances in flight is given half a minute to go on where it
 * was. Sound is handed over as it comes, so bound what you keep; a tab that must hear no more of an utterance calls
 * `utterance.cancel()`. `socket.close()` ends everything for good.
 *
 * A server with keys takes one as `{ key }`; a page that must not hold the key has its own server fetch a single-use
 * ticket (POST /v1/session_ticket) for each connection: `{ ticket: async () => '…' }`.
 *
 * Docs: README.md (examples), docs/api.md (every message, field and error code).
 *
 * @typedef {Object} Session        what the server said of itself in session.created
 * @property {Object<string, any>[]} models
 * @property {Object<string, number>} limits
 *
 * @typedef {Object} Handlers
 * @property {(start: Object<string, any>) => void} [onStart]      audio.start: seed, model, voice, notes
 * @property {(pcm: Int16Array, firstSample: number) => void} [onAudio]
 * @property {(done: Object<string, any>) => void} [onDone]        audio.done: metrics, stop_reason, seed, total_samples
 * @property {(error: SpeechError) => void} [onError]
 * @property {(position: number, etaMs: number|null) => void} [onQueue]  no slot is free; 0 is next
 * @property {(ack: {sent_ms: number, played_ms: number|null}) => void} [onCancelled]  a cancel has arrived
 *
 * @typedef {Object} Options
 * @property {string} [key]                           an API key
 * @property {() => Promise<string>} [ticket]         fetches a ticket, once for each connection
 * @property {typeof globalThis.WebSocket} [WebSocket]  another than the global one, which Node has from 22 on
 *
 * @typedef {Object} ErrorFields    as the server says them
 * @property {string} code
 * @property {string} message
 * @property {string|null} [param]
 * @property {boolean} [retryable]
 * @property {Object<string, any>} [facts]
 * @property {number|null} [retry_after_s]
 * @property {boolean} [partial_audio]
 *
 * @typedef {{type: string, [field: string]: unknown}} Message  one of the client's
 * @typedef {'closed'|'connecting'|'open'|'stalled'} State
 */

const PROTOCOL = 'voicewright.speech.v1';
const KEY_PROTOCOL = 'voicewright.token.'; // a browser's WebSocket has no other place for a key
const HEADER_BYTES = 16;
const PING_MS = 5000;
const ANSWER_WITHIN_MS = 4500; // a ping; or else the connection is stalled, at most ten seconds after it stopped
const STALLED_MS = 30000; // what is in flight may go on after so long a silence
const RETRY_MS = { first: 250, most: 4000 };
const OPEN_WITHIN_MS = 6000;

/** An error with the stable code and the sentence of the server. */
export class SpeechError extends Error {
  /** @param {ErrorFields} fields */
  constructor({ code, message, param = null, retryable = false, facts = {}, retry_after_s = null, partial_audio = false }) {
    super(message);
    this.code = code;
    this.param = param;
    this.retryable = retryable;
    this.facts = facts;
    /** Seconds after which to retry, if known. */
    this.retryAfterS = retry_after_s;
    /** Some of the sound was heard. */
    this.partialAudio = partial_audio;
  }
}

const lost = () =>
  new SpeechError({
    code: 'runtime_unavailable',
    message: 'The connection to the runtime was lost. It is being restored; then speak again.',
    retryable: true,
  });

const withoutWebSocket = () =>
  new SpeechError({
    code: 'websocket_missing',
    message: 'There is no WebSocket here; use Node 22 or later, or pass one: new SpeechSocket(url, { WebSocket }).',
  });

/**
 * Take one labelled frame apart without a copy.
 *
 * Header, little endian: u8 version | u8 kind | u16 channel | u32 seq | u64 first_sample.
 *
 * @param {ArrayBuffer} frame
 */
export function readFrame(frame) {
  const header = new DataView(frame);
  if (frame.byteLength < HEADER_BYTES || header.getUint8(0) !== 1) throw new Error('unknown frame');
  return {
    kind: header.getUint8(1),
    channel: header.getUint16(2, true),
    seq: header.getUint32(4, true),
    firstSample: Number(header.getBigUint64(8, true)),
    pcm: new Int16Array(frame, HEADER_BYTES),
  };
}

/** One utterance in flight. */
class Utterance {
  /** @param {SpeechSocket} socket @param {string} id @param {Handlers} handlers */
  constructor(socket, id, handlers) {
    this.socket = socket;
    this.id = id;
    this.handlers = handlers;
    /** @type {number|null} */
    this.channel = null;
    this.samples = 0;
    this.finished = false;
    /** Messages queued until the socket is open; null afterwards. @type {Message[]|null} */
    this.waiting = [];
  }

  /** Go on with the text. @param {string} text */
  write(text) {
    this.say({ type: 'input.text', text });
  }

  /** Have spoken what is there, even where a word or a sentence may go on. */
  flush() {
    this.say({ type: 'input.flush' });
  }

  /** The text is complete. */
  finish() {
    this.say({ type: 'input.done' });
    this.finished = true;
  }

  /**
   * Report what the listener has heard; who has much left yields to others.
   *
   * @param {number} ms  of its sound, in all
   * @param {number} [bufferedMs]  fetched and not played yet
   */
  played(ms, bufferedMs) {
    this.send({ type: 'playback', played_ms: ms, buffered_ms: bufferedMs });
  }

  /** Stop it; no sound of it is heard from after this call. @param {number} [playedMs] */
  cancel(playedMs) {
    if (!this.socket.utterances.delete(this.id)) return;
    if (this.waiting) {
      // Nothing of it has left this page: nobody else could answer.
      queueMicrotask(() => this.handlers.onCancelled?.({ sent_ms: 0, played_ms: playedMs ?? null }));
      return;
    }
    this.socket.cancelled.set(this.id, this);
    this.send({ type: 'context.cancel', played_ms: playedMs });
  }

  /** A part of the text; what comes for an utterance that has ended is dropped. @param {Message} message */
  say(message) {
    if (this.finished) throw new Error('the text of this utterance is finished');
    if (this.socket.utterances.has(this.id)) this.send(message);
  }

  /** @param {Message} message */
  send(message) {
    if (this.waiting) this.waiting.push(message);
    else this.socket.send({ ...message, context_id: this.id });
  }

  /** The socket is open. @param {Object<string, unknown>} config */
  begin(config) {
    /** @type {Message[]} */
    const waiting = this.waiting ?? [];
    this.waiting = null;
    const shape = { response_format: 'pcm', frames: 'labelled' };
    for (const message of [{ type: 'session.config', ...shape, ...config }, ...waiting]) this.send(message);
  }

  /** @param {ReturnType<typeof readFrame>} frame */
  hear(frame) {
    // A hole or a repetition would be audible and is a server's bug: say so instead of playing it.
    if (frame.firstSample !== this.samples) {
      this.cancel();
      const message = 'Sound arrived out of order and was stopped.';
      this.handlers.onError?.(new SpeechError({ code: 'generation_failed', message }));
      return;
    }
    this.samples += frame.pcm.length;
    this.handlers.onAudio?.(frame.pcm, frame.firstSample);
  }
}

/**
 * Events: 'state' when `state` changes; 'session' when a server has introduced itself; 'expiring' when it says that it
 * will close a socket that has been open for long, which is then opened anew.
 */
export class SpeechSocket extends EventTarget {
  /**
   * @param {string|URL} url
   * @param {Options} [options]
   * @throws {SpeechError} `websocket_missing`: there is none here, and none was passed
   */
  constructor(url, options = {}) {
    super();
    if (!(options.WebSocket ?? globalThis.WebSocket)) throw withoutWebSocket(); // no attempt could ever succeed
    this.url = new URL(url);
    this.options = options;
    /** @type {WebSocket|null} */
    this.socket = null;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.openTimer = undefined;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.retryTimer = undefined;
    /** @type {ReturnType<typeof setInterval>|undefined} */
    this.pingTimer = undefined;
    /** Stalled: open as far as anybody told us, and nothing comes. @type {State} */
    this.state = 'closed';
    /** Time of the first unanswered ping; 0 if there is none. */
    this.unanswered = 0;
    /** @type {Session|null} */
    this.session = null;
    /** @type {Map<string, Utterance>} */
    this.utterances = new Map();
    /** Those whose cancel was not acknowledged yet. @type {Map<string, Utterance>} */
    this.cancelled = new Map();
    /** @type {SpeechError|null} */
    this.complaint = null;
    this.failures = 0;
    this.count = 0;
  }

  /** Connect, and stay connected. */
  open() {
    if (this.state !== 'closed') return;
    clearTimeout(this.retryTimer);
    this.enter('connecting');
    this.openTimer = setTimeout(() => this.drop(), OPEN_WITHIN_MS);
    this.connect().catch(() => this.onClose());
  }

  async connect() {
    const { key, ticket, WebSocket = globalThis.WebSocket } = this.options;
    const url = new URL(this.url);
    if (ticket) url.searchParams.set('ticket', await ticket());
    if (this.state !== 'connecting') return; // closed while the ticket was fetched
    const socket = new WebSocket(url, key ? [PROTOCOL, KEY_PROTOCOL + key] : [PROTOCOL]);
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) => this.hear(data);
    socket.onclose = () => this.onClose();
    this.socket = socket;
  }

  /** Give up a connection that says nothing, and try another. A dead one would not even be closed. */
  drop() {
    const { socket } = this;
    if (socket) {
      socket.onclose = socket.onmessage = null;
      socket.close();
    }
    this.onClose();
  }

  /** End everything that is in flight, and stay closed; no handler is called after this. */
  close() {
    this.utterances.clear();
    clearTimeout(this.retryTimer);
    if (this.socket) this.socket.onclose = this.socket.onmessage = null;
    this.socket?.close(1000);
    this.end();
  }

  /**
   * Say a text.
   *
   * @param {Object<string, unknown>} config  fields of session.config
   * @param {string|null} text  null: it is written piece by piece
   * @param {Handlers} handlers
   * @returns {Utterance}
   */
  speak(config, text, handlers) {
    const utterance = new Utterance(this, `u${++this.count}`, handlers);
    this.utterances.set(utterance.id, utterance);
    if (text !== null) {
      utterance.write(text);
      utterance.finish();
    }
    const spoken = text === null ? config : { text_filter: 'none', ...config };
    if (this.state === 'open') utterance.begin(spoken); // now, and not after all that the caller does yet
    else
      this.whenOpen().then(
        () => this.utterances.has(utterance.id) && utterance.begin(spoken),
        (error) => this.fail(utterance, error),
      );
    return utterance;
  }

  ping() {
    this.unanswered ||= performance.now();
    this.send({ type: 'ping', t: Date.now() });
  }

  /** Ask whether the connection lives still, and go by it where it did not say so. @param {number} [withinMs] */
  check(withinMs = ANSWER_WITHIN_MS) {
    if (this.state !== 'open' && this.state !== 'stalled') return;
    const silent = this.unanswered ? performance.now() - this.unanswered : 0;
    if (silent >= withinMs) {
      const patience = [...this.utterances.values()].some(({ waiting }) => !waiting) ? STALLED_MS : 0;
      if (this.state === 'open') this.enter('stalled');
      if (silent >= patience) return this.drop();
    }
    this.ping();
  }

  /** Whatever comes shows that the connection lives. @param {ArrayBuffer|string} data */
  hear(data) {
    this.unanswered = 0;
    if (this.state === 'stalled') this.enter('open');
    this.receive(data);
  }

  /** @param {Message} message */
  send(message) {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  /** Resolve when a session is there; reject with what to tell the user if none comes soon. @returns {Promise<void>} */
  whenOpen() {
    if (this.state === 'open') return Promise.resolve();
    this.open();
    return new Promise((resolve, reject) => {
      const settle = () => {
        if (this.state !== 'open') return;
        clearTimeout(timer);
        this.removeEventListener('state', settle);
        resolve();
      };
      const timer = setTimeout(() => {
        this.removeEventListener('state', settle);
        reject(lost());
      }, OPEN_WITHIN_MS);
      this.addEventListener('state', settle);
    });
  }

  /** @param {ArrayBuffer|string} data */
  receive(data) {
    if (data instanceof ArrayBuffer) return this.receiveFrame(data);
    const message = JSON.parse(data);
    const utterance = this.utterances.get(message.context_id);
    switch (message.type) {
      case 'session.created':
        this.session = message;
        this.failures = 0;
        // The first ping goes at once: the server waits ten seconds only for a first message.
        clearTimeout(this.openTimer);
        this.ping();
        this.pingTimer = setInterval(() => this.check(), PING_MS);
        this.enter('open');
        this.dispatchEvent(new CustomEvent('session', { detail: message }));
        break;
      case 'session.expiring':
        this.dispatchEvent(new CustomEvent('expiring', { detail: message }));
        break;
      case 'queue':
        utterance?.handlers.onQueue?.(message.position, message.eta_ms ?? null);
        break;
      case 'audio.start':
        if (!utterance) break;
        utterance.channel = message.channel;
        utterance.handlers.onStart?.(message);
        break;
      case 'audio.done':
        if (!utterance) break;
        this.utterances.delete(utterance.id);
        utterance.handlers.onDone?.(message);
        break;
      case 'context.cancelled':
        this.cancelled.get(message.context_id)?.handlers.onCancelled?.(message);
        this.cancelled.delete(message.context_id);
        break;
      case 'error':
        this.receiveError(utterance, message);
        break;
    }
  }

  /** @param {ArrayBuffer} data */
  receiveFrame(data) {
    const frame = readFrame(data);
    for (const utterance of this.utterances.values()) {
      if (utterance.channel === frame.channel) return utterance.hear(frame);
    }
  }

  /** @param {Utterance|undefined} utterance @param {ConstructorParameters<typeof SpeechError>[0]} message */
  receiveError(utterance, message) {
    const error = new SpeechError(message);
    if (utterance) return this.fail(utterance, error);
    // Bound to no utterance: most often why the socket is about to close.
    this.complaint = error;
  }

  /** @param {Utterance} utterance @param {SpeechError} error */
  fail(utterance, error) {
    if (this.utterances.delete(utterance.id)) utterance.handlers.onError?.(error);
  }

  onClose() {
    this.end();
    clearTimeout(this.retryTimer);
    const wait = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.failures++);
    // Jitter keeps the pages of one host from coming back all at once.
    this.retryTimer = setTimeout(() => this.open(), wait * (0.5 + Math.random()));
  }

  /** The socket is gone. What no socket has heard of yet waits for the next one. */
  end() {
    clearInterval(this.pingTimer);
    clearTimeout(this.openTimer);
    this.unanswered = 0;
    this.socket = null;
    this.enter('closed');
    const why = this.complaint ?? lost();
    for (const utterance of [...this.utterances.values()]) {
      if (!utterance.waiting) this.fail(utterance, why);
    }
    this.cancelled.clear();
    this.session = null;
    this.complaint = null;
  }

  /** @param {State} state */
  enter(state) {
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}
