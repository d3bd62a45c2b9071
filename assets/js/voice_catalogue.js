/**
 * Everybody who can speak, for every room: speakers of the checkpoint and kept voices, and who spoke last. Event: 'change'.
 *
 * @typedef {Object} Choice
 * @property {string} key       of mode and voice
 * @property {'custom_voice'|'base'} mode  what speaks with it
 * @property {string} voice     a speaker's name, or the id of a kept voice
 * @property {string} name      for people
 * @property {import('./voice_mark.js').VoiceKind} kind
 * @property {boolean} isCommon  a kept voice of the server's, not of this visitor's
 * @property {string[]} tags
 * @property {string} about
 * @property {string} why       it cannot be spoken with now; empty: it can
 * @property {string|null} language  that its sample is in
 * @property {string|null} sample    a line to be spoken; null: a kept voice has its recording
 */

import { languageName, title } from './rooms/fields.js';
import { markOf } from './voice_mark.js';

const MAX_RECENT = 6;
/** What a voice is that nobody knows any more, by how it spoke. @type {Object<string, import('./voice_mark.js').VoiceKind>} */
const UNKNOWN = { custom_voice: 'preset', voice_design: 'designed', base: 'recorded' };
const KINDS = /** @type {const} */ (['all', 'speakers', 'mine', 'recent']);

export class VoiceCatalogue extends EventTarget {
  id = 'voices';
  /** What the pickers show: one of KINDS. @type {string} */
  kind = 'all';
  /** Keys of who spoke last, the last first. @type {string[]} */
  recent = [];
  /** @type {Choice[]} */
  speakers = [];
  /** @type {Choice[]} */
  kept = [];

  /** @param {import('./studio.js').Studio} studio */
  constructor(studio) {
    super();
    this.studio = studio;
    studio.voices.addEventListener('change', () => this.renew());
  }

  /** List anew: another runtime, other voices, or another language of the page. */
  renew() {
    this.speakers = this.cast();
    this.kept = this.studio.voices.list.map((voice) => this.keptChoice(voice));
    this.dispatchEvent(new Event('change'));
  }

  /** The checkpoint's speakers with what is known of them: those of the presets first, in their order. */
  cast() {
    const card = this.studio.cards.get('custom_voice');
    if (!card) return [];
    const known = this.studio.presets.speakers;
    const unknown = { name: '', language: null, accent: null, character: this.studio.t('picker.plain', { model: card.id }), sample: null };
    return card.speakers
      .map((name) => ({ name, place: known.findIndex((one) => one.name.toLowerCase() === name.toLowerCase()) }))
      .sort((one, other) => Number(one.place < 0) - Number(other.place < 0) || one.place - other.place)
      .map(({ name, place }) => this.speakerChoice(name, known[place] ?? unknown));
  }

  /** @param {string} voice @param {import('./words.js').KnownSpeaker} known @returns {Choice} */
  speakerChoice(voice, { language, accent, character, sample }) {
    const tags = [language && languageName(language), accent].flatMap((tag) => tag || []);
    const text = sample ?? this.studio.presets.texts.auto;
    const mode = 'custom_voice';
    return { key: keyOf(mode, voice), mode, voice, name: title(voice), kind: 'preset', isCommon: false, tags, about: character, why: '', language, sample: text };
  }

  /** @param {import('./voices.js').StoredVoice} voice @returns {Choice} */
  keptChoice({ id, name, tags, language, description, provenance, seconds, yours }) {
    const { t, cards } = this.studio;
    const kind = kindOf({ provenance });
    const tongue = language && language !== 'auto' ? [languageName(language)] : [];
    const about = description || t(kind === 'designed' ? 'picker.designed' : 'picker.recorded', { s: Math.round(seconds) });
    return {
      key: keyOf('base', id),
      mode: 'base',
      voice: id,
      name,
      kind,
      isCommon: yours === false,
      tags: [...tags, ...tongue],
      about,
      why: cards.has('base') ? '' : t('picker.no_base'),
      language: null,
      sample: null,
    };
  }

  get all() {
    return [...this.speakers, ...this.kept];
  }

  /** @param {string} key @returns {Choice|null} */
  find(key) {
    return this.all.find((choice) => choice.key === key) ?? null;
  }

  /** Who is meant by a kept voice's id, or by anybody's name. @param {string} said @returns {Choice|null} */
  named(said) {
    const wanted = said.toLowerCase();
    const own = (/** @type {Choice} */ { voice, name }) => [voice.toLowerCase(), name.toLowerCase()].includes(wanted);
    return this.find(keyOf('base', said)) ?? this.all.find(own) ?? null;
  }

  /** The mark of whoever spoke; those without a name share one a mode. @param {{mode: string, voice?: string|null, called?: string}} spoken  called: what it was called, where it may be gone @returns {HTMLElement} */
  mark({ mode, voice, called }) {
    const id = voice || mode;
    const choice = this.find(keyOf(mode, id)) ?? this.find(keyOf('base', id)); // A stored voice with a style speaks in another mode.
    return Object.assign(markOf(id, choice?.kind ?? UNKNOWN[mode] ?? 'recorded'), { title: choice?.name ?? called ?? (voice ? title(voice) : '') });
  }

  /** Whether voices of a mode can be told how to speak. @param {string|undefined} mode */
  takesStyle(mode) {
    const card = this.studio.cards.get('custom_voice');
    return mode === 'base' ? (card?.styles_voices ?? false) : mode === 'custom_voice' && (card?.takes_instruct ?? true);
  }

  /** Who speaks where nobody was chosen. @returns {Choice|null} */
  get first() {
    return this.all.find(({ why }) => !why) ?? null;
  }

  /** Who spoke last, as far as they are still there. @returns {Choice[]} */
  get lately() {
    const all = this.all;
    return this.recent.flatMap((key) => all.find((choice) => choice.key === key) ?? []);
  }

  /** Somebody speaks: they are first among the recent. @param {Choice} choice */
  remember({ key }) {
    if (this.recent[0] === key) return;
    this.recent = [key, ...this.recent.filter((one) => one !== key)].slice(0, MAX_RECENT);
    this.dispatchEvent(new Event('change'));
  }

  /** @param {string} kind */
  show(kind) {
    this.kind = kind;
    this.dispatchEvent(new Event('change'));
  }

  draft() {
    return { recent: this.recent, kind: this.kind };
  }

  /** @param {{recent?: unknown, kind?: string}} draft */
  recall({ recent, kind }) {
    if (Array.isArray(recent)) this.recent = recent.filter((key) => typeof key === 'string').slice(0, MAX_RECENT);
    this.kind = KINDS.find((one) => one === kind) ?? 'all';
  }
}

/** @param {string} mode @param {string} voice */
export function keyOf(mode, voice) {
  return `${mode}:${voice}`;
}

/** Where a kept voice comes from. @param {Pick<import('./voices.js').StoredVoice, 'provenance'>} voice @returns {import('./voice_mark.js').VoiceKind} */
export function kindOf({ provenance }) {
  return provenance.source === 'design' ? 'designed' : 'recorded';
}

/** Whether a voice holds every word that is searched for, in its name, tags or description. @param {Choice} choice @param {string} query */
export function fits({ name, tags, about }, query) {
  const said = [name, about, ...tags].join(' ').toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => said.includes(word));
}
