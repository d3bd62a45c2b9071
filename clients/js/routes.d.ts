export class SpeechRoutes {
    /** @param {string|URL} url  http(s) or ws(s), with or without the socket's route @param {RouteOptions} [options] */
    constructor(url: string | URL, { key, fetch }?: RouteOptions);
    base: string;
    /** @type {Record<string, string>} */
    headers: Record<string, string>;
    fetch: typeof fetch;
    /** Return the served checkpoints with their modes, speakers and languages. @returns {Promise<Fields[]>} */
    models(): Promise<Fields[]>;
    /**
     * Return the stored voices that contain all words of `search`. @param {string} [search] @returns {Promise<Fields[]>}
     */
    voices(search?: string): Promise<Fields[]>;
    /** Return one stored voice. @param {string} voice */
    voice(voice: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Store a voice, which speech requests can then name.
     *
     * @param {Blob} audio  a recording in any supported format
     * @param {{name: string, consent: string, [field: string]: string}} fields `consent`: the speaker's consent in words;
     * `ref_text`: exact transcript, for a better clone
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
     * Change the given fields.
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
    /** Return the voice as one portable file, with recording, transcript and consent. @param {string} voice */
    exportVoice(voice: string): Promise<Blob>;
    /**
     * Store an exported voice. @param {Blob} file @param {Record<string, string>} [fields] override those of the file
     */
    importVoice(file: Blob, fields?: Record<string, string>): Promise<{
        [x: string]: any;
    }>;
    /** Return the voice's recording as a WAV file. @param {string} voice */
    voiceAudio(voice: string): Promise<Blob>;
    /** Delete a voice permanently. @param {string} voice */
    deleteVoice(voice: string): Promise<void>;
    /** Return the stored dictionaries without their entries. @returns {Promise<Fields[]>} */
    pronunciationDictionaries(): Promise<Fields[]>;
    /** Return a dictionary with its entries. @param {string} id */
    pronunciationDictionary(id: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Store a dictionary.
     *
     * Speech requests name its `id` in `pronunciation_dictionaries`.
     *
     * @param {string} name @param {Pronunciation[]} pronunciations @param {string} [description]
     */
    addPronunciationDictionary(name: string, pronunciations: Pronunciation[], description?: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Change the given fields.
     *
     * @param {string} id
     * @param {{name?: string, description?: string, pronunciations?: Pronunciation[]}} changes `pronunciations` replaces
     * all entries
     */
    editPronunciationDictionary(id: string, changes: {
        name?: string;
        description?: string;
        pronunciations?: Pronunciation[];
    }): Promise<{
        [x: string]: any;
    }>;
    /** Delete a dictionary permanently. @param {string} id */
    deletePronunciationDictionary(id: string): Promise<void>;
    /**
     * Return a single-use ticket that opens one socket without the key.
     *
     * It is for pages that must not know the key.
     *
     * @returns {Promise<string>}
     */
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
 * Client of the runtime's HTTP routes, for browsers and Node.
 *
 * The routes are models, stored voices, pronunciation dictionaries and tickets.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * Methods reject with a SpeechError with the runtime's error code, or `runtime_unavailable` if there is no response.
 * `voice` is a name or an id. The responses are described in docs/api.md (Models, Voices, Keys).
 */
export type RouteOptions = {
    /**
     * an API key
     */
    key?: string | undefined;
    /**
     * replaces the global fetch
     */
    fetch?: typeof fetch | undefined;
};
/**
 * Client of the runtime's HTTP routes, for browsers and Node.
 *
 * The routes are models, stored voices, pronunciation dictionaries and tickets.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * Methods reject with a SpeechError with the runtime's error code, or `runtime_unavailable` if there is no response.
 * `voice` is a name or an id. The responses are described in docs/api.md (Models, Voices, Keys).
 */
export type Pronunciation = {
    word: string;
    say_as: string;
    /**
     * match only in this case
     */
    case_sensitive?: boolean | undefined;
};
/**
 * Client of the runtime's HTTP routes, for browsers and Node.
 *
 * The routes are models, stored voices, pronunciation dictionaries and tickets.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * Methods reject with a SpeechError with the runtime's error code, or `runtime_unavailable` if there is no response.
 * `voice` is a name or an id. The responses are described in docs/api.md (Models, Voices, Keys).
 */
export type Fields = {
    [x: string]: any;
};
