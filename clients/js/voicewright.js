/**
 * Client of the speech protocol `voicewright.speech.v1`.
 *
 * One WebSocket carries several utterances at the same time, and their audio arrives while it is generated. The client
 * runs in browsers and in Node, and is one file without dependencies or globals.
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
 * To have a text spoken while it is still being written, send the text piece by piece:
 *
 *     const utterance = socket.speak({ voice: 'clara' }, null, handlers);
 *     utterance.write('The kettle ');
 *     utterance.write('is on.');
 *     utterance.finish(); // or flush(), to speak the text so far and continue
 *
 * The socket opens with the first utterance and stays open. After a lost connection the client reconnects, but running
 * utterances end with the error `runtime_unavailable`. If the server does not respond to a ping within ten seconds, the
 * state becomes `stalled`: a socket without utterances is replaced immediately, and a socket with running utterances
 * after 30 seconds. Audio is passed on as it arrives, so limit the amount that you store. `utterance.cancel()` stops one
 * utterance, and `socket.close()` ends all of them.
 *
 * If the server requires a key, pass `{ key }`. If a page must not know the key, let your server request a single-use
 * ticket (POST /v1/session_ticket) for each connection, and pass `{ ticket: async () => '…' }`.
 *
 * Documentation: README.md (examples), docs/api.md (every message, field and error code).
 *
 * @typedef {Object} Session        message session.created of the server
 * @property {Object<string, any>[]} models
 * @property {Object<string, number>} limits
 *
 * @typedef {Object} Handlers       functions that the client calls for an utterance
 * @property {(start: Object<string, any>) => void} [onStart]      receives audio.start: seed, model, voice, notes
 * @property {(pcm: Int16Array, firstSample: number) => void} [onAudio]
 * @property {(done: Object<string, any>) => void} [onDone]        receives audio.done: metrics, stop_reason, seed, total_samples
 * @property {(error: SpeechError) => void} [onError]
 * @property {(position: number, etaMs: number|null) => void} [onQueue]  called while no slot is free. Position 0 gets the next free slot.
 * @property {(ack: {sent_ms: number, played_ms: number|null}) => void} [onCancelled]  called when the server has confirmed a cancel
 *
 * @typedef {Object} Dialogue       several texts in different voices, as one audio stream
 * @property {{text: string, voice?: string}[]} inputs  a text without a voice uses the voice of the config
 * @property {number} [turn_pause_ms]                   silence between two texts in milliseconds
 *
 * @typedef {Object} Options
 * @property {string} [key]                           API key
 * @property {() => Promise<string>} [ticket]         returns a ticket, and is called once for each connection
 * @property {typeof globalThis.WebSocket} [WebSocket]  class that replaces the global WebSocket, which Node has from version 22 on
 *
 * @typedef {Object} ErrorFields    fields of the server's error message
 * @property {string} code
 * @property {string} message
 * @property {string|null} [param]
 * @property {boolean} [retryable]
 * @property {Object<string, any>} [facts]
 * @property {number|null} [retry_after_s]
 * @property {boolean} [partial_audio]
 *
 * @typedef {{type: string, [field: string]: unknown}} Message  message to the server
 * @typedef {'closed'|'connecting'|'open'|'stalled'} State
 */

const PROTOCOL = 'voicewright.speech.v1';
// Prefix of the subprotocol with the key. In a browser, a WebSocket can send a key only as a subprotocol.
const KEY_PROTOCOL = 'voicewright.token.';
const HEADER_BYTES = 16;
const PING_MS = 5000;
// Time limit for a pong in milliseconds. With it, a stalled connection is detected within ten seconds.
const ANSWER_WITHIN_MS = 4500;
const STALLED_MS = 30000; // Maximum duration in milliseconds of a stall after which utterances can continue.
const RETRY_MS = { first: 250, most: 4000 };
const OPEN_WITHIN_MS = 6000;

/** Error with a stable error code and a message, usually from the server. */
export class SpeechError extends Error {
  /**
   * Create an error from the fields of the server's error message.
   *
   * @param {ErrorFields} fields
   */
  constructor({ code, message, param = null, retryable = false, facts = {}, retry_after_s = null, partial_audio = false }) {
    super(message);
    this.code = code;
    this.param = param;
    this.retryable = retryable;
    this.facts = facts;
    /** Number of seconds after which to retry, or null if unknown. */
    this.retryAfterS = retry_after_s;
    /** True if some audio was received before the error. */
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
 * Parse a binary message of the server, and return its header fields and its audio.
 *
 * The audio (`pcm`) is not copied. The header has these fields in little-endian order: u8 version, u8 kind, u16 channel,
 * u32 seq, u64 first_sample.
 *
 * @param {ArrayBuffer} frame
 * @throws {Error} the message is too short or has an unknown version
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

/** Utterance: the speech of one text or dialogue, while it is generated. */
class Utterance {
  /**
   * Create an utterance without sending a message.
   *
   * @param {SpeechSocket} socket
   * @param {string} id  name of the utterance in the messages
   * @param {Handlers} handlers
   */
  constructor(socket, id, handlers) {
    this.socket = socket;
    this.id = id;
    this.handlers = handlers;
    /** @type {number|null} */
    this.channel = null;
    this.samples = 0;
    this.finished = false;
    /** Messages that wait until the socket is open, or null once it is open. @type {Message[]|null} */
    this.waiting = [];
  }

  /** Append text to the utterance. @param {string} text */
  write(text) {
    this.say({ type: 'input.text', text });
  }

  /** Generate speech for all text that was sent, even if the last word may be incomplete. */
  flush() {
    this.say({ type: 'input.flush' });
  }

  /** Mark the text of the utterance as complete. */
  finish() {
    this.say({ type: 'input.done' });
    this.finished = true;
  }

  /**
   * Report the position of playback to the server.
   *
   * The server generates audio first for utterances with little buffered audio.
   *
   * @param {number} ms  duration of the audio that was played, in milliseconds
   * @param {number} [bufferedMs]  duration of the audio that was received but not played yet, in milliseconds
   */
  played(ms, bufferedMs) {
    this.send({ type: 'playback', played_ms: ms, buffered_ms: bufferedMs });
  }

  /**
   * Cancel the utterance, so that `onAudio` is not called again.
   *
   * @param {number} [playedMs]  duration of the audio that was played, in milliseconds
   */
  cancel(playedMs) {
    if (!this.socket.utterances.delete(this.id)) return;
    if (this.waiting) {
      // Nothing was sent to the server, so the server cannot confirm the cancel.
      queueMicrotask(() => this.handlers.onCancelled?.({ sent_ms: 0, played_ms: playedMs ?? null }));
      return;
    }
    this.socket.cancelled.set(this.id, this);
    this.send({ type: 'context.cancel', played_ms: playedMs });
  }

  /**
   * Send a message of this utterance, or queue it until the socket is open.
   *
   * The message is ignored if the utterance has ended.
   *
   * @param {Message} message
   */
  say(message) {
    if (this.finished) throw new Error('the text of this utterance is finished');
    if (this.socket.utterances.has(this.id)) this.send(message);
  }

  /**
   * Send a message of this utterance, or queue it until the utterance has begun.
   *
   * @param {Message} message
   */
  send(message) {
    if (this.waiting) this.waiting.push(message);
    else this.socket.send({ ...message, context_id: this.id });
  }

  /**
   * Send the settings of the utterance, and then the queued messages.
   *
   * @param {Object<string, unknown>} config  fields of the message session.config
   */
  begin(config) {
    /** @type {Message[]} */
    const waiting = this.waiting ?? [];
    this.waiting = null;
    const shape = { response_format: 'pcm', frames: 'labelled' };
    for (const message of [{ type: 'session.config', ...shape, ...config }, ...waiting]) this.send(message);
  }

  /**
   * Pass received audio to the handler `onAudio`.
   *
   * @param {ReturnType<typeof readFrame>} frame
   */
  hear(frame) {
    // A gap or a repetition is a server error and would be audible, so report it instead of playing the audio.
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
 * WebSocket of the speech protocol, on which several utterances can run at the same time.
 *
 * The event 'state' is dispatched when `state` changes, and 'session' when the server has opened a session. The event
 * 'expiring' means that the server will close the socket soon. The client then opens another socket.
 */
export class SpeechSocket extends EventTarget {
  /**
   * Create a client without opening a connection.
   *
   * @param {string|URL} url  WebSocket URL of the server
   * @param {Options} [options]
   * @throws {SpeechError} `websocket_missing` if there is no global WebSocket and `options` has none
   */
  constructor(url, options = {}) {
    super();
    if (!(options.WebSocket ?? globalThis.WebSocket)) throw withoutWebSocket(); // Without a WebSocket class, no connection can succeed.
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
    /** State of the socket, which is `stalled` if the server does not respond. @type {State} */
    this.state = 'closed';
    /** Time of the first ping without a pong, or 0 if there is none. */
    this.unanswered = 0;
    /** @type {Session|null} */
    this.session = null;
    /** @type {Map<string, Utterance>} */
    this.utterances = new Map();
    /** Utterances whose cancel the server has not confirmed yet. @type {Map<string, Utterance>} */
    this.cancelled = new Map();
    /** @type {SpeechError|null} */
    this.complaint = null;
    this.failures = 0;
    this.count = 0;
  }

  /** Connect to the server, and connect again whenever the connection is lost. */
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
    if (this.state !== 'connecting') return; // The socket was closed during the request for the ticket.
    const socket = new WebSocket(url, key ? [PROTOCOL, KEY_PROTOCOL + key] : [PROTOCOL]);
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) => this.hear(data);
    socket.onclose = () => this.onClose();
    this.socket = socket;
  }

  /**
   * Close a connection that does not respond, and open another connection.
   *
   * The client does not wait for the close event, because it may never come.
   */
  drop() {
    const { socket } = this;
    if (socket) {
      socket.onclose = socket.onmessage = null;
      socket.close();
    }
    this.onClose();
  }

  /** Close the socket permanently, and end all utterances without calling their handlers. */
  close() {
    this.utterances.clear();
    clearTimeout(this.retryTimer);
    if (this.socket) this.socket.onclose = this.socket.onmessage = null;
    this.socket?.close(1000);
    this.end();
  }

  /**
   * Start an utterance, which generates the speech of a text or a dialogue.
   *
   * @param {Object<string, unknown>} config  fields of the message session.config, such as the voice
   * @param {string|Dialogue|null} text  text or dialogue, or null to send the text piece by piece
   * @param {Handlers} handlers
   * @returns {Utterance}
   */
  speak(config, text, handlers) {
    const utterance = new Utterance(this, `u${++this.count}`, handlers);
    this.utterances.set(utterance.id, utterance);
    if (typeof text === 'string') {
      utterance.write(text);
      utterance.finish();
    } else if (text) {
      utterance.say({ type: 'input.dialogue', ...text });
      utterance.finished = true;
    }
    const spoken = text === null ? config : { text_filter: 'none', ...config };
    if (this.state === 'open') utterance.begin(spoken); // The text is sent now, before the caller continues.
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

  /**
   * Send a ping, and set the state `stalled` if an earlier ping has no response.
   *
   * @param {number} [withinMs]  maximum time for a response in milliseconds
   */
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

  /**
   * Process a message of the server, and end the state `stalled`.
   *
   * @param {ArrayBuffer|string} data  audio (ArrayBuffer) or JSON text
   */
  hear(data) {
    this.unanswered = 0;
    if (this.state === 'stalled') this.enter('open');
    this.receive(data);
  }

  /**
   * Send a message as JSON, or ignore it if the socket is not open.
   *
   * @param {Message} message
   */
  send(message) {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  /** Return a promise that resolves when a session is open, or rejects after a timeout. @returns {Promise<void>} */
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

  /**
   * Process one message of the server.
   *
   * @param {ArrayBuffer|string} data  audio (ArrayBuffer) or JSON text
   */
  receive(data) {
    if (data instanceof ArrayBuffer) return this.receiveFrame(data);
    const message = JSON.parse(data);
    const utterance = this.utterances.get(message.context_id);
    switch (message.type) {
      case 'session.created':
        this.session = message;
        this.failures = 0;
        // The ping is sent immediately, because the server expects the first message within ten seconds.
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

  /**
   * Pass an audio message to its utterance.
   *
   * @param {ArrayBuffer} data
   */
  receiveFrame(data) {
    const frame = readFrame(data);
    for (const utterance of this.utterances.values()) {
      if (utterance.channel === frame.channel) return utterance.hear(frame);
    }
  }

  /**
   * End the utterance of an error message, or record the error of the session.
   *
   * @param {Utterance|undefined} utterance
   * @param {ConstructorParameters<typeof SpeechError>[0]} message
   */
  receiveError(utterance, message) {
    const error = new SpeechError(message);
    if (utterance) return this.fail(utterance, error);
    // An error without an utterance usually has the reason why the server closes the socket.
    this.complaint = error;
  }

  /**
   * End an utterance and call its handler `onError`, unless it has already ended.
   *
   * @param {Utterance} utterance
   * @param {SpeechError} error
   */
  fail(utterance, error) {
    if (this.utterances.delete(utterance.id)) utterance.handlers.onError?.(error);
  }

  onClose() {
    this.end();
    clearTimeout(this.retryTimer);
    const wait = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.failures++);
    // Random delays prevent all pages from reconnecting at the same time.
    this.retryTimer = setTimeout(() => this.open(), wait * (0.5 + Math.random()));
  }

  /**
   * Handle a socket that was closed.
   *
   * Utterances whose messages were not sent yet wait for the next socket. All others end with an error.
   */
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

  /**
   * Change the state and dispatch the event 'state'.
   *
   * @param {State} state
   */
  enter(state) {
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}
