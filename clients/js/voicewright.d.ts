/**
 * Parse a labelled binary message without copying.
 *
 * Header, little endian: u8 version | u8 kind | u16 channel | u32 seq | u64 first_sample.
 *
 * @param {ArrayBuffer} frame
 */
export function readFrame(frame: ArrayBuffer): {
    kind: number;
    channel: number;
    seq: number;
    firstSample: number;
    pcm: Int16Array<ArrayBuffer>;
};
/** Error with the server's stable code and message. */
export class SpeechError extends Error {
    /** @param {ErrorFields} fields */
    constructor({ code, message, param, retryable, facts, retry_after_s, partial_audio }: ErrorFields);
    code: string;
    param: string | null;
    retryable: boolean;
    facts: {
        [x: string]: any;
    };
    /** Seconds after which to retry, if known. */
    retryAfterS: number | null;
    /** True if part of the audio was received. */
    partialAudio: boolean;
}
/**
 * Socket of the speech protocol, with several utterances at once.
 *
 * Events: 'state' when `state` changes; 'session' after session.created; 'expiring' when the server announces that it
 * will close the socket, which is then replaced.
 */
export class SpeechSocket extends EventTarget {
    /**
     * @param {string|URL} url
     * @param {Options} [options]
     * @throws {SpeechError} `websocket_missing`: there is no global WebSocket, and `options` has none
     */
    constructor(url: string | URL, options?: Options);
    url: URL;
    options: Options;
    /** @type {WebSocket|null} */
    socket: WebSocket | null;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    openTimer: ReturnType<typeof setTimeout> | undefined;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    retryTimer: ReturnType<typeof setTimeout> | undefined;
    /** @type {ReturnType<typeof setInterval>|undefined} */
    pingTimer: ReturnType<typeof setInterval> | undefined;
    /** State of the socket, which is `stalled` if no data arrives. @type {State} */
    state: State;
    /** Time of the first unanswered ping, or 0 if there is none. */
    unanswered: number;
    /** @type {Session|null} */
    session: Session | null;
    /** @type {Map<string, Utterance>} */
    utterances: Map<string, Utterance>;
    /** Utterances whose cancel is not confirmed yet. @type {Map<string, Utterance>} */
    cancelled: Map<string, Utterance>;
    /** @type {SpeechError|null} */
    complaint: SpeechError | null;
    failures: number;
    count: number;
    /** Connect, and reconnect after a loss. */
    open(): void;
    connect(): Promise<void>;
    /**
     * Abandon a silent connection and open another.
     *
     * A dead connection would not report that it is closed.
     */
    drop(): void;
    /** End all utterances and stay closed, without further calls of handlers. */
    close(): void;
    /** * Speak a text.
     *
     * @param {Object<string, unknown>} config  fields of session.config
     * @param {string|Dialogue|null} text  null: write it piece by piece
     * @param {Handlers} handlers
     * @returns {Utterance}
     */
    speak(config: {
        [x: string]: unknown;
    }, text: string | Dialogue | null, handlers: Handlers): Utterance;
    ping(): void;
    /** Ping the server, and treat the connection as stalled if no pong arrives in time. @param {number} [withinMs] */
    check(withinMs?: number): void;
    /** Handle a message, which shows that the connection is alive. @param {ArrayBuffer|string} data */
    hear(data: ArrayBuffer | string): void;
    /** @param {Message} message */
    send(message: Message): void;
    /** Resolve when a session is open, or reject with a message after a timeout. @returns {Promise<void>} */
    whenOpen(): Promise<void>;
    /** @param {ArrayBuffer|string} data */
    receive(data: ArrayBuffer | string): void;
    /** @param {ArrayBuffer} data */
    receiveFrame(data: ArrayBuffer): void;
    /** @param {Utterance|undefined} utterance @param {ConstructorParameters<typeof SpeechError>[0]} message */
    receiveError(utterance: Utterance | undefined, message: ConstructorParameters<typeof SpeechError>[0]): void;
    /** @param {Utterance} utterance @param {SpeechError} error */
    fail(utterance: Utterance, error: SpeechError): void;
    onClose(): void;
    /**
     * Handle a closed socket.
     *
     * Utterances that were not sent yet wait for the next socket.
     */
    end(): void;
    /** @param {State} state */
    enter(state: State): void;
}
/**
 * the server's session.created
 */
export type Session = {
    models: {
        [x: string]: any;
    }[];
    limits: {
        [x: string]: number;
    };
};
/**
 * Client of the speech protocol `voicewright.speech.v1`.
 *
 * One socket has several utterances at once, whose audio arrives while it is generated. For browsers and Node, in one
 * file without dependencies or globals.
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
 * Write a text piece by piece to have it spoken while it is still being written:
 *
 *     const utterance = socket.speak({ voice: 'clara' }, null, handlers);
 *     utterance.write('The kettle ');
 *     utterance.write('is on.');
 *     utterance.finish(); // or flush(), to speak the text so far and continue
 *
 * The socket opens with the first utterance and stays open. After a lost connection it reconnects, but running
 * utterances end with the error `runtime_unavailable`. If the server does not respond to a ping within ten seconds, the
 * state becomes `stalled`: an idle socket is replaced at once, and one with running utterances after 30 seconds. Audio
 * is passed on as it arrives, so limit what you store. `utterance.cancel()` stops one utterance, and `socket.close()`
 * ends everything.
 *
 * If the server requires a key, pass `{ key }`. If a page must not know the key, let your server request a single-use
 * ticket (POST /v1/session_ticket) for each connection, and pass `{ ticket: async () => '…' }`.
 *
 * Docs: README.md (examples), docs/api.md (every message, field and error code).
 */
export type Handlers = {
    /**
     * audio.start: seed, model, voice, notes
     */
    onStart?: ((start: {
        [x: string]: any;
    }) => void) | undefined;
    onAudio?: ((pcm: Int16Array, firstSample: number) => void) | undefined;
    /**
     * audio.done: metrics, stop_reason, seed, total_samples
     */
    onDone?: ((done: {
        [x: string]: any;
    }) => void) | undefined;
    onError?: ((error: SpeechError) => void) | undefined;
    /**
     * no slot is free; 0 is next
     */
    onQueue?: ((position: number, etaMs: number | null) => void) | undefined;
    /**
     * the server has confirmed a cancel
     */
    onCancelled?: ((ack: {
        sent_ms: number;
        played_ms: number | null;
    }) => void) | undefined;
};
/**
 * turns in voices of their own, as one audio stream
 */
export type Dialogue = {
    /**
     * a turn without a voice has the one of the config
     */
    inputs: {
        text: string;
        voice?: string;
    }[];
    /**
     * silence between turns
     */
    turn_pause_ms?: number | undefined;
};
/**
 * Client of the speech protocol `voicewright.speech.v1`.
 *
 * One socket has several utterances at once, whose audio arrives while it is generated. For browsers and Node, in one
 * file without dependencies or globals.
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
 * Write a text piece by piece to have it spoken while it is still being written:
 *
 *     const utterance = socket.speak({ voice: 'clara' }, null, handlers);
 *     utterance.write('The kettle ');
 *     utterance.write('is on.');
 *     utterance.finish(); // or flush(), to speak the text so far and continue
 *
 * The socket opens with the first utterance and stays open. After a lost connection it reconnects, but running
 * utterances end with the error `runtime_unavailable`. If the server does not respond to a ping within ten seconds, the
 * state becomes `stalled`: an idle socket is replaced at once, and one with running utterances after 30 seconds. Audio
 * is passed on as it arrives, so limit what you store. `utterance.cancel()` stops one utterance, and `socket.close()`
 * ends everything.
 *
 * If the server requires a key, pass `{ key }`. If a page must not know the key, let your server request a single-use
 * ticket (POST /v1/session_ticket) for each connection, and pass `{ ticket: async () => '…' }`.
 *
 * Docs: README.md (examples), docs/api.md (every message, field and error code).
 */
export type Options = {
    /**
     * an API key
     */
    key?: string | undefined;
    /**
     * returns a ticket; called once for each connection
     */
    ticket?: (() => Promise<string>) | undefined;
    /**
     * replaces the global WebSocket, which Node has from 22 on
     */
    WebSocket?: {
        new (url: string | URL, protocols?: string | string[]): WebSocket;
        prototype: WebSocket;
        readonly CONNECTING: 0;
        readonly OPEN: 1;
        readonly CLOSING: 2;
        readonly CLOSED: 3;
    } | undefined;
};
/**
 * fields of the server's error message
 */
export type ErrorFields = {
    code: string;
    message: string;
    param?: string | null | undefined;
    retryable?: boolean | undefined;
    facts?: {
        [x: string]: any;
    } | undefined;
    retry_after_s?: number | null | undefined;
    partial_audio?: boolean | undefined;
};
/**
 * a message to the server
 */
export type Message = {
    type: string;
    [field: string]: unknown;
};
/**
 * Client of the speech protocol `voicewright.speech.v1`.
 *
 * One socket has several utterances at once, whose audio arrives while it is generated. For browsers and Node, in one
 * file without dependencies or globals.
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
 * Write a text piece by piece to have it spoken while it is still being written:
 *
 *     const utterance = socket.speak({ voice: 'clara' }, null, handlers);
 *     utterance.write('The kettle ');
 *     utterance.write('is on.');
 *     utterance.finish(); // or flush(), to speak the text so far and continue
 *
 * The socket opens with the first utterance and stays open. After a lost connection it reconnects, but running
 * utterances end with the error `runtime_unavailable`. If the server does not respond to a ping within ten seconds, the
 * state becomes `stalled`: an idle socket is replaced at once, and one with running utterances after 30 seconds. Audio
 * is passed on as it arrives, so limit what you store. `utterance.cancel()` stops one utterance, and `socket.close()`
 * ends everything.
 *
 * If the server requires a key, pass `{ key }`. If a page must not know the key, let your server request a single-use
 * ticket (POST /v1/session_ticket) for each connection, and pass `{ ticket: async () => '…' }`.
 *
 * Docs: README.md (examples), docs/api.md (every message, field and error code).
 */
export type State = "closed" | "connecting" | "open" | "stalled";
/** One utterance in flight. */
declare class Utterance {
    /** @param {SpeechSocket} socket @param {string} id @param {Handlers} handlers */
    constructor(socket: SpeechSocket, id: string, handlers: Handlers);
    socket: SpeechSocket;
    id: string;
    handlers: Handlers;
    /** @type {number|null} */
    channel: number | null;
    samples: number;
    finished: boolean;
    /** Messages queued until the socket is open, or null afterwards. @type {Message[]|null} */
    waiting: Message[] | null;
    /** Append text. @param {string} text */
    write(text: string): void;
    /** Speak all text so far, even if the last word or sentence may be incomplete. */
    flush(): void;
    /** Mark the text as complete. */
    finish(): void;
    /**
     * Report the playback position.
     *
     * The server serves listeners with less buffered audio first.
     *
     * @param {number} ms  played audio of the utterance
     * @param {number} [bufferedMs]  received and not played yet
     */
    played(ms: number, bufferedMs?: number): void;
    /** Stop the utterance, after which `onAudio` is not called again. @param {number} [playedMs] */
    cancel(playedMs?: number): void;
    /** Send or queue a message, or ignore it if the utterance has ended. @param {Message} message */
    say(message: Message): void;
    /** @param {Message} message */
    send(message: Message): void;
    /** Send the queued messages once the socket is open. @param {Object<string, unknown>} config */
    begin(config: {
        [x: string]: unknown;
    }): void;
    /** @param {ReturnType<typeof readFrame>} frame */
    hear(frame: ReturnType<typeof readFrame>): void;
}
export {};
