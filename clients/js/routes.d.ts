export class SpeechRoutes {
    /**
     * Create a client without sending a request.
     *
     * @param {string|URL} url  http(s) or ws(s) URL of the runtime, or the URL of its WebSocket
     * @param {RouteOptions} [options]
     */
    constructor(url: string | URL, { key, fetch }?: RouteOptions);
    base: string;
    /** @type {Record<string, string>} */
    headers: Record<string, string>;
    fetch: typeof fetch;
    /**
     * Return the checkpoints that the runtime has loaded.
     *
     * Each item has the modes, speakers and languages of a checkpoint.
     *
     * @returns {Promise<Fields[]>}
     */
    models(): Promise<Fields[]>;
    /**
     * Return the stored voices, or only those that match a search.
     *
     * The name, description, tags, language and transcript of a voice are searched.
     *
     * @param {string} [search]  words that a voice must contain
     * @returns {Promise<Fields[]>}
     */
    voices(search?: string): Promise<Fields[]>;
    /**
     * Return the data of a stored voice.
     *
     * @param {string} voice  name or id of the voice
     */
    voice(voice: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Store a recording as a voice that speech requests can use.
     *
     * @param {Blob} audio  recording in any supported format
     * @param {{name: string, consent: string, [field: string]: string}} fields  form fields.
     * `consent` is the consent of the speaker as text. `ref_text` is the exact transcript, which improves the clone.
     */
    addVoice(audio: Blob, fields: {
        name: string;
        consent: string;
        [field: string]: string;
    }): Promise<{
        [x: string]: any;
    }>;
    /**
     * Check the duration and the levels of a recording without storing it.
     *
     * The checks are the same as in `addVoice`. The result includes advice for a better recording.
     *
     * @param {Blob} audio  recording in any supported format
     * @param {string} [refText]  transcript of the recording
     */
    checkVoice(audio: Blob, refText?: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Change the given fields of a stored voice.
     *
     * @param {string} voice name or id of the voice
     * @param {{name?: string, description?: string|null, tags?: string[]}} changes
     */
    editVoice(voice: string, changes: {
        name?: string;
        description?: string | null;
        tags?: string[];
    }): Promise<{
        [x: string]: any;
    }>;
    /**
     * Return a stored voice as one file, with its recording, transcript and consent.
     *
     * @param {string} voice name or id of the voice
     */
    exportVoice(voice: string): Promise<Blob>;
    /**
     * Store a voice from a file that `exportVoice` has returned.
     *
     * @param {Blob} file
     * @param {Record<string, string>} [fields]  fields that replace those of the file
     */
    importVoice(file: Blob, fields?: Record<string, string>): Promise<{
        [x: string]: any;
    }>;
    /** Return the recording of a voice as a WAV file. @param {string} voice */
    voiceAudio(voice: string): Promise<Blob>;
    /** Delete a voice permanently. @param {string} voice */
    deleteVoice(voice: string): Promise<void>;
    /** Return the stored pronunciation dictionaries without their entries. @returns {Promise<Fields[]>} */
    pronunciationDictionaries(): Promise<Fields[]>;
    /** Return a pronunciation dictionary with its entries. @param {string} id */
    pronunciationDictionary(id: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Store a pronunciation dictionary and return it.
     *
     * Speech requests refer to the dictionary by its `id`, in the field `pronunciation_dictionaries`.
     *
     * @param {string} name
     * @param {Pronunciation[]} pronunciations  entries of the dictionary
     * @param {string} [description]
     */
    addPronunciationDictionary(name: string, pronunciations: Pronunciation[], description?: string): Promise<{
        [x: string]: any;
    }>;
    /**
     * Change the given fields of a pronunciation dictionary.
     *
     * @param {string} id
     * @param {{name?: string, description?: string, pronunciations?: Pronunciation[]}} changes `pronunciations` replaces
     * all entries of the dictionary
     */
    editPronunciationDictionary(id: string, changes: {
        name?: string;
        description?: string;
        pronunciations?: Pronunciation[];
    }): Promise<{
        [x: string]: any;
    }>;
    /** Delete a pronunciation dictionary permanently. @param {string} id */
    deletePronunciationDictionary(id: string): Promise<void>;
    /**
     * Return a ticket with which a page can open one WebSocket without the API key.
     *
     * Use tickets for pages that must not have the key.
     *
     * @returns {Promise<string>}
     */
    ticket(): Promise<string>;
    /**
     * Send a request, and return the JSON object of the response.
     *
     * @param {string} method
     * @param {string} path  URL path of the route
     * @param {BodyInit} [body]
     * @param {Record<string, string>} [headers]
     * @returns {Promise<Fields>}
     */
    json(method: string, path: string, body?: BodyInit, headers?: Record<string, string>): Promise<Fields>;
    /**
     * Send a request, and return the response.
     *
     * @param {string} method
     * @param {string} path  URL path of the route
     * @param {BodyInit} [body]
     * @param {Record<string, string>} [headers]
     * @throws {SpeechError} the runtime refuses the request or does not respond
     */
    ask(method: string, path: string, body?: BodyInit, headers?: Record<string, string>): Promise<Response>;
}
/**
 * Client of the runtime's HTTP routes, for browsers and Node.
 *
 * It covers models, stored voices, pronunciation dictionaries and tickets.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * If a request fails, the promise is rejected with a SpeechError. It has the error code of the runtime, or the code
 * `runtime_unavailable` if there is no response. The parameter `voice` of a method is the name or the id of a voice.
 * docs/api.md (Models, Voices, Keys) describes the responses.
 */
export type RouteOptions = {
    /**
     * API key
     */
    key?: string | undefined;
    /**
     * function that replaces the global fetch
     */
    fetch?: typeof fetch | undefined;
};
/**
 * Client of the runtime's HTTP routes, for browsers and Node.
 *
 * It covers models, stored voices, pronunciation dictionaries and tickets.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * If a request fails, the promise is rejected with a SpeechError. It has the error code of the runtime, or the code
 * `runtime_unavailable` if there is no response. The parameter `voice` of a method is the name or the id of a voice.
 * docs/api.md (Models, Voices, Keys) describes the responses.
 */
export type Pronunciation = {
    word: string;
    say_as: string;
    /**
     * true to match only the exact case
     */
    case_sensitive?: boolean | undefined;
};
/**
 * Client of the runtime's HTTP routes, for browsers and Node.
 *
 * It covers models, stored voices, pronunciation dictionaries and tickets.
 *
 *     import { SpeechRoutes } from 'voicewright/routes';
 *
 *     const runtime = new SpeechRoutes('http://localhost:8210');
 *     const voice = await runtime.addVoice(file, { name: 'Wilma', consent: 'Wilma said yes on 3 May.' });
 *
 * If a request fails, the promise is rejected with a SpeechError. It has the error code of the runtime, or the code
 * `runtime_unavailable` if there is no response. The parameter `voice` of a method is the name or the id of a voice.
 * docs/api.md (Models, Voices, Keys) describes the responses.
 */
export type Fields = {
    [x: string]: any;
};
