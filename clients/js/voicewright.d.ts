/**
 * Parse a binary message of the server, and return its header fields and its audio.
 *
 * The audio (`pcm`) is not copied. The header has these fields in little-endian order: u8 version, u8 kind, u16 channel,
 * u32 seq, u64 first_sample.
 *
 * @param {ArrayBuffer} frame
 * @throws {Error} the message is too short or has an unknown version
 */
export function readFrame(frame: ArrayBuffer): {
    kind: number;
    channel: number;
    seq: number;
    firstSample: number;
    pcm: Int16Array<ArrayBuffer>;
};
/** Error with a stable error code and a message, usually from the server. */
export class SpeechError extends Error {
    /**
     * Create an error from the fields of the server's error message.
     *
     * @param {ErrorFields} fields
     */
    constructor({ code, message, param, retryable, facts, retry_after_s, partial_audio }: ErrorFields);
    code: string;
    param: string | null;
    retryable: boolean;
    facts: {
        [x: string]: any;
    };
    /** Number of seconds after which to retry, or null if unknown. */
    retryAfterS: number | null;
    /** True if some audio was received before the error. */
    partialAudio: boolean;
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
    /** State of the socket, which is `stalled` if the server does not respond. @type {State} */
    state: State;
    /** Time of the first ping without a pong, or 0 if there is none. */
    unanswered: number;
    /** @type {Session|null} */
    session: Session | null;
    /** @type {Map<string, Utterance>} */
    utterances: Map<string, Utterance>;
    /** Utterances whose cancel the server has not confirmed yet. @type {Map<string, Utterance>} */
    cancelled: Map<string, Utterance>;
    /** @type {SpeechError|null} */
    complaint: SpeechError | null;
    failures: number;
    count: number;
    /** Connect to the server, and connect again whenever the connection is lost. */
    open(): void;
    connect(): Promise<void>;
    /**
     * Close a connection that does not respond, and open another connection.
     *
     * The client does not wait for the close event, because it may never come.
     */
    drop(): void;
    /** Close the socket permanently, and end all utterances without calling their handlers. */
    close(): void;
    /**
     * Start an utterance, which generates the speech of a text or a dialogue.
     *
     * @param {Object<string, unknown>} config  fields of the message session.config, such as the voice
     * @param {string|Dialogue|null} text  text or dialogue, or null to send the text piece by piece
     * @param {Handlers} handlers
     * @returns {Utterance}
     */
    speak(config: {
        [x: string]: unknown;
    }, text: string | Dialogue | null, handlers: Handlers): Utterance;
    ping(): void;
    /**
     * Send a ping, and set the state `stalled` if an earlier ping has no response.
     *
     * @param {number} [withinMs]  maximum time for a response in milliseconds
     */
    check(withinMs?: number): void;
    /**
     * Process a message of the server, and end the state `stalled`.
     *
     * @param {ArrayBuffer|string} data  audio (ArrayBuffer) or JSON text
     */
    hear(data: ArrayBuffer | string): void;
    /**
     * Send a message as JSON, or ignore it if the socket is not open.
     *
     * @param {Message} message
     */
    send(message: Message): void;
    /** Return a promise that resolves when a session is open, or rejects after a timeout. @returns {Promise<void>} */
    whenOpen(): Promise<void>;
    /**
     * Process one message of the server.
     *
     * @param {ArrayBuffer|string} data  audio (ArrayBuffer) or JSON text
     */
    receive(data: ArrayBuffer | string): void;
    /**
     * Pass an audio message to its utterance.
     *
     * @param {ArrayBuffer} data
     */
    receiveFrame(data: ArrayBuffer): void;
    /**
     * End the utterance of an error message, or record the error of the session.
     *
     * @param {Utterance|undefined} utterance
     * @param {ConstructorParameters<typeof SpeechError>[0]} message
     */
    receiveError(utterance: Utterance | undefined, message: ConstructorParameters<typeof SpeechError>[0]): void;
    /**
     * End an utterance and call its handler `onError`, unless it has already ended.
     *
     * @param {Utterance} utterance
     * @param {SpeechError} error
     */
    fail(utterance: Utterance, error: SpeechError): void;
    onClose(): void;
    /**
     * Handle a socket that was closed.
     *
     * Utterances whose messages were not sent yet wait for the next socket. All others end with an error.
     */
    end(): void;
    /**
     * Change the state and dispatch the event 'state'.
     *
     * @param {State} state
     */
    enter(state: State): void;
}
/**
 * message session.created of the server
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
 * functions that the client calls for an utterance
 */
export type Handlers = {
    /**
     * receives audio.start: seed, model, voice, notes
     */
    onStart?: ((start: {
        [x: string]: any;
    }) => void) | undefined;
    onAudio?: ((pcm: Int16Array, firstSample: number) => void) | undefined;
    /**
     * receives audio.done: metrics, stop_reason, seed, total_samples
     */
    onDone?: ((done: {
        [x: string]: any;
    }) => void) | undefined;
    onError?: ((error: SpeechError) => void) | undefined;
    /**
     * called while no slot is free. Position 0 gets the next free slot.
     */
    onQueue?: ((position: number, etaMs: number | null) => void) | undefined;
    /**
     * called when the server has confirmed a cancel
     */
    onCancelled?: ((ack: {
        sent_ms: number;
        played_ms: number | null;
    }) => void) | undefined;
};
/**
 * several texts in different voices, as one audio stream
 */
export type Dialogue = {
    /**
     * a text without a voice uses the voice of the config
     */
    inputs: {
        text: string;
        voice?: string;
    }[];
    /**
     * silence between two texts in milliseconds
     */
    turn_pause_ms?: number | undefined;
};
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
 */
export type Options = {
    /**
     * API key
     */
    key?: string | undefined;
    /**
     * returns a ticket, and is called once for each connection
     */
    ticket?: (() => Promise<string>) | undefined;
    /**
     * class that replaces the global WebSocket, which Node has from version 22 on
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
 * message to the server
 */
export type Message = {
    type: string;
    [field: string]: unknown;
};
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
 */
export type State = "closed" | "connecting" | "open" | "stalled";
/** Utterance: the speech of one text or dialogue, while it is generated. */
declare class Utterance {
    /**
     * Create an utterance without sending a message.
     *
     * @param {SpeechSocket} socket
     * @param {string} id  name of the utterance in the messages
     * @param {Handlers} handlers
     */
    constructor(socket: SpeechSocket, id: string, handlers: Handlers);
    socket: SpeechSocket;
    id: string;
    handlers: Handlers;
    /** @type {number|null} */
    channel: number | null;
    samples: number;
    finished: boolean;
    /** Messages that wait until the socket is open, or null once it is open. @type {Message[]|null} */
    waiting: Message[] | null;
    /** Append text to the utterance. @param {string} text */
    write(text: string): void;
    /** Generate speech for all text that was sent, even if the last word may be incomplete. */
    flush(): void;
    /** Mark the text of the utterance as complete. */
    finish(): void;
    /**
     * Report the position of playback to the server.
     *
     * The server generates audio first for utterances with little buffered audio.
     *
     * @param {number} ms  duration of the audio that was played, in milliseconds
     * @param {number} [bufferedMs]  duration of the audio that was received but not played yet, in milliseconds
     */
    played(ms: number, bufferedMs?: number): void;
    /**
     * Cancel the utterance, so that `onAudio` is not called again.
     *
     * @param {number} [playedMs]  duration of the audio that was played, in milliseconds
     */
    cancel(playedMs?: number): void;
    /**
     * Send a message of this utterance, or queue it until the socket is open.
     *
     * The message is ignored if the utterance has ended.
     *
     * @param {Message} message
     */
    say(message: Message): void;
    /**
     * Send a message of this utterance, or queue it until the utterance has begun.
     *
     * @param {Message} message
     */
    send(message: Message): void;
    /**
     * Send the settings of the utterance, and then the queued messages.
     *
     * @param {Object<string, unknown>} config  fields of the message session.config
     */
    begin(config: {
        [x: string]: unknown;
    }): void;
    /**
     * Pass received audio to the handler `onAudio`.
     *
     * @param {ReturnType<typeof readFrame>} frame
     */
    hear(frame: ReturnType<typeof readFrame>): void;
}
export {};
