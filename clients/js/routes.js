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
 *
 * @typedef {Object} RouteOptions
 * @property {string} [key]                       API key
 * @property {typeof globalThis.fetch} [fetch]    function that replaces the global fetch
 *
 * @typedef {Object} Pronunciation
 * @property {string} word
 * @property {string} say_as
 * @property {boolean} [case_sensitive]           true to match only the exact case
 *
 * @typedef {Object<string, any>} Fields
 */

import { SpeechError } from './voicewright.js';

const VOICES = '/v1/audio/voices';
const PRONUNCIATIONS = '/v1/audio/pronunciations';
const JSON_BODY = { 'content-type': 'application/json' };
const SOCKET = /(\/v1(\/audio\/speech\/stream)?)?\/*$/;

export class SpeechRoutes {
  /**
   * Create a client without sending a request.
   *
   * @param {string|URL} url  http(s) or ws(s) URL of the runtime, or the URL of its WebSocket
   * @param {RouteOptions} [options]
   */
  constructor(url, { key, fetch = globalThis.fetch } = {}) {
    const { protocol, host, pathname } = new URL(url);
    this.base = `${protocol.replace('ws', 'http')}//${host}${pathname.replace(SOCKET, '')}`;
    /** @type {Record<string, string>} */
    this.headers = key ? { authorization: `Bearer ${key}` } : {};
    this.fetch = fetch;
  }

  /**
   * Return the checkpoints that the runtime has loaded.
   *
   * Each item has the modes, speakers and languages of a checkpoint.
   *
   * @returns {Promise<Fields[]>}
   */
  async models() {
    return (await this.json('GET', '/v1/models')).data;
  }

  /**
   * Return the stored voices, or only those that match a search.
   *
   * The name, description, tags, language and transcript of a voice are searched.
   *
   * @param {string} [search]  words that a voice must contain
   * @returns {Promise<Fields[]>}
   */
  async voices(search) {
    return (await this.json('GET', search === undefined ? VOICES : `${VOICES}?${new URLSearchParams({ search })}`)).data;
  }

  /**
   * Return the data of a stored voice.
   *
   * @param {string} voice  name or id of the voice
   */
  voice(voice) {
    return this.json('GET', of(voice));
  }

  /**
   * Store a recording as a voice that speech requests can use.
   *
   * @param {Blob} audio  recording in any supported format
   * @param {{name: string, consent: string, [field: string]: string}} fields  form fields.
   * `consent` is the consent of the speaker as text. `ref_text` is the exact transcript, which improves the clone.
   */
  addVoice(audio, fields) {
    return this.json('POST', VOICES, form('audio_sample', audio, fields));
  }

  /**
   * Check the duration and the levels of a recording without storing it.
   *
   * The checks are the same as in `addVoice`. The result includes advice for a better recording.
   *
   * @param {Blob} audio  recording in any supported format
   * @param {string} [refText]  transcript of the recording
   */
  checkVoice(audio, refText) {
    return this.json('POST', `${VOICES}/check`, form('audio_sample', audio, refText === undefined ? {} : { ref_text: refText }));
  }

  /**
   * Change the given fields of a stored voice.
   *
   * @param {string} voice name or id of the voice
   * @param {{name?: string, description?: string|null, tags?: string[]}} changes
   */
  editVoice(voice, changes) {
    return this.json('PATCH', of(voice), JSON.stringify(changes), JSON_BODY);
  }

  /**
   * Return a stored voice as one file, with its recording, transcript and consent.
   *
   * @param {string} voice name or id of the voice
   */
  async exportVoice(voice) {
    return (await this.ask('GET', `${of(voice)}/file`)).blob();
  }

  /**
   * Store a voice from a file that `exportVoice` has returned.
   *
   * @param {Blob} file
   * @param {Record<string, string>} [fields]  fields that replace those of the file
   */
  importVoice(file, fields = {}) {
    return this.json('POST', VOICES, form('file', file, fields));
  }

  /** Return the recording of a voice as a WAV file. @param {string} voice */
  async voiceAudio(voice) {
    return (await this.ask('GET', `${of(voice)}/audio`)).blob();
  }

  /** Delete a voice permanently. @param {string} voice */
  async deleteVoice(voice) {
    await this.ask('DELETE', of(voice));
  }

  /** Return the stored pronunciation dictionaries without their entries. @returns {Promise<Fields[]>} */
  async pronunciationDictionaries() {
    return (await this.json('GET', PRONUNCIATIONS)).data;
  }

  /** Return a pronunciation dictionary with its entries. @param {string} id */
  pronunciationDictionary(id) {
    return this.json('GET', of(id, PRONUNCIATIONS));
  }

  /**
   * Store a pronunciation dictionary and return it.
   *
   * Speech requests refer to the dictionary by its `id`, in the field `pronunciation_dictionaries`.
   *
   * @param {string} name
   * @param {Pronunciation[]} pronunciations  entries of the dictionary
   * @param {string} [description]
   */
  addPronunciationDictionary(name, pronunciations, description = '') {
    return this.json('POST', PRONUNCIATIONS, JSON.stringify({ name, description, pronunciations }), JSON_BODY);
  }

  /**
   * Change the given fields of a pronunciation dictionary.
   *
   * @param {string} id
   * @param {{name?: string, description?: string, pronunciations?: Pronunciation[]}} changes `pronunciations` replaces
   * all entries of the dictionary
   */
  editPronunciationDictionary(id, changes) {
    return this.json('PATCH', of(id, PRONUNCIATIONS), JSON.stringify(changes), JSON_BODY);
  }

  /** Delete a pronunciation dictionary permanently. @param {string} id */
  async deletePronunciationDictionary(id) {
    await this.ask('DELETE', of(id, PRONUNCIATIONS));
  }

  /**
   * Return a ticket with which a page can open one WebSocket without the API key.
   *
   * Use tickets for pages that must not have the key.
   *
   * @returns {Promise<string>}
   */
  async ticket() {
    return (await this.json('POST', '/v1/session_ticket')).ticket;
  }

  /**
   * Send a request, and return the JSON object of the response.
   *
   * @param {string} method
   * @param {string} path  URL path of the route
   * @param {BodyInit} [body]
   * @param {Record<string, string>} [headers]
   * @returns {Promise<Fields>}
   */
  async json(method, path, body, headers) {
    return (await this.ask(method, path, body, headers)).json();
  }

  /**
   * Send a request, and return the response.
   *
   * @param {string} method
   * @param {string} path  URL path of the route
   * @param {BodyInit} [body]
   * @param {Record<string, string>} [headers]
   * @throws {SpeechError} the runtime refuses the request or does not respond
   */
  async ask(method, path, body, headers = {}) {
    const { fetch } = this; // Browsers refuse to call fetch as a method of another object.
    const answer = await fetch(this.base + path, { method, body, headers: { ...this.headers, ...headers } }).catch(() => {
      throw new SpeechError({ code: 'runtime_unavailable', message: 'The runtime does not answer.', retryable: true });
    });
    if (!answer.ok) throw new SpeechError(await refused(answer));
    return answer;
  }
}

/** @param {string} name @param {string} [route] */
const of = (name, route = VOICES) => `${route}/${encodeURIComponent(name)}`;

/** @param {string} name @param {Blob} file @param {Record<string, string>} fields */
function form(name, file, fields) {
  const form = new FormData();
  for (const [field, value] of Object.entries(fields)) form.append(field, value);
  form.append(name, file, name);
  return form;
}

/** @param {Response} answer @returns {Promise<import('./voicewright.js').ErrorFields>} */
async function refused(answer) {
  const { error } = await answer.json().catch(() => ({}));
  if (error?.code) return error;
  return { code: 'unknown_route', message: `The address answers with HTTP status ${answer.status}, and not as a runtime does.` };
}
