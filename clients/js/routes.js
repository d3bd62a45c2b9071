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
 *
 * @typedef {Object} RouteOptions
 * @property {string} [key]                       an API key
 * @property {typeof globalThis.fetch} [fetch]    replaces the global fetch
 *
 * @typedef {Object} Pronunciation
 * @property {string} word
 * @property {string} say_as
 * @property {boolean} [case_sensitive]           match only in this case
 *
 * @typedef {Object<string, any>} Fields
 */

import { SpeechError } from './voicewright.js';

const VOICES = '/v1/audio/voices';
const PRONUNCIATIONS = '/v1/audio/pronunciations';
const JSON_BODY = { 'content-type': 'application/json' };
const SOCKET = /(\/v1(\/audio\/speech\/stream)?)?\/*$/;

export class SpeechRoutes {
  /** @param {string|URL} url  http(s) or ws(s), with or without the socket's route @param {RouteOptions} [options] */
  constructor(url, { key, fetch = globalThis.fetch } = {}) {
    const { protocol, host, pathname } = new URL(url);
    this.base = `${protocol.replace('ws', 'http')}//${host}${pathname.replace(SOCKET, '')}`;
    /** @type {Record<string, string>} */
    this.headers = key ? { authorization: `Bearer ${key}` } : {};
    this.fetch = fetch;
  }

  /** Return the served checkpoints with their modes, speakers and languages. @returns {Promise<Fields[]>} */
  async models() {
    return (await this.json('GET', '/v1/models')).data;
  }

  /**
   * Return the stored voices that contain all words of `search`. @param {string} [search] @returns {Promise<Fields[]>}
   */
  async voices(search) {
    return (await this.json('GET', search === undefined ? VOICES : `${VOICES}?${new URLSearchParams({ search })}`)).data;
  }

  /** Return one stored voice. @param {string} voice */
  voice(voice) {
    return this.json('GET', of(voice));
  }

  /**
   * Store a voice, which speech requests can then name.
   *
   * @param {Blob} audio  a recording in any supported format
   * @param {{name: string, consent: string, [field: string]: string}} fields `consent`: the speaker's consent in words;
   * `ref_text`: exact transcript, for a better clone
   */
  addVoice(audio, fields) {
    return this.json('POST', VOICES, form('audio_sample', audio, fields));
  }

  /** Check a recording like `addVoice` without storing it. @param {Blob} audio @param {string} [refText] */
  checkVoice(audio, refText) {
    return this.json('POST', `${VOICES}/check`, form('audio_sample', audio, refText === undefined ? {} : { ref_text: refText }));
  }

  /**
   * Change the given fields.
   *
   * @param {string} voice
   * @param {{name?: string, description?: string|null, tags?: string[]}} changes
   */
  editVoice(voice, changes) {
    return this.json('PATCH', of(voice), JSON.stringify(changes), JSON_BODY);
  }

  /** Return the voice as one portable file, with recording, transcript and consent. @param {string} voice */
  async exportVoice(voice) {
    return (await this.ask('GET', `${of(voice)}/file`)).blob();
  }

  /**
   * Store an exported voice. @param {Blob} file @param {Record<string, string>} [fields] override those of the file
   */
  importVoice(file, fields = {}) {
    return this.json('POST', VOICES, form('file', file, fields));
  }

  /** Return the voice's recording as a WAV file. @param {string} voice */
  async voiceAudio(voice) {
    return (await this.ask('GET', `${of(voice)}/audio`)).blob();
  }

  /** Delete a voice permanently. @param {string} voice */
  async deleteVoice(voice) {
    await this.ask('DELETE', of(voice));
  }

  /** Return the stored dictionaries without their entries. @returns {Promise<Fields[]>} */
  async pronunciationDictionaries() {
    return (await this.json('GET', PRONUNCIATIONS)).data;
  }

  /** Return a dictionary with its entries. @param {string} id */
  pronunciationDictionary(id) {
    return this.json('GET', of(id, PRONUNCIATIONS));
  }

  /**
   * Store a dictionary.
   *
   * Speech requests name its `id` in `pronunciation_dictionaries`.
   *
   * @param {string} name @param {Pronunciation[]} pronunciations @param {string} [description]
   */
  addPronunciationDictionary(name, pronunciations, description = '') {
    return this.json('POST', PRONUNCIATIONS, JSON.stringify({ name, description, pronunciations }), JSON_BODY);
  }

  /**
   * Change the given fields.
   *
   * @param {string} id
   * @param {{name?: string, description?: string, pronunciations?: Pronunciation[]}} changes `pronunciations` replaces
   * all entries
   */
  editPronunciationDictionary(id, changes) {
    return this.json('PATCH', of(id, PRONUNCIATIONS), JSON.stringify(changes), JSON_BODY);
  }

  /** Delete a dictionary permanently. @param {string} id */
  async deletePronunciationDictionary(id) {
    await this.ask('DELETE', of(id, PRONUNCIATIONS));
  }

  /**
   * Return a single-use ticket that opens one socket without the key.
   *
   * It is for pages that must not know the key.
   *
   * @returns {Promise<string>}
   */
  async ticket() {
    return (await this.json('POST', '/v1/session_ticket')).ticket;
  }

  /**
   * @param {string} method @param {string} path @param {BodyInit} [body] @param {Record<string, string>} [headers]
   * @returns {Promise<Fields>}
   */
  async json(method, path, body, headers) {
    return (await this.ask(method, path, body, headers)).json();
  }

  /** @param {string} method @param {string} path @param {BodyInit} [body] @param {Record<string, string>} [headers] */
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
