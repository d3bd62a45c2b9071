/**
 * Voices of script lines: their names, their automatic assignment, and their requests.
 *
 * @typedef {import('../common/fields.js').ModelCard} ModelCard
 * @typedef {import('./document.js').Line} Line
 * @typedef {import('./document.js').Voice} Voice
 * @typedef {import('../speak/voices.js').Choice} VoiceChoice
 *
 * @typedef {Object} Choice
 * @property {string} value  value of an option element
 * @property {string} label
 * @property {Voice} voice
 */

import { modeFor, speakerTitle } from '../common/fields.js';
import { suggestedName } from '../design/names.js';

/** Voices of script lines: their names, automatic assignment, and request fields. */
export class VoiceAssignment {
  /**
   * Create the assignment from the voices of the page.
   *
   * @param {Pick<import('../app/studio.js').Studio, 'cards'|'voices'|'catalogue'|'t'>} studio
   */
  constructor(studio) {
    this.studio = studio;
  }

  /** Return an option of the voice selector for each speaker of the checkpoint. @returns {Choice[]} */
  speakers() {
    const names = this.studio.cards.get('custom_voice')?.speakers ?? [];
    return names.map((name) => choice({ mode: 'custom_voice', voice: name }, speakerTitle(name)));
  }

  /** Return an option for each stored voice, or [] if no Base checkpoint is loaded. @returns {Choice[]} */
  storedChoices() {
    if (!this.studio.cards.has('base')) return [];
    return this.studio.voices.list.map(({ id, name }) => choice({ mode: 'base', voice: id }, name));
  }

  canDesign() {
    return this.studio.cards.has('voice_design');
  }

  /** Return the speaker or the stored voice with this name, or null. @param {string} name @returns {Voice|null} */
  findVoice(name) {
    const wanted = normalised(name);
    return [...this.storedChoices(), ...this.speakers()].find(({ label }) => normalised(label) === wanted)?.voice ?? null;
  }

  /**
   * Return the icon and the name for any voice, also for a deleted voice.
   *
   * @param {Voice|null} voice
   * @returns {Pick<VoiceChoice, 'voice'|'kind'|'name'>|null}
   */
  displayOf(voice) {
    if (!voice) return null;
    const { studio } = this;
    if (voice.mode === 'voice_design') return { voice: voice.mode, kind: 'designed', name: studio.t('script.described') };
    const { voice: id = '' } = voice;
    return studio.catalogue.find(valueOf(voice)) ?? { voice: id, kind: 'recorded', name: this.nameOfUnknown(voice) };
  }

  /** Return a name for a voice that is not available. @param {Voice} voice */
  nameOfUnknown({ mode, voice = '', name }) {
    const { t, voices } = this.studio;
    if (mode !== 'base') return t('script.gone', { name: speakerTitle(voice) });
    if (!voices.isListed) return name ?? '…';
    return name ? t('script.deleted_voice', { name }) : t('script.deleted_unnamed');
  }

  /** Return true if a voice is a stored voice that was deleted. @param {Voice|null} voice */
  isDeleted(voice) {
    return voice?.mode === 'base' && this.studio.voices.isListed && !this.studio.catalogue.find(valueOf(voice));
  }

  /** Write the names of stored voices into the lines, for the case of their deletion. @param {Line[]} lines */
  recordNames(lines) {
    const names = new Map(this.studio.voices.list.map(({ id, name }) => [id, name]));
    for (const { voice } of lines) {
      if (voice?.mode === 'base') voice.name = names.get(voice.voice ?? '') ?? voice.name;
    }
  }

  /** Return the name of a voice as the page shows it. @param {Voice|null} voice */
  nameOf(voice) {
    return this.displayOf(voice)?.name ?? '';
  }

  /**
   * Return the name of a voice, or the shortened description of a voice from a description.
   *
   * @param {Voice|null} voice
   */
  uniqueNameOf(voice) {
    return (voice?.mode === 'voice_design' && suggestedName('', voice.description ?? '')) || this.nameOf(voice);
  }

  /**
   * Return a voice for a new role.
   *
   * It is the first voice that no line uses, or else the first voice.
   *
   * @param {Line[]} lines
   * @returns {Voice|null}
   */
  unused(lines) {
    const used = new Set(lines.map(({ voice }) => voice && valueOf(voice)));
    const choices = [...this.speakers(), ...this.storedChoices()];
    const free = choices.find(({ value }) => !used.has(value)) ?? choices[0];
    return free ? { ...free.voice } : this.canDesign() ? { mode: 'voice_design', description: '' } : null;
  }

  /**
   * Return the narrator's voice, which is the voice of the first line without a role.
   *
   * If there is no such line, the result is the first voice.
   *
   * @param {Line[]} lines
   * @returns {Voice|null}
   */
  narrator(lines) {
    return lines.find(({ name, voice }) => !name && voice)?.voice ?? this.unused([]);
  }

  /**
   * Assign voices to parsed lines.
   *
   * If a name is the name of a voice, the line gets this voice. Other names are roles, and each new role gets an unused voice.
   * Lines without a name get the narrator's voice.
   *
   * @param {Line[]} lines  lines that are changed in place
   * @param {Line[]} existing existing lines of the script
   * @param {Voice|null} [narrator] voice for lines without a name
   */
  assign(lines, existing, narrator = this.narrator(existing)) {
    const roles = new Map(existing.filter(({ name, voice }) => name && voice).map(({ name, voice }) => [name, voice]));
    const nameless = lines.filter(({ name }) => !name);
    for (const line of nameless) line.voice = narrator && { ...narrator };
    for (const line of lines) {
      if (!line.name) continue;
      const plain = line.name.toLowerCase();
      line.name = [...roles.keys()].find((role) => role?.toLowerCase() === plain) ?? line.name;
      const own = this.findVoice(line.name);
      const voice = own ?? roles.get(line.name) ?? this.unused([...existing, ...lines]);
      line.voice = voice && { ...voice };
      if (own) line.name = null; // The role has the name of its voice, which the line shows anyway.
      else roles.set(line.name, voice);
    }
  }

  /** Return true if a voice can be used with a style. @param {Voice|null} voice */
  takesInstruct(voice) {
    return voice?.mode === 'voice_design' || this.studio.catalogue.supportsStyle(voice?.mode);
  }

  /**
   * Return the mode and the settings of the request for a line.
   *
   * @param {Line} line
   * @returns {{mode: import('../player/take.js').Mode, config: import('../player/take.js').Config}}
   */
  request({ voice, instruct }) {
    if (!voice) throw new Error('a line without a voice is not spoken');
    const { mode, language = 'auto' } = voice;
    const how = this.takesInstruct(voice) ? instruct.trim() : '';
    const instructions = [mode === 'voice_design' && voice.description?.trim(), how].filter(Boolean).join(' ');
    const who = mode === 'voice_design' ? {} : { voice: voice.voice };
    return { mode: modeFor(mode, instructions), config: { ...who, language, ...(instructions && { instructions }) } };
  }
}

/**
 * Return the value of a voice in the selector.
 *
 * All voices from descriptions have the same value.
 *
 * @param {Voice} voice
 */
export function valueOf({ mode, voice = '' }) {
  return `${mode}:${voice}`;
}

/** Return an option of the voice selector. @param {Voice} voice @param {string} label @returns {Choice} */
function choice(voice, label) {
  return { value: valueOf(voice), label, voice };
}

/** Return a form of a name that ignores case, underscores and additional spaces. @param {string} name */
function normalised(name) {
  return name.trim().toLowerCase().replaceAll(/[\s_]+/g, ' ');
}
