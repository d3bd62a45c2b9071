/**
 * JSON requests to the studio and the runtime, and the errors of these requests.
 *
 * The studio is the server of the page, and the runtime is the server that generates speech.
 */

import { errorSentence } from './server_messages.js';

// --- Errors with the fields that the studio, the runtime or a form adds.

/**
 * @typedef {Error & {code?: string, param?: string|null, field?: string, status?: number, missing?: boolean, retryable?: boolean, unreachable?: boolean}} AppError
 *   StudioError, SpeechError of the client, or FieldError (fields.js)
 */

/**
 * Return a caught value as an Error.
 *
 * Code may throw values of any type.
 *
 * @param {unknown} error @returns {AppError}
 */
export function errorOf(error) {
  return error instanceof Error ? error : new Error(String(error));
}

// --- JSON requests. Every failure is thrown as a StudioError with one sentence.

/** Error of a request that failed or was refused, with a stable code. */
export class StudioError extends Error {
  /**
   * Create the error from the fields of a response.
   *
   * `status` is 0 if there was no response.
   *
   * @param {{code: string, message: string, param?: string|null, status?: number}} fields
   */
  constructor({ code, message, param = null, status = 0 }) {
    super(message);
    this.code = code;
    this.param = param;
    this.status = status;
  }

  /** True if the server has no such route. */
  get missing() {
    return this.code === 'http_404' || this.code === 'http_405';
  }

  /** True if there was no response. */
  get unreachable() {
    return this.code === 'studio_unreachable';
  }
}

/**
 * Return the absolute URL of a path that is relative to the page.
 *
 * @param {string} path relative path, such as 'studio/takes'
 */
export function address(path) {
  return new URL(path, document.baseURI);
}

/** Return the StudioError for a response with an error status. @param {Response} response */
async function refusal(response) {
  /** @type {Object<string, any>} */
  let fields = {};
  try {
    fields = (await response.json()).error ?? {};
  } catch {
    // A proxy may have sent this error, so only its status is used.
  }
  return new StudioError({
    code: fields.code ?? `http_${response.status}`,
    message: errorSentence({ code: 'http', facts: { status: response.status }, message: '', ...fields }),
    param: fields.param,
    status: response.status,
  });
}

/** Pattern of the paths that change the lists of voices, takes and pronunciations. */
const LISTS = /^(studio\/(takes|voices|pronunciation)|v1\/audio\/voices(?!\/check))/;

/**
 * Send a request and return its response, or throw a StudioError.
 *
 * @param {string} path @param {RequestInit} [options] @returns {Promise<Response>}
 */
async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(address(path), { cache: 'no-store', ...options });
  } catch {
    const code = 'studio_unreachable';
    throw new StudioError({ code, message: errorSentence({ code, message: 'The studio does not answer.' }) });
  }
  if (!response.ok) throw await refusal(response);
  if (options.method && options.method !== 'GET' && LISTS.test(path)) api.onChange();
  return response;
}

/**
 * Send a request with a JSON body, and return the JSON of the response.
 *
 * @param {string} method @param {string} path @param {Object<string, any>} [json]
 */
async function send(method, path, json) {
  const body = json === undefined ? undefined : JSON.stringify(json);
  /** @type {Record<string, string>} */
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await request(path, { method, headers, body });
  return response.status === 204 ? null : response.json();
}

export const api = {
  /** Callback after each request that has changed one of the `LISTS`. */
  onChange: () => {},
  /** Send a request and return the response, or throw a StudioError. */
  request,
  /** @param {string} path */
  get: (path) => send('GET', path),
  /** @param {string} path @param {Object<string, any>} [json] */
  post: (path, json = {}) => send('POST', path, json),
  /** @param {string} path @param {Object<string, any>} json */
  patch: (path, json) => send('PATCH', path, json),
  /** @param {string} path @param {Object<string, any>} json */
  put: (path, json) => send('PUT', path, json),
  /** @param {string} path */
  delete: (path) => send('DELETE', path),
  /** @param {string} path @param {FormData} data @param {string} [method] */
  form: async (path, data, method = 'POST') => (await request(path, { method, body: data })).json(),
  /** @param {string} key key of the host, or '' @param {string} path @param {RequestInit} [options] */
  asHost: async (key, path, options) => (await request(path, { ...options, headers: key ? [['x-host-key', key]] : [] })).json(),
  /** @param {string} path @param {RequestInit} [options] @returns {Promise<Blob>} */
  blob: async (path, options) => (await request(path, options)).blob(),
  address,
};
