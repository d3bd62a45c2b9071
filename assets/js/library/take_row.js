/**
 * Row of one stored take in the Library's list.
 *
 * A take is the audio that was generated for one request.
 */

import { errorOf, StudioError } from '../common/api.js';
import { clock, SAMPLE_RATE } from '../common/audio.js';
import { timeOfDay } from '../common/dates.js';
import { getElements, createElement, setAttributes, getElement, writeText } from '../common/elements.js';
import { languageName, speakerTitle } from '../common/fields.js';
import { captionOf, suggestedName } from '../design/names.js';
import { audioUrl, offerDownloads } from '../player/stage_panel.js';
import { Take } from '../player/take.js';
import { drawnHeight } from '../player/waveform.js';
import { Sharing } from './sharing.js';

// --- Waveform outline of a stored take, which is loaded and drawn when it becomes visible.

const SVG = 'http://www.w3.org/2000/svg';
const BAR_STEP_PX = 3; // Distance between two bars, each of which is two pixels wide.
const BAR_HEIGHT_PX = 28;
const MAX_LEVEL = 255; // Maximum level in the studio's response.

/** Actions to run when an element becomes visible, by element. @type {WeakMap<Element, () => void>} */
const waiting = new WeakMap();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    waiting.get(target)?.();
  }
});

/**
 * Draw the waveform outline of stored audio when its element becomes visible.
 *
 * @param {HTMLElement} place element that gets the outline
 * @param {string} id id of the take
 * @param {import('../app/studio.js').Studio['api']} api
 */
export function outlineWhenSeen(place, id, api) {
  waiting.set(place, async () => {
    try {
      // The browser may cache this response, because the audio of a take never changes.
      const answer = await api.request(`studio/takes/${id}/outline`, { cache: 'default' });
      const { outline } = await answer.json();
      place.replaceChildren(outlineImage(outline));
    } catch (error) {
      // A take without audio has no outline. Playback shows its error.
      if (!(error instanceof StudioError)) throw error;
    }
  });
  watcher.observe(place);
}

/**
 * Return an SVG image of a waveform outline, with bars around a middle line.
 *
 * @param {number[]} outline levels from 0 to MAX_LEVEL
 */
function outlineImage(outline) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${outline.length * BAR_STEP_PX} ${BAR_HEIGHT_PX}`);
  const path = document.createElementNS(SVG, 'path');
  const bars = outline.map((value, index) => {
    const half = Math.max(0.5, (drawnHeight(value / MAX_LEVEL) * BAR_HEIGHT_PX) / 2);
    return `M${index * BAR_STEP_PX + 1} ${BAR_HEIGHT_PX / 2 - half}v${2 * half}`;
  });
  path.setAttribute('d', bars.join(''));
  svg.append(path);
  return svg;
}

// --- Download menu with all formats. All rows share one menu.

/** Menu with download links for the audio files of a take. */
export class TakeFiles {
  /** Find the menu and its links on the page. @param {ParentNode} root */
  constructor(root) {
    this.menu = getElement(root, '#vw-takes-files');
    this.links = getElements(this.menu, 'a', HTMLAnchorElement);
    offerDownloads(this.menu, () => this.record && this.prepare(this.record));
  }


  /** Fill the menu with the links for a take before the menu opens. @param {TakeRecord} record */
  prepare(record) {
    this.record = record;
    for (const link of this.links) link.href = audioUrl(record, link.dataset.format ?? '');
  }
}

// --- Row with text, settings and actions of a take.

const MAX_NAME_CHARS = 48; // Maximum length of the speaker's name in a row.

/** @typedef {import('../player/take.js').TakeRecord} TakeRecord @typedef {HTMLInputElement|HTMLTextAreaElement} Field */

/** Row of a stored take in the Library room. */
export class TakeRow {
  /**
   * Create the row of a stored take.
   *
   * @param {TakeRecord} record @param {import('../app/studio.js').Studio} studio @param {{isUnderDay?: boolean}}
   * [where] isUnderDay: true if the row is below a heading with its day
   */
  constructor(record, studio, { isUnderDay = false } = {}) {
    this.record = record;
    this.studio = studio;
    this.isUnderDay = isUnderDay;
    this.open = false;
    /**
     * True if another take in the list has the same text and voice.
     *
     * The row then also shows the seed.
     */
    this.hasTwin = false;
    this.element = studio.words.copyOf(getElement(studio.page, '#vw-take', HTMLTemplateElement));
    this.element.dataset.take = record.id;
    /** @type {Field[]} */
    this.fields = [...getElements(this.element, '[data-field]', HTMLInputElement), ...getElements(this.element, '[data-field]', HTMLTextAreaElement)];
    this.checkbox = getElement(this.element, '.vw-take-pick', HTMLInputElement);
    this.sharing = new Sharing(this.find('.vw-take-share'), record.id, studio, (action) => this.guard(action));
    this.find('[data-do=share]').hidden = !studio.me.features.share;
    outlineWhenSeen(this.find('.vw-take-outline'), record.id, studio.api);
    this.listen();
    this.paint();
  }

  /** Return the first element in this row that matches a selector. @param {string} selector */
  find(selector) {
    return getElement(this.element, selector);
  }

  listen() {
    const { studio } = this;
    this.find('.vw-take-open').onclick = () => this.unfold(!this.open);
    this.find('.vw-take-play').onclick = () => this.guard(() => this.play());
    this.find('.vw-take-save').onclick = () => studio.takeFiles.prepare(this.record);
    this.find('.vw-take-star').onclick = () => this.guard(() => studio.history.favourite(this.record.id, !this.record.favourite));
    /** @type {Object<string, () => unknown>} */
    const actions = {
      reproduce: () => this.reproduce(),
      restore: () => studio.restore(this.record),
      share: () => this.sharing.begin(),
      code: () => studio.code.show(this.record),
      remove: () => this.remove(),
    };
    for (const [name, action] of Object.entries(actions)) this.find(`[data-do=${name}]`).onclick = () => this.guard(action);
    for (const field of this.fields) {
      field.onchange = () => this.guard(() => studio.history.change(this.record.id, { [field.dataset.field ?? '']: this.value(field) }));
    }
  }

  /**
   * Return the value of a form field.
   *
   * Tags are returned as a list without duplicates.
   *
   * @param {Field} field
   */
  value({ dataset, value }) {
    if (dataset.field !== 'tags') return value.trim();
    return [...new Set(value.split(/[,，、]/).map((tag) => tag.trim()).filter(Boolean))];
  }

  /** Run an action, and show its error in this row. @param {() => unknown} action */
  async guard(action) {
    const place = this.find('.vw-error');
    place.textContent = '';
    try {
      await action();
    } catch (error) {
      this.unfold(true);
      place.textContent = errorOf(error).message;
    }
  }

  /**
   * Update the row after the list or the take has changed.
   *
   * @param {TakeRecord} record current record of the same take @param {{hasTwin: boolean, repeats: boolean}} among repeats: true if
   * the previous take has the same text
   */
  update(record, { hasTwin, repeats }) {
    this.element.toggleAttribute('data-repeats', repeats);
    if (record === this.record && hasTwin === this.hasTwin) return;
    this.record = record;
    this.hasTwin = hasTwin;
    this.paint();
  }

  paint() {
    const { record, studio } = this;
    const { t } = studio;
    const { favourite, tags, seconds, seed } = record;
    const name = this.name;
    this.paintSpeaker();
    this.find('.vw-take-text').textContent = headOf(record);
    const stopped = record.stop_reason === 'cancelled' && t('library.stopped');
    const variation = this.hasTwin && seed !== null && t('library.seed', { seed });
    const details = [clock(seconds * SAMPLE_RATE), this.date, stopped, ...tags.map((tag) => `#${tag}`), variation, this.style];
    // A non-breaking space keeps the separator from starting a line.
    this.find('small span').textContent = (speakerOf(record, studio) && '\u00a0· ') + details.filter(Boolean).join('\u00a0· ');
    const star = this.find('.vw-take-star');
    star.dataset.icon = favourite ? 'starred' : 'star';
    star.setAttribute('aria-pressed', String(favourite));
    star.ariaLabel = t('library.favourite', { name });
    this.follow();
    this.checkbox.ariaLabel = t('library.pick', { name });
    this.find('.vw-take-save').ariaLabel = t('library.download', { name });
    if (this.open) this.fill();
  }

  /** Take of this row if the player shows it, otherwise null. */
  get shown() {
    const { take } = this.studio.stage;
    return take instanceof Take && take.id === this.record.id ? take : null;
  }

  /** Update the play button, which becomes a pause button during playback. */
  follow() {
    const play = this.find('.vw-take-play');
    const sounds = this.studio.stage.isPlaying && this.shown !== null;
    setAttributes(play, { 'data-icon': sounds ? 'pause' : 'play', 'aria-label': this.studio.t(sounds ? 'library.pause' : 'library.play', { name: this.name }) });
  }

  /** Show the name and the icon of the voice that speaks in the take. */
  paintSpeaker() {
    writeText(this.find('.vw-take-who'), shortened(speakerOf(this.record, this.studio)));
    this.find('.vw-take-mark').replaceChildren(this.studio.catalogue.mark(this.record));
  }

  /** Style or voice description of the take, or '' if the caption already contains it. */
  get style() {
    const { instructions } = this.record.config;
    const style = typeof instructions === 'string' ? instructions : '';
    const caption = captionOf(this.record, this.studio.presets.designs);
    return caption.includes(style) || caption.startsWith(suggestedName('', style)) ? '' : shortened(style);
  }

  get name() {
    return this.record.name || this.record.text.slice(0, 40);
  }

  get date() {
    if (this.isUnderDay) return timeOfDay(this.record.created_at * 1000, this.studio.words.language);
    /** @type {Intl.DateTimeFormatOptions} */
    const style = { dateStyle: 'medium', timeStyle: 'short' };
    return new Intl.DateTimeFormat(this.studio.words.language, style).format(this.record.created_at * 1000);
  }

  /** Show or hide the details of the take. @param {boolean} open */
  unfold(open) {
    if (open === this.open) return;
    this.open = open;
    this.find('.vw-take-open').setAttribute('aria-expanded', String(open));
    this.find('.vw-take-more').hidden = !open;
    if (open) this.fill();
    if (open && this.studio.me.features.share) this.guard(() => this.sharing.loadLink());
  }

  fill() {
    const { record } = this;
    /** @type {Object<string, string|null>} */
    const written = { name: record.name, tags: record.tags.join(', '), notes: record.notes };
    for (const field of this.fields) {
      if (field !== document.activeElement) field.value = written[field.dataset.field ?? ''] ?? '';
    }
    this.find('.vw-take-settings').replaceChildren(...this.settings().flatMap(([term, value]) => [createElement('dt', { textContent: term }), createElement('dd', { textContent: value, dir: 'auto' })]));
  }

  /** Return the settings and the results of the take as pairs of label and value. @returns {string[][]} */
  settings() {
    const { t } = this.studio;
    const { mode, model, voice, language, seed, config, metrics, lufs, sha256, stop_reason: reason, reference } = this.record;
    const { voice: _, language: __, ...others } = config;
    const ms = (/** @type {number|null|undefined} */ value) => (value == null ? null : `${Math.round(value)} ms`);
    /** @type {[string, string|null|undefined][]} */
    const rows = [
      [t('library.text'), this.record.text],
      [t('pronunciation.said'), this.record.spoken],
      [t('library.mode'), t(`shell.mode.${mode}`)],
      [t('library.model'), [model?.id, model?.device, model?.dtype].filter(Boolean).join(', ')],
      [t('library.voice'), voice && (this.studio.voices.find(voice)?.name ?? speakerTitle(voice))],
      [t('library.language'), language && (language === 'auto' ? t('shell.auto') : languageName(language))],
      ...Object.entries(others).map(([name, value]) => /** @type {[string, string]} */ ([this.settingName(name), typeof value === 'string' ? value : JSON.stringify(value)])),
      [t('library.reference'), reference && `sha256 ${reference.slice(0, 16)}…`],
      [t('shell.seed'), seed?.toString()],
      [t('shell.meter.ttfa'), ms(metrics?.heard?.ttfa_ms ?? metrics?.ttfa_ms)],
      [t('shell.meter.rtf'), metrics?.rtf?.toFixed(2)],
      [t('shell.meter.reason'), reason && t(`shell.reason.${reason}`)],
      [t('library.loudness'), lufs == null ? null : `${lufs.toFixed(1)} LUFS`],
      ['sha256', `${sha256.slice(0, 16)}…`],
    ];
    return rows.flatMap(([term, value]) => (value ? [[term, value]] : []));
  }

  /** Return the label of a setting, or its name if there is no label. @param {string} name */
  settingName(name) {
    const key = `library.setting.${name}`;
    const label = this.studio.t(key);
    return label === key ? name : label;
  }

  // --- Actions.

  async play() {
    const { studio } = this;
    if (this.shown) return studio.stage.toggle();
    studio.stop();
    studio.stage.play(await studio.history.load(this.record));
  }

  async reproduce() {
    const { studio } = this;
    const outcome = this.find('.vw-take-outcome');
    outcome.textContent = studio.t('library.reproducing');
    studio.stop();
    try {
      const onTake = (/** @type {import('../player/take.js').Take} */ take) => studio.stage.play(take, { clicked: performance.now() });
      const { take, identical, why } = await studio.history.reproduce(this.record.id, { onTake });
      outcome.dataset.identical = String(identical);
      outcome.textContent = take.record ? `${why} ${studio.t('library.reproduced')}` : why;
    } catch (error) {
      outcome.textContent = '';
      throw error;
    }
  }

  async remove() {
    const { studio, record, element } = this;
    const all = [...(element.closest('#vw-takes-list') ?? element).querySelectorAll('.vw-take-open, .vw-script-entry-open')].filter((open) => open.checkVisibility());
    const at = all.indexOf(this.find('.vw-take-open'));
    const next = all[at + 1] ?? all[at - 1];
    await studio.history.remove(record.id);
    if (next instanceof HTMLElement) next.focus();
    studio.toasts.show(studio.t('library.deleted', { name: this.name }), {
      action: studio.t('shell.undo'),
      onAction: () => studio.toasts.guard(() => studio.history.restore(record.id)),
    });
  }
}

/** Return the heading of a row: the name of the stored audio, or else its text. @param {TakeRecord} record */
export function headOf({ name, text }) {
  return name || text;
}

/**
 * Return the name of the voice that speaks in stored audio (a take).
 *
 * @param {TakeRecord} record @param {import('../app/studio.js').Studio} studio
 */
export function speakerOf(record, studio) {
  const voice = record.voice ?? ''; // The request may contain the name or the id of a stored voice.
  return captionOf(record, studio.presets.designs) || (studio.voices.find(voice)?.name ?? speakerTitle(voice));
}

/** Shorten a label to the maximum number of characters in a row. @param {string} label */
function shortened(label) {
  const letters = [...label];
  return letters.length <= MAX_NAME_CHARS ? label : `${letters.slice(0, MAX_NAME_CHARS - 1).join('').trimEnd()}…`;
}
