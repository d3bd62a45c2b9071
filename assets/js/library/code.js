/**
 * Code samples of a take's request for this server, which run unchanged.
 *
 * @typedef {Object} Request
 * @property {'custom_voice'|'voice_design'|'base'} mode
 * @property {Object<string, any>} config
 * @property {string} text
 * @property {number} seed
 * @property {string} [model]      id of the model that spoke
 * @property {string|null} [referenceUrl]  where the reference audio lies, if it was sent with the request
 * @property {boolean} [hasReference]
 */

import { api } from '../common/api.js';
import { all, make, need } from '../common/elements.js';
import { Take } from '../player/take.js';

const FILE = 'take.wav';
const REFERENCE = 'reference.wav';

/** @param {Request} request */
function speechConfig({ mode, config, seed, model }) {
  return { ...(model && { model }), task_type: mode, ...config, seed };
}

/** @param {Request} request */
function body(request) {
  return { input: request.text, ...speechConfig(request), response_format: 'wav', stream: false };
}

/** @param {Object<string, any>} value @param {number} [indent] */
function json(value, indent = 0) {
  return JSON.stringify(value, null, 2).replaceAll('\n', `\n${' '.repeat(indent)}`);
}

/** @param {string} text */
function shellQuoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A JSON value as Python writes it. @param {any} value @param {string} [indent] @returns {string} */
function python(value, indent = '') {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object') return JSON.stringify(value).replaceAll(/[\u2028\u2029]/g, escaped);
  const inner = `${indent}    `;
  const brackets = Array.isArray(value) ? '[]' : '{}';
  const items = Array.isArray(value)
    ? value.map((item) => python(item, inner))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${python(item, inner)}`);
  return `${brackets[0]}\n${items.map((item) => `${inner}${item},\n`).join('')}${indent}${brackets[1]}`;
}

/** @param {string} character */
function escaped(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Return a comment with the source of the reference. @param {Request} request @param {string} mark */
function whence({ referenceUrl }, mark) {
  return referenceUrl ? '' : `${mark} ${REFERENCE}: the recording that is cloned\n`;
}

/** @param {Request} request @param {URL} base */
export function curl(request, base) {
  const url = new URL('v1/audio/speech', base);
  const head = `curl --fail-with-body ${url} -o ${FILE} \\\n  -H 'Content-Type: application/json'`;
  if (!request.hasReference) return `${head} \\\n  -d ${shellQuoted(json(body(request), 2))}\n`;
  const open = JSON.stringify(body(request)).slice(0, -1);
  const fetched = request.referenceUrl ? `curl -sSf ${request.referenceUrl} -o ${REFERENCE}\n` : '';
  return (
    `${whence(request, '#')}${fetched}` +
    `{ printf %s ${shellQuoted(`${open},"ref_audio":"`)}; base64 < ${REFERENCE} | tr -d '\\n'; printf '"}'; } |\n` +
    `${head} --data-binary @-\n`
  );
}

/** @param {Request} request @param {URL} base */
export function pythonCode(request, base) {
  const lines = [
    `${request.hasReference ? 'import base64\n' : ''}import json\nfrom urllib.request import Request, urlopen\n`,
    `body = ${python(body(request))}`,
  ];
  if (request.hasReference) {
    lines.push(
      request.referenceUrl
        ? `with urlopen(${JSON.stringify(request.referenceUrl)}) as recording:`
        : `${whence(request, '#')}with open("${REFERENCE}", "rb") as recording:`,
      '    body["ref_audio"] = base64.b64encode(recording.read()).decode()',
    );
  }
  const url = JSON.stringify(new URL('v1/audio/speech', base));
  lines.push(
    `asked = Request(${url}, json.dumps(body).encode(), {"Content-Type": "application/json"})`,
    `with urlopen(asked) as reply, open("${FILE}", "wb") as file:`,
    '    file.write(reply.read())',
  );
  return `${lines.join('\n')}\n`;
}

/** Read the reference into `reference`, as base64. @param {Request} request */
function referenceInJavaScript(request) {
  /** @param {string} bytes */
  const base64 = (bytes) => `Buffer.from(${bytes}).toString('base64')`;
  return request.referenceUrl
    ? `const recording = await fetch('${request.referenceUrl}');\nconst reference = ${base64('await recording.arrayBuffer()')};\n`
    : `${whence(request, '//')}const reference = ${base64(`await readFile('${REFERENCE}')`)};\n`;
}

/** For Node 20 or later. @param {Request} request @param {URL} base */
export function javaScript(request, base) {
  const files = request.hasReference && !request.referenceUrl ? 'readFile, writeFile' : 'writeFile';
  const reference = request.hasReference ? referenceInJavaScript(request) : '';
  const withReference = request.hasReference ? '{ ...body, ref_audio: reference }' : 'body';
  return `// For Node 20 or later.
import { ${files} } from 'node:fs/promises';

const body = ${json(body(request))};
${reference}const reply = await fetch('${new URL('v1/audio/speech', base)}', {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(${withReference}),
});
if (!reply.ok) throw new Error((await reply.json()).error.message);
await writeFile('${FILE}', Buffer.from(await reply.arrayBuffer()));
`;
}

/** Streamed, for browsers and Node 22 or later. @param {Request} request @param {URL} base */
export function webSocket(request, base) {
  const url = new URL('v1/audio/speech/stream', base);
  url.protocol = url.protocol.replace('http', 'ws');
  const given = request.hasReference ? ', ref_audio: reference' : '';
  const config = json({ type: 'session.config', text_filter: 'none', ...speechConfig(request) });
  const begin = request.hasReference ? `{ ...config${given} }` : 'config';
  return `// For a browser, or Node 22 or later: before that Node has no WebSocket.
${request.hasReference && !request.referenceUrl ? "import { readFile } from 'node:fs/promises';\n\n" : ''}const config = ${config};
const text = ${JSON.stringify(request.text)};
${request.hasReference ? referenceInJavaScript(request) : ''}
const socket = new WebSocket('${url}', ['voicewright.speech.v1']);
socket.binaryType = 'arraybuffer';
socket.onopen = () => {
  for (const message of [${begin}, { type: 'input.text', text }, { type: 'input.done' }]) {
    socket.send(JSON.stringify(message));
  }
};
socket.onmessage = ({ data }) => {
  if (data instanceof ArrayBuffer) {
    const pcm = new Int16Array(data); // Mono PCM at 24 kHz: play or store it.
    console.log(pcm.length, 'samples');
    return;
  }
  const message = JSON.parse(data);
  if (message.type === 'error') console.error(message.code, message.message);
  if (message.type === 'audio.done') console.log(message.stop_reason, message.total_samples);
  if (message.type === 'error' || message.type === 'audio.done') socket.close();
};
`;
}

export const LANGUAGES = { curl, Python: pythonCode, JavaScript: javaScript, WebSocket: webSocket };

// --- Shows a take's request as code, in one language at a time, to be copied.

/** @typedef {keyof typeof LANGUAGES} Language @typedef {import('../player/take.js').TakeRecord} TakeRecord */

const NAMES = /** @type {Language[]} */ (Object.keys(LANGUAGES));

/** Return the data of a new or stored take that code needs. @param {Take|TakeRecord} take @returns {Request} */
function requestOf(take) {
  const { mode, config, text, spoken, seed, id, reference, model } = take;
  const spoke = take instanceof Take ? (take.start?.model ?? take.record?.model?.id ?? model?.id) : model?.id;
  const referenceUrl = reference && id ? String(api.address(`studio/takes/${id}/reference`)) : null;
  return { mode, config, text: spoken ?? text, seed, model: spoke, hasReference: Boolean(reference), referenceUrl };
}

export class CodeDialog {
  /** @param {HTMLDialogElement} dialog @param {import('../app/studio.js').Studio} studio */
  constructor(dialog, studio) {
    this.dialog = dialog;
    this.studio = studio;
    this.panel = need(dialog, '#vw-code-panel');
    this.text = need(dialog, '#vw-code-text');
    /** @type {Language} */
    this.language = 'curl';
    /** @type {Request|null} */
    this.request = null;
    const list = need(dialog, '[role=tablist]');
    list.replaceChildren(...NAMES.map((language) => this.tab(language)));
    list.onkeydown = (event) => this.onKey(event);
    this.tabs = all(list, '[role=tab]');
    need(dialog, '#vw-code-copy').onclick = () => this.copy();
    need(dialog, '#vw-code-close').onclick = () => dialog.close();
  }

  /** @param {Language} language */
  tab(language) {
    const tab = make('button', { type: 'button', role: 'tab', textContent: language });
    tab.id = `vw-code-${language.toLowerCase()}`;
    tab.setAttribute('aria-controls', 'vw-code-panel');
    tab.onclick = () => this.choose(language);
    return tab;
  }

  /** @param {Take|TakeRecord} take a take, or its stored record */
  show(take) {
    this.request = requestOf(take);
    this.choose(this.language);
    this.dialog.showModal();
  }

  /** @param {Language} language */
  choose(language) {
    this.language = language;
    for (const tab of this.tabs) {
      const chosen = tab.textContent === language;
      tab.setAttribute('aria-selected', String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) this.panel.setAttribute('aria-labelledby', tab.id);
    }
    if (this.request) this.text.textContent = LANGUAGES[language](this.request, api.address('.'));
  }

  /** @param {KeyboardEvent} event */
  onKey({ key }) {
    const step = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const at = (NAMES.indexOf(this.language) + step + NAMES.length) % NAMES.length;
    this.choose(NAMES[at]);
    this.tabs[at].focus();
  }

  async copy() {
    const { t } = this.studio;
    try {
      await navigator.clipboard.writeText(this.text.textContent ?? '');
      this.studio.toast(t('shell.code.copied'));
    } catch {
      // No clipboard for pages on plain http: at least everything is marked.
      getSelection()?.selectAllChildren(this.text);
      this.studio.toast(t('shell.code.marked'));
    }
  }
}
