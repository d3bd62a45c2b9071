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
 *
 * @typedef {Object} RouteOptions
 * @property {string} [key]                       an API key
 * @property {typeof globalThis.fetch} [fetch]    another than the global one
 *
 * @typedef {Object} Pronunciation
 * @property {string} word
 * @property {string} say_as
 * @property {boolean} [case_sensitive]           in no other case than it is written
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

  /** The stored voices; those that hold all the words of `search`. @param {string} [search] @returns {Promise<Fields[]>} */
  async voices(search) {
    return (await this.json('GET', search === undefined ? VOICES : `${VOICES}?${new URLSearchParams({ search })}`)).data;
  }

  /** @param {string} voice */
  voice(voice) {
    return this.json('GET', of(voice));
  }

  /**
   * Keep a voice that `speak` can name.
   *
   * @param {Blob} audio  a recording, in any format that is taken
   * @param {{name: string, consent: string, [field: string]: string}} fields  `consent` is the speaker's; `ref_text` are
   *     the exact words of the recording, which make a better clone
   */
  addVoice(audio, fields) {
    return this.json('POST', VOICES, form('audio_sample', audio, fields));
  }

  /** Check a recording like `addVoice` without storing it. @param {Blob} audio @param {string} [refText] */
  checkVoice(audio, refText) {
    return this.json('POST', `${VOICES}/check`, form('audio_sample', audio, refText === undefined ? {} : { ref_text: refText }));
  }

  /**
   * Change what is named, and leave the rest.
   *
   * @param {string} voice
   * @param {{name?: string, description?: string|null, tags?: string[]}} changes
   */
  editVoice(voice, changes) {
    return this.json('PATCH', of(voice), JSON.stringify(changes), JSON_BODY);
  }

  /** The voice as one portable file, with its recording, words and consent. @param {string} voice */
  async exportVoice(voice) {
    return (await this.ask('GET', `${of(voice)}/file`)).blob();
  }

  /** Keep a voice that was exported. @param {Blob} file @param {Record<string, string>} [fields]  in place of its own */
  importVoice(file, fields = {}) {
    return this.json('POST', VOICES, form('file', file, fields));
  }

  /** Its recording, a WAV file. @param {string} voice */
  async voiceAudio(voice) {
    return (await this.ask('GET', `${of(voice)}/audio`)).blob();
  }

  /** Delete it for good. @param {string} voice */
  async deleteVoice(voice) {
    await this.ask('DELETE', of(voice));
  }

  /** The kept dictionaries, without their words. @returns {Promise<Fields[]>} */
  async pronunciationDictionaries() {
    return (await this.json('GET', PRONUNCIATIONS)).data;
  }

  /** One of them with its words. @param {string} id */
  pronunciationDictionary(id) {
    return this.json('GET', of(id, PRONUNCIATIONS));
  }

  /**
   * Keep a dictionary, whose `id` `speak` can name in `pronunciation_dictionaries`.
   *
   * @param {string} name @param {Pronunciation[]} pronunciations @param {string} [description]
   */
  addPronunciationDictionary(name, pronunciations, description = '') {
    return this.json('POST', PRONUNCIATIONS, JSON.stringify({ name, description, pronunciations }), JSON_BODY);
  }

  /**
   * Change what is named, and leave the rest.
   *
   * @param {string} id
   * @param {{name?: string, description?: string, pronunciations?: Pronunciation[]}} changes  all of its words
   */
  editPronunciationDictionary(id, changes) {
    return this.json('PATCH', of(id, PRONUNCIATIONS), JSON.stringify(changes), JSON_BODY);
  }

  /** Delete it for good. @param {string} id */
  async deletePronunciationDictionary(id) {
    await this.ask('DELETE', of(id, PRONUNCIATIONS));
  }

  /** A word that opens one socket without the key, soon: for a page that must not hold it. @returns {Promise<string>} */
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
    const { fetch } = this; // a browser's may not be called as a method of something else
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
