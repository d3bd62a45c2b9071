export class SpeechRoutes {
    /** @param {string|URL} url  http(s) or ws(s), with or without the socket's route @param {RouteOptions} [options] */
    constructor(url: string | URL, { key, fetch }?: RouteOptions);
    base: string;
    /** @type {Record<string, string>} */
    headers: Record<string, string>;
    fetch: typeof fetch;
    /** Return the served checkpoints with their modes, speakers and languages. @returns {Promise<Fields[]>} */
    models(): Promise<Fields[]>;
    /** The stored voices; those that hold all the words of `search`. @param {string} [search] @returns {Promise<Fields[]>} */
    voices(search?: string): Promise<Fields[]>;
    /** @param {string} voice */
    voice(voice: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Keep a voice that `speak` can name.
     *
     * @param {Blob} audio  a recording, in any format that is taken
     * @param {{name: string, consent: string, [field: string]: string}} fields  `consent` is the speaker's; `ref_text` are
     *     the exact words of the recording, which make a better clone
     */
    addVoice(audio: Blob, fields: {
        name: string;
        consent: string;
        [field: string]: string;
    }): Promise<{
        [x: string]: any;
    }>;
    /** Check a recording like `addVoice` without storing it. @param {Blob} audio @param {string} [refText] */
    checkVoice(audio: Blob, refText?: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Change what is named, and leave the rest.
     *
     * @param {string} voice
     * @param {{name?: string, description?: string|null, tags?: string[]}} changes
     */
    editVoice(voice: string, changes: {
        name?: string;
        description?: string | null;
        tags?: string[];
    }): Promise<{
        [x: string]: any;
    }>;
    /** The voice as one portable file, with its recording, words and consent. @param {string} voice */
    exportVoice(voice: string): Promise<Blob>;
    /** Keep a voice that was exported. @param {Blob} file @param {Record<string, string>} [fields]  in place of its own */
    importVoice(file: Blob, fields?: Record<string, string>): Promise<{
        [x: string]: any;
    }>;
    /** Its recording, a WAV file. @param {string} voice */
    voiceAudio(voice: string): Promise<Blob>;
    /** Delete it for good. @param {string} voice */
    deleteVoice(voice: string): Promise<void>;
    /** The kept dictionaries, without their words. @returns {Promise<Fields[]>} */
    pronunciationDictionaries(): Promise<Fields[]>;
    /** One of them with its words. @param {string} id */
    pronunciationDictionary(id: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Keep a dictionary, whose `id` `speak` can name in `pronunciation_dictionaries`.
     *
     * @param {string} name @param {Pronunciation[]} pronunciations @param {string} [description]
     */
    addPronunciationDictionary(name: string, pronunciations: Pronunciation[], description?: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Change what is named, and leave the rest.
     *
     * @param {string} id
     * @param {{name?: string, description?: string, pronunciations?: Pronunciation[]}} changes  all of its words
     */
    editPronunciationDictionary(id: string, changes: {
        name?: string;
        description?: string;
        pronunciations?: Pronunciation[];
    }): Promise<{
        [x: string]: any;
    }>;
    /** Delete it for good. @param {string} id */
    deletePronunciationDictionary(id: string): Promise<void>;
    /** A word that opens one socket without the key, soon: for a page that must not hold it. @returns {Promise<string>} */
    ticket(): Promise<string>;
    /**
     * @param {string} method @param {string} path @param {BodyInit} [body] @param {Record<string, string>} [headers]
     * @returns {Promise<Fields>}
     */
    json(method: string, path: string, body?: BodyInit, headers?: Record<string, string>): Promise<Fields>;
    /** @param {string} method @param {string} path @param {BodyInit} [body] @param {Record<string, string>} [headers] */
    ask(method: string, path: string, body?: BodyInit, headers?: Record<string, string>): Promise<Response>;
}
/**
 * HTTP requests to a runtime, in addition to the socket: its models, stored voices, pronunciation dictionaries, tickets.
 * For browsers and Node.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * Every method rejects with a SpeechError: what the runtime refuses has its code, and `runtime_unavailable` means
 * that nothing answers there. A voice is named by its name or id. What is answered is in docs/api.md (Models, Voices, Keys).
 */
export type RouteOptions = {
    /**
     * an API key
     */
    key?: string | undefined;
    /**
     * another than the global one
     */
    fetch?: typeof fetch | undefined;
};
/**
 * HTTP requests to a runtime, in addition to the socket: its models, stored voices, pronunciation dictionaries, tickets.
 * For browsers and Node.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * Every method rejects with a SpeechError: what the runtime refuses has its code, and `runtime_unavailable` means
 * that nothing answers there. A voice is named by its name or id. What is answered is in docs/api.md (Models, Voices, Keys).
 */
export type Pronunciation = {
    word: string;
    say_as: string;
    /**
     * in no other case than it is written
     */
    case_sensitive?: boolean | undefined;
};
/**
 * HTTP requests to a runtime, in addition to the socket: its models, stored voices, pronunciation dictionaries, tickets.
 * For browsers and Node.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * Every method rejects with a SpeechError: what the runtime refuses has its code, and `runtime_unavailable` means
 * that nothing answers there. A voice is named by its name or id. What is answered is in docs/api.md (Models, Voices, Keys).
 */
export type Fields = {
    [x: string]: any;
};
