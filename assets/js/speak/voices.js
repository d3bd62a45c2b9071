/** Voices on the page: icons, stored voices, and the catalogue of all voices. */

import { api } from '../common/api.js';
import { languageName, speakerTitle } from '../common/fields.js';

// --- Icon (mark) of a voice: five bars in one of eight colours, derived from the id of the voice.

const HUE_COUNT = 8; // Number of hues, which are the CSS variables --vw-h0 to --vw-h7.
const HASH_START = 42061; // Hash seed, chosen so that all embedded speakers have different hues.
const DRAWING_PX = 36;
const BAR = { width: 2.4, pitch: 4, first: 8.6, least: 5 };
const BAR_RANGES = [6, 15, 15, 15, 6]; // Variation of the height of each bar. The outer bars are lower.

/** @typedef {'preset'|'designed'|'recorded'} VoiceKind a speaker of a checkpoint, a designed voice, or a cloned voice */

/** Return a 32-bit hash of a voice's id, which ignores upper and lower case. @param {string} id */
export function hashed(id) {
  let hash = HASH_START;
  for (const letter of id.toLowerCase()) hash = Math.imul(hash ^ Number(letter.codePointAt(0)), 16777619) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0;
  return (hash ^ (hash >>> 12)) >>> 0;
}

/**
 * Return the number of the colour (0 to 7) with which a voice is shown.
 *
 * @param {string} id name of a speaker, or id of a stored voice
 */
export function hueOf(id) {
  return hashed(id) % HUE_COUNT;
}

/** Return the heights of the five bars in the icon of a voice, in pixels. @param {string} id @returns {number[]} */
export function barsOf(id) {
  let state = hashed(id);
  return BAR_RANGES.map((span) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return BAR.least + (span * (state >>> 8)) / 2 ** 24;
  });
}

/**
 * Return the icon of a voice as an element that is hidden from screen readers.
 *
 * @param {string} id
 * @param {VoiceKind} kind
 */
export function markOf(id, kind) {
  const mark = document.createElement('span');
  mark.className = `vw-mark vw-hue-${hueOf(id)}`;
  mark.dataset.kind = kind;
  mark.setAttribute('aria-hidden', 'true');
  const bars = barsOf(id).map((height, at) => {
    const place = `x="${(BAR.first + at * BAR.pitch).toFixed(1)}" y="${((DRAWING_PX - height) / 2).toFixed(1)}"`;
    return `<rect ${place} width="${BAR.width}" height="${height.toFixed(1)}" rx="${BAR.width / 2}" />`;
  });
  mark.innerHTML = `<svg viewBox="0 0 ${DRAWING_PX} ${DRAWING_PX}">${bars.join('')}</svg>`;
  return mark;
}

/**
 * List of the voices that are stored on the server.
 *
 * Event: 'change'.
 *
 * @typedef {Object} StoredVoice
 * @property {string} id
 * @property {string} name
 * @property {string} language         language, or 'auto' if unknown
 * @property {string|null} description
 * @property {string[]} tags
 * @property {string|null} transcript  transcript of the reference audio, or null if the voice clones by x-vector only
 * @property {number} seconds          length of the reference audio in seconds
 * @property {number} created_at       seconds since 1970
 * @property {string|null} consent
 * @property {Object<string, string>} provenance  origin of the voice: model, seed, description, ...
 * @property {string[]} advice
 * @property {boolean} yours           false if the voice belongs to the server
 */

export class Voices extends EventTarget {
  /** @type {StoredVoice[]} */
  list = [];
  /** True if the list was loaded. */
  isListed = false;
  /** Number of requests for the list, used to ignore responses to earlier requests. */
  asked = 0;
  shown = 0;

  async refresh() {
    const turn = (this.asked += 1);
    const { data } = await api.get('v1/audio/voices');
    if (turn < this.shown) return;
    this.shown = turn;
    this.list = data.sort(inOrder);
    this.isListed = true;
    this.dispatchEvent(new Event('change'));
  }

  /** Return the stored voice with this id or name, or null. @param {string} idOrName @returns {StoredVoice|null} */
  find(idOrName) {
    const name = idOrName.toLowerCase();
    return this.list.find((voice) => voice.id === idOrName) ?? this.list.find((voice) => voice.name.toLowerCase() === name) ?? null;
  }
}

const NATURAL = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

/**
 * Compare two voices for sorting: the visitor's own voices first, then by name.
 *
 * @param {StoredVoice} first
 * @param {StoredVoice} second
 */
function inOrder(first, second) {
  return Number(second.yours !== false) - Number(first.yours !== false) || NATURAL.compare(first.name, second.name);
}

/**
 * Catalogue of all voices, which all rooms use.
 *
 * It contains the speakers of the checkpoint, the stored voices and the recently used voices. Event: 'change'.
 *
 * @typedef {Object} Choice
 * @property {string} key       key made of the mode and the voice
 * @property {'custom_voice'|'base'} mode  mode that speaks with the voice
 * @property {string} voice     name of a speaker, or id of a stored voice
 * @property {string} name      display name
 * @property {VoiceKind} kind
 * @property {boolean} [refusesBlends]  true if the speaker of a stored voice has not consented to blends
 * @property {boolean} isCommon  true for a stored voice of the server that does not belong to this visitor
 * @property {string[]} tags
 * @property {string} about
 * @property {string} why       reason why the voice is unavailable, or '' if it is available
 * @property {string|null} language  language of the sample
 * @property {string|null} sample    text of the sample, or null for stored voices, whose sample is the recording
 * @property {import('../script/document.js').Line} [speaker]  line of the speaker of a script that the choice stands for
 */

const MAX_RECENT = 6;
/** Kind of an unknown voice by its mode. @type {Object<string, VoiceKind>} */
const UNKNOWN = { custom_voice: 'preset', voice_design: 'designed', base: 'recorded' };
const KINDS = /** @type {const} */ (['all', 'speakers', 'mine', 'recent']);

/** Catalogue of all voices that the user can pick, with a filter by kind. */
export class VoiceCatalogue extends EventTarget {
  id = 'voices';
  /** Filter of the pickers, a value of KINDS. @type {string} */
  kind = 'all';
  /** Keys of the recent voices, newest first. @type {string[]} */
  recent = [];
  /** @type {Choice[]} */
  speakers = [];
  /** @type {Choice[]} */
  storedChoices = [];

  /** Create the catalogue from the voices of the page. @param {import('../app/studio.js').Studio} studio */
  constructor(studio) {
    super();
    this.studio = studio;
    studio.voices.addEventListener('change', () => this.update());
  }

  /** Update the catalogue after a change of the checkpoints, the voices, or the language. */
  update() {
    this.speakers = this.listSpeakers();
    this.storedChoices = this.studio.voices.list.map((voice) => this.keptChoice(voice));
    this.dispatchEvent(new Event('change'));
  }

  /** Return the catalogue entries of the checkpoint's speakers, ordered like the presets. */
  listSpeakers() {
    const card = this.studio.cards.get('custom_voice');
    if (!card) return [];
    const known = this.studio.presets.speakers;
    const { t } = this.studio;
    const adapters = Object.entries(card.adapters ?? {});
    const adapterOf = (/** @type {string} */ name) => adapters.find(([, speakers]) => speakers.includes(name))?.[0];
    const unknown = (/** @type {string|undefined} */ model) => ({ language: null, accent: null, character: t(model ? 'picker.tuned' : 'picker.plain', { model: model ?? card.id }), sample: null });
    return card.speakers
      .map((name) => ({ name, place: known.findIndex((one) => one.name.toLowerCase() === name.toLowerCase()) }))
      .sort((one, other) => Number(one.place < 0) - Number(other.place < 0) || one.place - other.place)
      .map(({ name, place }) => this.speakerChoice(name, known[place] ?? unknown(adapterOf(name))));
  }

  /**
   * Return the catalogue entry for a speaker of the checkpoint.
   *
   * @param {string} voice
   * @param {import('../common/words.js').KnownSpeaker} known
   * @returns {Choice}
   */
  speakerChoice(voice, { language, accent, character, sample }) {
    const tags = [language && languageName(language), accent].flatMap((tag) => tag || []);
    const text = sample ?? this.studio.presets.texts.auto;
    const mode = 'custom_voice';
    return { key: keyOf(mode, voice), mode, voice, name: speakerTitle(voice), kind: 'preset', isCommon: false, tags, about: character, why: '', language, sample: text };
  }

  /** Return the catalogue entry for a stored voice. @param {StoredVoice} voice @returns {Choice} */
  keptChoice({ id, name, tags, language, description, provenance, seconds, yours }) {
    const { t, cards } = this.studio;
    const kind = kindOf({ provenance });
    const spoken = language && language !== 'auto' ? [languageName(language)] : [];
    const about = description || t(kind === 'designed' ? 'picker.designed' : 'picker.recorded', { s: Math.round(seconds) });
    return {
      key: keyOf('base', id),
      mode: 'base',
      voice: id,
      name,
      kind,
      refusesBlends: provenance.blend === 'no',
      isCommon: yours === false,
      tags: [...tags, ...spoken],
      about,
      why: cards.has('base') ? '' : t('picker.no_base'),
      language: null,
      sample: null,
    };
  }

  get all() {
    return [...this.speakers, ...this.storedChoices];
  }

  /** Return the catalogue entry with this key, or null. @param {string} key @returns {Choice|null} */
  find(key) {
    return this.all.find((choice) => choice.key === key) ?? null;
  }

  /**
   * Return the catalogue entry of the voice with this id or name, or null.
   *
   * @param {string} nameOrId @returns {Choice|null}
   */
  findByName(nameOrId) {
    const wanted = nameOrId.toLowerCase();
    const own = (/** @type {Choice} */ { voice, name }) => [voice.toLowerCase(), name.toLowerCase()].includes(wanted);
    return this.find(keyOf('base', nameOrId)) ?? this.all.find(own) ?? null;
  }

  /**
   * Return the icon of the voice that speaks in a take.
   *
   * All voices without a name that have the same mode have the same icon.
   *
   * @param {{mode: string, voice?: string|null, called?: string}} spoken called: name of the voice, used if it was deleted
   * @returns {HTMLElement}
   */
  mark({ mode, voice, called }) {
    const id = voice || mode;
    // A stored voice with a style is spoken in the mode `custom_voice`, but listed as `base`.
    const choice = this.find(keyOf(mode, id)) ?? this.find(keyOf('base', id));
    return Object.assign(markOf(id, choice?.kind ?? UNKNOWN[mode] ?? 'recorded'), { title: choice?.name ?? called ?? (voice ? speakerTitle(voice) : '') });
  }

  /** Return true if voices of a mode can be used with a style. @param {string|undefined} mode */
  supportsStyle(mode) {
    const card = this.studio.cards.get('custom_voice');
    return mode === 'base' ? (card?.styles_voices ?? false) : mode === 'custom_voice' && (card?.takes_instruct ?? true);
  }

  /** First voice of the catalogue that is available, or null. @returns {Choice|null} */
  get first() {
    return this.all.find(({ why }) => !why) ?? null;
  }

  /** Catalogue entries of the recently used voices that still exist, newest first. @returns {Choice[]} */
  get recentVoices() {
    const all = this.all;
    return this.recent.flatMap((key) => all.find((choice) => choice.key === key) ?? []);
  }

  /** Add a voice to the start of the recently used voices. @param {Choice} choice */
  remember({ key }) {
    if (this.recent[0] === key) return;
    this.recent = [key, ...this.recent.filter((one) => one !== key)].slice(0, MAX_RECENT);
    this.dispatchEvent(new Event('change'));
  }

  /** Show only the voices of one kind in the pickers. @param {string} kind */
  show(kind) {
    this.kind = kind;
    this.dispatchEvent(new Event('change'));
  }

  draft() {
    return { recent: this.recent, kind: this.kind };
  }

  /**
   * Restore the recently used voices and the filter from a stored draft.
   *
   * @param {{recent?: unknown, kind?: string}} draft
   */
  recall({ recent, kind }) {
    if (Array.isArray(recent)) this.recent = recent.filter((key) => typeof key === 'string').slice(0, MAX_RECENT);
    this.kind = KINDS.find((one) => one === kind) ?? 'all';
  }
}

/**
 * Return the key of a voice, which consists of its mode and its id or name.
 *
 * @param {string} mode @param {string} voice
 */
export function keyOf(mode, voice) {
  return `${mode}:${voice}`;
}

/**
 * Return the kind of a stored voice: designed in words, or recorded.
 *
 * @param {Pick<StoredVoice, 'provenance'>} voice @returns {VoiceKind}
 */
export function kindOf({ provenance }) {
  return ['design', 'blend'].includes(provenance.source) ? 'designed' : 'recorded';
}

/**
 * Return true if the name, the tags or the description of a voice match a search.
 *
 * Every word of the search must occur.
 *
 * @param {Choice} choice
 * @param {string} query
 */
export function fits({ name, tags, about }, query) {
  const searched = [name, about, ...tags].join(' ').toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => searched.includes(word));
}
