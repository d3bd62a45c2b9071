/**
 * Code samples that repeat a speech request on this server.
 *
 * @typedef {Object} Request
 * @property {'custom_voice'|'voice_design'|'base'} mode
 * @property {Object<string, any>} config
 * @property {string} text
 * @property {number} [seed]     undefined for a random seed
 * @property {string} [model]      id of the model that generated the take
 * @property {string|null} [referenceUrl]  URL of the reference audio that was sent with the request
 * @property {boolean} [hasReference]
 */

import { api } from '../common/api.js';
import { getElements, createElement, getElement } from '../common/elements.js';
import { tagOf } from '../common/fields.js';
import { configFor } from '../common/text.js';
import { Take } from '../player/take.js';

const REFERENCE = 'reference.wav';
const PYTHON_FILE = 'with wave.open("take.wav", "wb") as file:\n    file.setparams((1, 2, 24000, 0, "NONE", ""))\n';
// Fields that are named arguments of OpenAI's SDK.
const OPENAI_FIELDS = new Set(['model', 'voice', 'instructions']);

/** Return the fields of a speech request without its text. @param {Request} request */
function speechConfig({ mode, config, seed, model }) {
  return { ...(model && { model }), task_type: mode, ...config, seed };
}

/** Return a value as indented JSON. @param {Object<string, any>} value */
function json(value) {
  return JSON.stringify(value, null, 2);
}

/** Return a text in single quotes for a POSIX shell. @param {string} text */
function shellQuoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Convert a JSON value to Python source code. @param {any} value @param {string} [indent] @returns {string} */
function python(value, indent = '') {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object') return JSON.stringify(value).replaceAll(/[\u2028\u2029]/g, escaped);
  const inner = `${indent}    `;
  const items = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{\n${items.map(([key, item]) => `${inner}${JSON.stringify(key)}: ${python(item, inner)},\n`).join('')}${indent}}`;
}

/**
 * Return the keyword arguments of a Python call as source code, one per line.
 *
 * @param {Object<string, any>} values
 * @param {string} indent
 */
function keywords(values, indent) {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${indent}${name}=${python(value, indent)},\n`)
    .join('');
}

/** Return a character as a Unicode escape of JSON and Python. @param {string} character */
function escaped(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * Return a comment that says which file to use as reference audio.
 *
 * @param {Request} request @param {string} mark comment mark of the language
 */
function referenceComment({ referenceUrl }, mark) {
  return referenceUrl ? '' : `${mark} ${REFERENCE}: the recording that is cloned\n`;
}

/**
 * Return a curl command that plays the audio while it is generated, and saves it.
 *
 * It has no comments, because zsh does not accept them on its command line. `base` is the URL of the server.
 *
 * @param {Request} request @param {URL} base
 */
export function curl(request, base) {
  const body = { input: request.text, ...speechConfig(request), response_format: 'mp3' };
  const head = `curl --fail-with-body -sSN ${new URL('v1/audio/speech', base)} \\\n  -H 'Content-Type: application/json' \\\n  `;
  const play = ' |\n  tee take.mp3 | ffplay -nodisp -autoexit -loglevel error -\n';
  if (!request.hasReference) return `${head}-d ${shellQuoted(json(body))}${play}`;
  const open = JSON.stringify(body).slice(0, -1);
  const fetched = request.referenceUrl ? `curl -sSf ${request.referenceUrl} -o ${REFERENCE}\n` : '';
  return (
    `${fetched}{ printf %s ${shellQuoted(`${open},"ref_audio":"`)}; base64 < ${REFERENCE} | tr -d '\\n'; printf '"}'; } |\n` +
    `${head}--data-binary @-${play}`
  );
}

/** Return Python code that reads the reference audio and encodes it as base64. @param {Request} request */
function referenceInPython(request) {
  if (!request.hasReference) return '';
  const opened = request.referenceUrl ? `urlopen(${JSON.stringify(request.referenceUrl)})` : `open("${REFERENCE}", "rb")`;
  return `${referenceComment(request, '#')}with ${opened} as recording:\n    reference = base64.b64encode(recording.read()).decode()\n\n`;
}

/** Return the import statements for a Python code sample. @param {Request} request @param {string[]} modules */
function imports({ hasReference, referenceUrl }, modules) {
  const all = [...modules, ...(hasReference ? ['base64'] : [])].sort().map((name) => `import ${name}\n`);
  return `${all.join('')}${referenceUrl ? 'from urllib.request import urlopen\n' : ''}\n`;
}

/** Return Python code that sends the request with the OpenAI SDK. @param {Request} request @param {URL} base */
export function openai(request, base) {
  // The SDK requires a model and a voice.
  const config = { model: 'qwen3-tts', voice: 'alloy', ...speechConfig(request) };
  const known = Object.fromEntries(Object.entries(config).filter(([name]) => OPENAI_FIELDS.has(name)));
  const extra = python(Object.fromEntries(Object.entries(config).filter(([name]) => !OPENAI_FIELDS.has(name))), '    ');
  const body = request.hasReference ? extra.replace(/ {4}\}$/, '        "ref_audio": reference,\n    }') : extra;
  return `# pip install openai
${imports(request, ['wave'])}from openai import OpenAI

${referenceInPython(request)}client = OpenAI(base_url=${JSON.stringify(new URL('v1', base))}, api_key="none")
speech = client.audio.speech.with_streaming_response.create(
${keywords({ ...known, input: request.text, response_format: 'pcm' }, '    ')}    extra_body=${body},
)
${PYTHON_FILE}    with speech as reply:
        for pcm in reply.iter_bytes():  # Arrives while it is generated: play or store it.
            file.writeframes(pcm)
`;
}

/** Return Python code that sends the request with the ElevenLabs SDK. @param {Request} request @param {URL} base */
export function elevenlabs(request, base) {
  const { voice, language = 'auto', instructions, tags, graft } = request.config;
  const fields = {
    voice_id: voice ?? 'alloy',
    text: request.text,
    model_id: request.model,
    language_code: tagOf(language),
    seed: request.seed,
    output_format: 'pcm_24000',
  };
  const extra = JSON.parse(JSON.stringify({ instructions, tags, graft }));
  const more = Object.keys(extra).length ? { request_options: { additional_body_parameters: extra } } : {};
  return `# pip install elevenlabs
${imports(request, ['wave'])}from elevenlabs.client import ElevenLabs

client = ElevenLabs(base_url=${JSON.stringify(String(base).replace(/\/$/, ''))}, api_key="none")
speech = client.text_to_speech.stream(
${keywords({ ...fields, ...more }, '    ')})
${PYTHON_FILE}    for pcm in speech:  # Arrives while it is generated: play or store it.
        file.writeframes(pcm)
`;
}

/** Return the URL of the WebSocket for speech. @param {URL} base */
function socketUrl(base) {
  const url = new URL('v1/audio/speech/stream', base);
  url.protocol = url.protocol.replace('http', 'ws');
  return url;
}

/** Return the first message that a client sends on the WebSocket, as a JSON object. @param {Request} request */
function sessionConfig(request) {
  return { type: 'session.config', text_filter: 'none', ...speechConfig(request) };
}

/** Return Python code that sends the request over a WebSocket. @param {Request} request @param {URL} base */
export function pythonSocket(request, base) {
  return `# pip install websockets
${imports(request, ['json', 'wave'])}from websockets.sync.client import connect

${referenceInPython(request)}config = ${python(sessionConfig(request))}
${request.hasReference ? 'config["ref_audio"] = reference\n' : ''}text = ${python(request.text)}
with connect(${JSON.stringify(socketUrl(base))}, subprotocols=["voicewright.speech.v1"]) as socket:
    for message in [config, {"type": "input.text", "text": text}, {"type": "input.done"}]:
        socket.send(json.dumps(message))
    ${PYTHON_FILE.replaceAll('\n    ', '\n        ')}        for message in socket:
            if isinstance(message, bytes):
                file.writeframes(message)  # Arrives while it is generated: play or store it.
                continue
            message = json.loads(message)
            if message["type"] == "error":
                raise SystemExit(message["message"])
            if message["type"] == "audio.done":
                break
`;
}

/** Return JavaScript code that reads the reference audio and encodes it as base64. @param {Request} request */
function referenceInJavaScript(request) {
  /** @param {string} bytes */
  const base64 = (bytes) => `Buffer.from(${bytes}).toString('base64')`;
  return request.referenceUrl
    ? `const recording = await fetch('${request.referenceUrl}');\nconst reference = ${base64('await recording.arrayBuffer()')};\n`
    : `${referenceComment(request, '//')}const reference = ${base64(`await readFile('${REFERENCE}')`)};\n`;
}

/** Return a code sample with WebSocket for browsers and Node 22 or later. @param {Request} request @param {URL} base */
export function webSocket(request, base) {
  const begin = request.hasReference ? '{ ...config, ref_audio: reference }' : 'config';
  return `// For a browser, or Node 22 or later: before that Node has no WebSocket.
${request.hasReference && !request.referenceUrl ? "import { readFile } from 'node:fs/promises';\n\n" : ''}const config = ${json(sessionConfig(request))};
const text = ${JSON.stringify(request.text)};
${request.hasReference ? referenceInJavaScript(request) : ''}
const socket = new WebSocket('${socketUrl(base)}', ['voicewright.speech.v1']);
socket.binaryType = 'arraybuffer';
socket.onopen = () => {
  for (const message of [${begin}, { type: 'input.text', text }, { type: 'input.done' }]) {
    socket.send(JSON.stringify(message));
  }
};
socket.onmessage = ({ data }) => {
  if (data instanceof ArrayBuffer) {
    const pcm = new Int16Array(data); /* Mono PCM at 24 kHz: play or store it. */
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

/** Return true if the ElevenLabs API supports the voice of a request. @param {Request} request */
function isOfElevenLabs({ mode, hasReference }) {
  return mode !== 'voice_design' && !hasReference;
}

export const LANGUAGES = { curl, 'OpenAI SDK': openai, 'ElevenLabs SDK': elevenlabs, 'WebSocket, Python': pythonSocket, 'WebSocket, JavaScript': webSocket };

// --- Dialog that shows a request as code.

/**
 * @typedef {keyof typeof LANGUAGES} Language
 * @typedef {import('../player/take.js').TakeRecord} TakeRecord
 * @typedef {Pick<import('../player/take.js').TakeRequest, 'mode'|'config'|'text'>} PendingRequest  request that a room would send now
 */

const NAMES = /** @type {Language[]} */ (Object.keys(LANGUAGES));

/** Return the values of a take's request that code samples need. @param {Take|TakeRecord} take @returns {Request} */
function requestOf(take) {
  const { mode, config, text, spoken, seed, id, reference, model } = take;
  const spoke = take instanceof Take ? (take.start?.model ?? take.record?.model?.id ?? model?.id) : model?.id;
  const referenceUrl = reference && id ? String(api.address(`studio/takes/${id}/reference`)) : null;
  return { mode, config, text: spoken ?? text, seed, model: spoke, hasReference: Boolean(reference), referenceUrl };
}

/** Dialog that shows a request as code: curl, OpenAI, ElevenLabs or WebSocket. */
export class CodeDialog {
  /**
   * Create the dialog and its tabs, one for each language.
   *
   * @param {HTMLDialogElement} dialog @param {import('../app/studio.js').Studio} studio
   */
  constructor(dialog, studio) {
    this.dialog = dialog;
    this.studio = studio;
    this.panel = getElement(dialog, '#vw-code-panel');
    this.text = getElement(dialog, '#vw-code-text');
    /** @type {Language} */
    this.language = 'curl';
    /** @type {Request|null} */
    this.request = null;
    const list = getElement(dialog, '[role=tablist]');
    list.replaceChildren(...NAMES.map((language) => this.tab(language)));
    list.onkeydown = (event) => this.onKey(event);
    this.tabs = getElements(list, '[role=tab]');
    getElement(dialog, '#vw-code-copy').onclick = () => this.copy();
    getElement(dialog, '#vw-code-close').onclick = () => dialog.close();
  }

  /** Return the tab of a language. @param {Language} language */
  tab(language) {
    const tab = createElement('button', { type: 'button', role: 'tab', textContent: language });
    tab.id = `vw-code-${language.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`;
    tab.setAttribute('aria-controls', 'vw-code-panel');
    tab.onclick = () => this.choose(language);
    return tab;
  }

  /**
   * Show the request of a take (generated audio) as source code.
   *
   * @param {Take|TakeRecord} take take or its stored record
   */
  show(take) {
    this.open(requestOf(take));
  }

  /**
   * Show the request that a room would send now as source code.
   *
   * If the request has no text, a sample text is used.
   *
   * @param {PendingRequest} present
   */
  showPresent({ mode, config, text }) {
    const { studio } = this;
    const content = text.trim() ? text : studio.presets.texts.auto;
    const spoken = studio.pronunciation.spokenText(content) ?? content;
    const { lock, seed } = studio.variation;
    const fixed = lock.checked ? { seed: seed.valueAsNumber } : {};
    const hasReference = mode === 'base' && !config.voice;
    this.open({ mode, config: configFor(config, content), text: spoken, ...fixed, model: studio.cards.get(mode)?.id, hasReference });
  }

  /** Show the code of a request. @param {Request} request */
  open(request) {
    this.request = request;
    const isOffered = isOfElevenLabs(request);
    this.tabs[NAMES.indexOf('ElevenLabs SDK')].hidden = !isOffered;
    this.choose(this.language === 'ElevenLabs SDK' && !isOffered ? 'curl' : this.language);
    this.dialog.showModal();
  }

  /** Show the code in a language. @param {Language} language */
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

  /** Choose the next or previous language, if an arrow key was pressed. @param {KeyboardEvent} event */
  onKey({ key }) {
    const step = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const shown = NAMES.filter((_, index) => !this.tabs[index].hidden);
    const next = shown[(shown.indexOf(this.language) + step + shown.length) % shown.length];
    this.choose(next);
    this.tabs[NAMES.indexOf(next)].focus();
  }

  async copy() {
    const { t } = this.studio;
    try {
      await navigator.clipboard.writeText(this.text.textContent ?? '');
      this.studio.toasts.show(t('shell.code.copied'));
    } catch {
      // Pages on plain HTTP have no clipboard, so the code is selected instead.
      getSelection()?.selectAllChildren(this.text);
      this.studio.toasts.show(t('shell.code.marked'));
    }
  }
}
