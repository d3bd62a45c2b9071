/**
 * Take one labelled frame apart without a copy.
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
/** An error with the stable code and the sentence of the server. */
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
    /** Some of the sound was heard. */
    partialAudio: boolean;
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
    /** Stalled: open as far as anybody told us, and nothing comes. @type {State} */
    state: State;
    /** Time of the first unanswered ping; 0 if there is none. */
    unanswered: number;
    /** @type {Session|null} */
    session: Session | null;
    /** @type {Map<string, Utterance>} */
    utterances: Map<string, Utterance>;
    /** Those whose cancel was not acknowledged yet. @type {Map<string, Utterance>} */
    cancelled: Map<string, Utterance>;
    /** @type {SpeechError|null} */
    complaint: SpeechError | null;
    failures: number;
    count: number;
    /** Connect, and stay connected. */
    open(): void;
    connect(): Promise<void>;
    /** Give up a connection that says nothing, and try another. A dead one would not even be closed. */
    drop(): void;
    /** End everything that is in flight, and stay closed; no handler is called after this. */
    close(): void;
    /**
     * Say a text.
     *
     * @param {Object<string, unknown>} config  fields of session.config
     * @param {string|null} text  null: it is written piece by piece
     * @param {Handlers} handlers
     * @returns {Utterance}
     */
    speak(config: {
        [x: string]: unknown;
    }, text: string | null, handlers: Handlers): Utterance;
    ping(): void;
    /** Ask whether the connection lives still, and go by it where it did not say so. @param {number} [withinMs] */
    check(withinMs?: number): void;
    /** Whatever comes shows that the connection lives. @param {ArrayBuffer|string} data */
    hear(data: ArrayBuffer | string): void;
    /** @param {Message} message */
    send(message: Message): void;
    /** Resolve when a session is there; reject with what to tell the user if none comes soon. @returns {Promise<void>} */
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
    /** The socket is gone. What no socket has heard of yet waits for the next one. */
    end(): void;
    /** @param {State} state */
    enter(state: State): void;
}
/**
 * what the server said of itself in session.created
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
     * a cancel has arrived
     */
    onCancelled?: ((ack: {
        sent_ms: number;
        played_ms: number | null;
    }) => void) | undefined;
};
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
 */
export type Options = {
    /**
     * an API key
     */
    key?: string | undefined;
    /**
     * fetches a ticket, once for each connection
     */
    ticket?: (() => Promise<string>) | undefined;
    /**
     * another than the global one, which Node has from 22 on
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
 * as the server says them
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
 * one of the client's
 */
export type Message = {
    type: string;
    [field: string]: unknown;
};
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
    /** Messages queued until the socket is open; null afterwards. @type {Message[]|null} */
    waiting: Message[] | null;
    /** Go on with the text. @param {string} text */
    write(text: string): void;
    /** Have spoken what is there, even where a word or a sentence may go on. */
    flush(): void;
    /** The text is complete. */
    finish(): void;
    /**
     * Report what the listener has heard; who has much left yields to others.
     *
     * @param {number} ms  of its sound, in all
     * @param {number} [bufferedMs]  fetched and not played yet
     */
    played(ms: number, bufferedMs?: number): void;
    /** Stop it; no sound of it is heard from after this call. @param {number} [playedMs] */
    cancel(playedMs?: number): void;
    /** A part of the text; what comes for an utterance that has ended is dropped. @param {Message} message */
    say(message: Message): void;
    /** @param {Message} message */
    send(message: Message): void;
    /** The socket is open. @param {Object<string, unknown>} config */
    begin(config: {
        [x: string]: unknown;
    }): void;
    /** @param {ReturnType<typeof readFrame>} frame */
    hear(frame: ReturnType<typeof readFrame>): void;
}
export {};
