/** Row of one stored voice in the Library, with its recording, properties and actions. */

import { api, errorOf } from '../common/api.js';
import { formatDuration } from '../common/dates.js';
import { getElements, createElement, getElement } from '../common/elements.js';
import { languageName, speakerTitle } from '../common/fields.js';
import { recordingOf } from '../speak/voice_samples.js';
import { kindOf, markOf } from '../speak/voices.js';

// Time in milliseconds during which a deletion can be undone. It is long, because deletion needs no confirmation.
const UNDO_MS = 30000;

/** @typedef {import('../speak/voices.js').StoredVoice} StoredVoice @typedef {HTMLInputElement|HTMLTextAreaElement} Field */

/** Row of a stored voice in the Library room. */
export class VoiceRow {
  /** Create the row of a stored voice. @param {StoredVoice} voice @param {import('../app/studio.js').Studio} studio */
  constructor(voice, studio) {
    this.voice = voice;
    this.studio = studio;
    this.open = false;
    this.element = studio.words.copyOf(getElement(studio.page, '#vw-stored-voice', HTMLTemplateElement));
    this.element.dataset.voice = voice.id;
    this.find('.vw-voice-mark').append(markOf(voice.id, kindOf(voice)));
    this.link = getElement(this.element, 'a', HTMLAnchorElement);
    this.player = getElement(this.element, '.vw-voice-play', HTMLButtonElement);
    /** @type {Field[]} */
    this.fields = [...getElements(this.element, '[data-field]', HTMLInputElement), ...getElements(this.element, '[data-field]', HTMLTextAreaElement)];
    /**
     * Recording of the voice for the player, or null if it was not played yet.
     *
     * @type {import('../player/take.js').Take|null}
     */
    this.sample = null;
    /** Promise of the last change of the voice, for which the next change waits. @type {Promise<void>} */
    this.lastChange = Promise.resolve();
    /** Newest change of each field that is not stored yet. @type {Map<Field, Object<string, any>>} */
    this.unstored = new Map();
    this.listen();
    this.paint();
  }

  /** Return the first element in this row that matches a selector. @param {string} selector */
  find(selector) {
    return getElement(this.element, selector);
  }

  listen() {
    const { studio } = this;
    this.find('.vw-voice-open').onclick = () => this.unfold(!this.open);
    this.player.onclick = () => this.guard(() => this.play());
    /** @type {Object<string, () => unknown>} */
    const actions = {
      speak: () => studio.go('speakers', { voice: this.voice.id }),
      script: () => studio.go('script', { voice: this.voice.id }),
      remove: () => this.remove(),
    };
    for (const [name, action] of Object.entries(actions)) this.find(`[data-do=${name}]`).onclick = () => this.guard(action);
    for (const field of this.fields) {
      const place = errorPlace(field);
      place.id = `vw-voice-${this.voice.id}-${field.dataset.field}-error`;
      field.setAttribute('aria-describedby', place.id);
      field.onchange = () => this.change(field);
      field.oninput = () => showFieldError(field, '');
    }
  }

  /** Run an action, and show its error below the buttons of the row. @param {() => unknown} action */
  guard(action) {
    const place = this.find('.vw-voice-error');
    return withErrors(action, (sentence) => (place.textContent = sentence));
  }

  /** Store the new value of a field in the studio, after earlier changes. @param {Field} field */
  change(field) {
    const { dataset, value } = field;
    const tags = () => value.split(/[,，、]/).map((tag) => tag.trim()).filter(Boolean);
    const change = { [dataset.field ?? '']: dataset.field === 'tags' ? tags() : isCheckbox(field) ? field.checked : value.trim() };
    this.unstored.set(field, change);
    this.lastChange = this.lastChange.then(() => withErrors(() => this.store(change, field), (sentence) => showFieldError(field, sentence)));
  }

  /**
   * Send changed fields of the voice to the runtime, and reload the list of voices.
   *
   * @param {Object<string, string|string[]|boolean>} change @param {Field} field
   */
  async store(change, field) {
    await api.patch(`v1/audio/voices/${this.voice.id}`, change).finally(() => {
      if (this.unstored.get(field) === change) this.unstored.delete(field);
    });
    await this.studio.voices.refresh();
  }

  async play() {
    const { studio, voice } = this;
    if (studio.stage.isPlaying && studio.stage.take === this.sample) return studio.stage.pause();
    this.sample ??= await recordingOf(voice, studio.t);
    studio.stage.play(this.sample);
  }

  async remove() {
    const { studio, voice } = this;
    const { t } = studio;
    const near = this.element.nextElementSibling ?? this.element.previousElementSibling;
    const uses = await this.scriptCount();
    const { takes, restorable_s: restorable } = await api.delete(`studio/voices/${voice.id}`);
    await studio.voices.refresh();
    if (near) getElement(near, '.vw-voice-open').focus();
    const blends = studio.voices.list.filter((one) => one.provenance.blend?.includes(voice.id)).map((one) => one.name).join(', ');
    const sentences = [
      t('voices.deleted', { name: voice.name }),
      uses ? t('voices.used', { n: uses }) : '',
      blends && t('voices.blends', { names: blends }),
      t(takes ? 'voices.in_bin_takes' : 'voices.in_bin', { time: formatDuration(restorable, t), n: takes }),
    ];
    const now = t(takes ? 'voices.delete_now_takes' : 'voices.delete_now', { n: takes });
    const offer = () => {
      const leave = studio.toasts.show(sentences.filter(Boolean).join(' '), {
        action: t('shell.undo'),
        stayMs: UNDO_MS,
        onAction: () => restoreVoice(studio, voice.id),
        also: { action: now, onAction: () => askToErase(studio, voice, takes, offer) },
      });
      closeToasts.set(voice.id, leave);
    };
    offer();
  }

  /** Return the number of scripts that use the voice, or 0 if it is unknown. */
  async scriptCount() {
    const room = /** @type {import('../script/room.js').ScriptRoom} */ (this.studio.room('script'));
    try {
      return await room.scriptCountOf(this.voice.id);
    } catch {
      return 0;
    }
  }

  /** Update the row after a change of the voice. @param {StoredVoice} voice current data of the same voice */
  update(voice) {
    this.voice = voice;
    this.paint();
  }

  /** Show or hide the details of the voice. @param {boolean} open */
  unfold(open) {
    this.open = open;
    this.find('.vw-voice-open').setAttribute('aria-expanded', String(open));
    this.find('.vw-voice-more').hidden = !open;
  }

  paint() {
    const { voice, studio } = this;
    const { name, tags, seconds, description, yours } = voice;
    this.find('.vw-voice-name').textContent = name;
    const length = seconds > 0 && `${seconds.toFixed(1)} s`; // Imported voices of the official demo have no recording.
    const about = [description, length, ...tags.map((tag) => `#${tag}`)];
    this.find('small').textContent = about.filter(Boolean).join(' · ');
    this.player.ariaLabel = studio.t('library.play', { name });
    this.player.disabled = !length;
    this.link.href = String(api.address(`v1/audio/voices/${voice.id}/file`));
    this.find('.vw-voice-common').hidden = yours;
    this.find('[data-do=remove]').hidden = !yours;
    /** @type {Object<string, string|null>} */
    const written = { name, tags: tags.join(', '), description, transcript: voice.transcript };
    this.find('.vw-voice-recorded').hidden = !this.isCorrectable;
    for (const field of this.fields) {
      field.disabled = !yours;
      // Keep a text that is not stored yet or was refused, so that the user can correct it.
      const isOthers = field !== document.activeElement && field.ariaInvalid !== 'true' && !this.unstored.has(field);
      if (isOthers && isCheckbox(field)) field.checked = voice.provenance.blend !== 'no';
      else if (isOthers) field.value = written[field.dataset.field ?? ''] ?? '';
    }
    this.find('.vw-voice-facts').replaceChildren(...this.facts().flatMap(([term, value]) => [createElement('dt', { textContent: term }), createElement('dd', { textContent: value })]));
  }

  /** True if the user may correct the transcript and the consent to blends. */
  get isCorrectable() {
    const { voice } = this;
    return voice.yours && voice.seconds > 0 && kindOf(voice) === 'recorded';
  }

  /** Return the properties of the voice as pairs of label and value. @returns {string[][]} */
  facts() {
    const { voice, studio } = this;
    const { t } = studio;
    const date = new Intl.DateTimeFormat(studio.words.language, { dateStyle: 'medium', timeStyle: 'short' });
    const known = {
      transcript: this.isCorrectable && voice.transcript ? null : (voice.transcript ?? t('clone.by_xvector')),
      language: voice.language === 'auto' ? t('shell.auto') : languageName(voice.language),
      created: date.format(voice.created_at * 1000),
      consent: voice.consent,
      advice: voice.advice.join(' '),
    };
    const facts = Object.entries(known).flatMap(([name, value]) => (value ? [[t(`voices.fact.${name}`), value]] : []));
    const { blend = '', source, revision, language: _, ...origin } = voice.provenance;
    const shares = blend.split('+').map((part) => {
      const [name, weight] = part.split(':');
      return weight ? `${studio.catalogue.findByName(name)?.name ?? speakerTitle(name)} ${Math.round(Number(weight) * 100)} %` : name;
    });
    const readable = {
      source: source && this.wordFor('source', source),
      blend: shares.join(', '),
      revision: revision === origin.fingerprint ? '' : revision,
      ...origin,
    };
    return [...facts, ...Object.entries(readable).flatMap(([name, value]) => (value ? [[this.wordFor('from', name), value]] : []))];
  }

  /** Return the word for a name in the provenance, or the name if there is no word. @param {string} kind @param {string} name */
  wordFor(kind, name) {
    const key = `voices.${kind}.${name}`;
    const word = this.studio.t(key);
    return word === key ? name : word;
  }
}

/** Functions that close the toasts of deleted voices, by the id of the voice. @type {Map<string, () => void>} */
const closeToasts = new Map();

/** Restore a voice from the bin. @param {import('../app/studio.js').Studio} studio @param {string} id */
export function restoreVoice({ toasts, voices }, id) {
  return toasts.guard(async () => {
    await api.post(`studio/voices/${id}/restore`);
    closeToasts.get(id)?.();
    await voices.refresh();
  });
}

/**
 * Ask the user to confirm the permanent deletion of a voice in the bin and of its takes.
 *
 * @param {import('../app/studio.js').Studio} studio @param {{id: string, name: string}} voice
 * @param {number} takes number of takes with the voice @param {() => void} [onCancel]
 */
export function askToErase(studio, { id, name }, takes, onCancel) {
  const { t, toasts } = studio;
  const erase = async () => {
    const deleted = api.delete(`studio/voices/${id}?now=1&takes=1`).then(({ takes_deleted: n }) =>
      toasts.show(t(n ? 'voices.gone_takes' : 'voices.gone', { name, n })),
    );
    await studio.history.moveSeveral(deleted);
    closeToasts.get(id)?.();
    await studio.voices.refresh();
  };
  const question = t(takes ? 'voices.delete_ask_takes' : 'voices.delete_ask', { name, n: takes });
  confirmDeletion(studio, question, () => toasts.guard(erase), onCancel);
}

/**
 * Ask the user to confirm a deletion that cannot be undone.
 *
 * @param {import('../app/studio.js').Studio} studio @param {string} question @param {() => void} onConfirm
 * @param {() => void} [onCancel]
 */
export function confirmDeletion({ page }, question, onConfirm, onCancel = () => {}) {
  const dialog = getElement(page, '#vw-takes-emptying', HTMLDialogElement);
  getElement(dialog, 'h2').textContent = question;
  dialog.returnValue = '';
  dialog.onclose = () => (dialog.returnValue ? onConfirm() : onCancel());
  dialog.showModal();
}

/**
 * Run an action, and report its error message.
 *
 * First, an empty message is reported to clear an earlier error.
 *
 * @param {() => unknown} action
 * @param {(sentence: string) => void} showError
 */
async function withErrors(action, showError) {
  showError('');
  try {
    await action();
  } catch (error) {
    showError(errorOf(error).message);
  }
}

/**
 * Show an error below a field, or clear the error if the text is empty.
 *
 * @param {Field} field
 * @param {string} sentence
 */
function showFieldError(field, sentence) {
  errorPlace(field).textContent = sentence;
  field.ariaInvalid = String(sentence !== '');
}

/** Return true if a field is a checkbox. @param {Field} field @returns {field is HTMLInputElement} */
function isCheckbox(field) {
  return field.type === 'checkbox';
}

/** Return the element for the error message of a form field. @param {Field} field @returns {Element} */
function errorPlace(field) {
  const place = field.closest('label')?.nextElementSibling;
  if (place) return place;
  throw new Error(`There is no place for what is wrong with ${field.dataset.field}`);
}
