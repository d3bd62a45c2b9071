/**
 * The speech protocol `voicewright.speech.v1` in the browser: one socket, several utterances (contexts) at once.
 *
 * It keeps the socket open and comes back after a loss, but never resumes: a lost socket ends what was in
 * flight with an error. It knows neither sound nor page.
 *
 * @typedef {Object} Session        what the server said of itself in session.created
 * @property {Object<string, number>} limits
 *
 * @typedef {Object} Handlers
 * @property {(start: Object) => void} [onStart]      audio.start
 * @property {(pcm: Int16Array, firstSample: number) => void} [onAudio]
 * @property {(done: Object) => void} [onDone]        audio.done: metrics, stop_reason, total_samples
 * @property {(error: SpeechError) => void} [onError]
 * @property {(position: number) => void} [onQueue]
 */

const PROTOCOL = 'voicewright.speech.v1';
const HEADER_BYTES = 16;
const PING_MS = 25000; // the server gives an idle socket two minutes
const RETRY_MS = { first: 250, most: 4000 };
const OPEN_WITHIN_MS = 6000;

/** An error with the stable code and the sentence of the server. */
export class SpeechError extends Error {
  /** @param {{code: string, message: string, param?: string|null, retryable?: boolean}} fields */
  constructor({ code, message, param = null, retryable = false }) {
    super(message);
    Object.assign(this, { code, param, retryable });
  }
}

const lost = () =>
  new SpeechError({
    code: 'runtime_unavailable',
    message: 'The connection to the runtime was lost. It is being restored; then speak again.',
    retryable: true,
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
    this.channel = null;
    this.samples = 0;
  }

  /** Stop it; nothing of it is heard from after this call. */
  cancel() {
    if (!this.socket.utterances.delete(this.id)) return;
    this.socket.send({ type: 'context.cancel', context_id: this.id });
  }

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
 * Events: 'state' when `state` changes; 'session' when a server has introduced itself.
 */
export class SpeechSocket extends EventTarget {
  /** @param {string|URL} url */
  constructor(url) {
    super();
    this.url = url;
    /** @type {'closed'|'connecting'|'open'} */
    this.state = 'closed';
    /** @type {Session|null} */
    this.session = null;
    /** @type {Map<string, Utterance>} */
    this.utterances = new Map();
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
    const socket = new WebSocket(this.url, [PROTOCOL]);
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) => this.receive(data);
    socket.onclose = () => this.onClose();
    this.socket = socket;
  }

  /**
   * Say a text.
   *
   * @param {Object} config  fields of session.config
   * @param {string} text
   * @param {Handlers} handlers
   * @returns {Utterance}
   */
  speak(config, text, handlers) {
    const id = `u${++this.count}`;
    const utterance = new Utterance(this, id, handlers);
    this.utterances.set(id, utterance);
    this.whenOpen().then(
      () => this.start(utterance, config, text),
      (error) => this.fail(utterance, error),
    );
    return utterance;
  }

  start(utterance, config, text) {
    if (!this.utterances.has(utterance.id)) return;
    const context_id = utterance.id;
    const shape = { response_format: 'pcm', stream_audio: true, frames: 'labelled' };
    this.send({ type: 'session.config', context_id, ...shape, ...config });
    this.send({ type: 'input.text', context_id, text });
    this.send({ type: 'input.done', context_id });
  }

  ping() {
    this.send({ type: 'ping', t: Date.now() });
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /** Resolve when a session is there; reject with what to tell the user if none comes soon. */
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

  receive(data) {
    if (data instanceof ArrayBuffer) return this.receiveFrame(data);
    const message = JSON.parse(data);
    const utterance = this.utterances.get(message.context_id);
    switch (message.type) {
      case 'session.created':
        this.session = message;
        this.failures = 0;
        // The first ping goes at once: the server waits ten seconds only for a first message.
        this.ping();
        this.pingTimer = setInterval(() => this.ping(), PING_MS);
        this.enter('open');
        this.dispatchEvent(new CustomEvent('session', { detail: message }));
        break;
      case 'queue':
        utterance?.handlers.onQueue?.(message.position);
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
      case 'error':
        this.receiveError(utterance, message);
        break;
    }
  }

  receiveFrame(data) {
    const frame = readFrame(data);
    for (const utterance of this.utterances.values()) {
      if (utterance.channel === frame.channel) return utterance.hear(frame);
    }
  }

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
    clearInterval(this.pingTimer);
    this.enter('closed');
    // Without a session nothing was sent yet: what is there waits for the next socket.
    if (this.session) {
      const why = this.complaint ?? lost();
      for (const utterance of [...this.utterances.values()]) this.fail(utterance, why);
    }
    this.session = null;
    this.complaint = null;
    const wait = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** this.failures++);
    // Jitter keeps the pages of one host from coming back all at once.
    this.retryTimer = setTimeout(() => this.open(), wait * (0.5 + Math.random()));
  }

  enter(state) {
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}
