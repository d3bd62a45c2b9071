/** List of voices that were saved in the Design room, and a form that blends two voices. */

import { errorOf } from '../common/api.js';
import { getElements, createElement, getElement, onSubmit } from '../common/elements.js';
import { FieldError, fillSelect, speakerTitle } from '../common/fields.js';
import { MIN_REFERENCE_S } from './keep_form.js';

/** @typedef {import('../speak/voices.js').StoredVoice} StoredVoice */

const TOLD = ['description', 'model', 'revision', 'seed', 'language', 'take', 'sha256', 'parent'];

// Number of listed voices until the user presses "Show all".
const INITIAL_VOICES = 12;

/** List of the voices that were saved in the Design room. */
export class DesignedVoices {
  /** True after the user has requested all voices. */
  showsAll = false;

  /**
   * Create the list from the elements of the Design room.
   *
   * @param {HTMLElement} root panel of the room
   * @param {import('../app/studio.js').Studio} studio
   * @param {{again: (voice: StoredVoice) => void}} acts
   */
  constructor(root, studio, { again }) {
    this.studio = studio;
    this.again = again;
    this.section = getElement(root, '#vw-design-voices');
    this.list = getElement(root, '#vw-design-voices-list');
    studio.voices.addEventListener('change', () => this.refresh());
  }

  refresh() {
    const designed = this.studio.voices.list.filter(({ provenance }) => ['design', 'blend'].includes(provenance.source));
    designed.sort((one, other) => other.created_at - one.created_at);
    const open = new Set(getElements(this.list, 'li:has(details[open])').map(({ dataset }) => dataset.voice));
    this.section.hidden = designed.length === 0;
    const shown = this.showsAll ? designed : designed.slice(0, INITIAL_VOICES);
    this.list.replaceChildren(...shown.map((voice) => this.entry(voice, open.has(voice.id))));
    const { t } = this.studio;
    const onclick = () => {
      this.showsAll = true;
      this.refresh();
      getElement(this.list, `li:nth-child(${INITIAL_VOICES + 1}) button`).focus();
    };
    if (shown.length < designed.length) {
      this.list.append(createElement('li', {}, [createElement('button', { type: 'button', textContent: t('design.all_voices', { n: designed.length }), onclick })]));
    }
  }

  /**
   * Return the list item of a voice, with a description of its origin.
   *
   * @param {StoredVoice} voice @param {boolean} open
   */
  entry(voice, open) {
    const { t } = this.studio;
    const summary = createElement('summary', { textContent: t('design.from') });
    summary.dataset.icon = 'right';
    const entry = createElement('li', {}, [
      createElement('h3', { textContent: voice.name }),
      createElement('p', { className: 'vw-design-words', textContent: voice.provenance.description ?? voice.description ?? '' }),
      createElement('div', { className: 'vw-design-acts' }, [
        this.button('design.use', voice, () => this.studio.go('speakers', { voice: voice.id })),
        this.button('design.in_script', voice, () => this.studio.go('script', { voice: voice.id })),
        ...(voice.provenance.description ? [this.button('design.again', voice, () => this.again(voice))] : []),
      ]),
      createElement('details', { open, className: 'vw-unfolds' }, [summary, this.origin(voice.provenance)]),
    ]);
    entry.dataset.voice = voice.id;
    return entry;
  }

  /**
   * Return a button whose accessible name contains the name of the voice.
   *
   * @param {string} key @param {StoredVoice} voice @param {() => void} onclick
   */
  button(key, voice, onclick) {
    const textContent = this.studio.t(key);
    return createElement('button', { type: 'button', textContent, onclick, ariaLabel: `${textContent}: ${voice.name}` });
  }

  /** Return a list of the values from which a voice was generated. @param {Object<string, string>} provenance */
  origin(provenance) {
    const rows = TOLD.filter((name) => provenance[name]).map((name) =>
      createElement('div', {}, [
        createElement('dt', { textContent: this.studio.t(`design.from.${name}`) }),
        createElement('dd', { textContent: name === 'language' ? speakerTitle(provenance[name]) : provenance[name] }),
      ]),
    );
    return createElement('dl', {}, rows);
  }
}

// --- Slider between two voices. The blend is played when the slider has moved, and can be stored as a voice.

/** @typedef {import('../speak/voices.js').Choice} Choice */

const BLEND_DELAY_MS = 250; // Delay in milliseconds between the last movement of the slider and playback.
const BLEND_SEED = 7; // Constant seed, so that two blends differ only in the voice.

/** Form that blends two stored voices and saves the result as a new voice. */
export class BlendForm {
  /** Take of the blend in the form, or null if it was not played. @type {import('../player/take.js').Take|null} */
  take = null;
  /** Last blend that was played, even if the form has changed since then. @type {import('../player/take.js').Take|null} */
  played = null;

  /**
   * Create the form from the elements of the Design room.
   *
   * @param {HTMLElement} root panel of the room @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.studio = studio;
    this.root = getElement(root, '#vw-blend');
    this.first = getElement(root, '#vw-blend-first', HTMLSelectElement);
    this.second = getElement(root, '#vw-blend-second', HTMLSelectElement);
    this.share = getElement(root, '#vw-blend-share', HTMLInputElement);
    this.slider = getElement(root, '#vw-blend-mix');
    this.name = getElement(root, '#vw-blend-name', HTMLInputElement);
    this.error = getElement(root, '#vw-blend-error');
    studio.catalogue.addEventListener('change', () => this.offer());
    this.first.onchange = this.second.onchange = () => this.change();
    this.share.oninput = () => this.change();
    getElement(root, '#vw-blend-hear').onclick = () => this.playBlend();
    onSubmit(getElement(root, '#vw-blend form'), () => this.saveBlend());
  }

  /**
   * Fill both selectors with all available voices.
   *
   * Voices without consent to blends cannot be selected.
   */
  offer() {
    const { voices, studio } = this;
    const available = studio.catalogue.all.filter(({ why }) => !why);
    const choices = available.map(({ key, name, refusesBlends }) => [key, refusesBlends ? studio.t('design.blend_refused', { name }) : name]);
    const isNew = this.second.options.length === 0;
    for (const select of [this.first, this.second]) {
      fillSelect(select, choices);
      available.forEach(({ refusesBlends }, index) => (select.options[index].disabled = Boolean(refusesBlends)));
      if (select.selectedOptions[0]?.disabled) select.value = voices[0]?.key ?? '';
    }
    if (isNew && voices.length > 1) this.second.value = voices[1].key;
    this.root.hidden = voices.length < 2;
    this.show();
  }

  /** Available voices that may be blended. */
  get voices() {
    return this.studio.catalogue.all.filter(({ why, refusesBlends }) => !why && !refusesBlends);
  }

  /** The two voices that are selected for the blend. @returns {Choice[]} */
  get chosen() {
    return [this.first, this.second].flatMap(({ value }) => this.voices.find(({ key }) => key === value) ?? []);
  }

  show() {
    const [first, second] = this.chosen;
    const other = this.share.valueAsNumber;
    this.slider.textContent = second ? this.studio.t('design.blend_mix', { first: first.name, second: second.name, one: 100 - other, other }) : '';
  }

  /**
   * Show the new proportion of the blend, and play the blend after a short delay.
   *
   * Other audio, such as a script, is not interrupted.
   */
  change() {
    const { studio } = this;
    this.take = null;
    this.show();
    clearTimeout(this.playTimer);
    if (!studio.isBusy || studio.stage.take === this.played) this.playTimer = setTimeout(() => this.playBlend(), BLEND_DELAY_MS);
  }

  playBlend() {
    const { studio, chosen } = this;
    clearTimeout(this.playTimer);
    this.error.textContent = '';
    if (chosen.length < 2 || !studio.isReachable()) return;
    const clicked = performance.now();
    const other = this.share.valueAsNumber / 100;
    const [first, second] = chosen.map(({ voice }) => voice);
    const mode = chosen.some((one) => one.mode === 'custom_voice') ? 'custom_voice' : 'base';
    const config = { voice: `${first}:${(1 - other).toFixed(2)}+${second}:${other.toFixed(2)}` };
    const label = this.slider.textContent ?? '';
    studio.stop();
    studio.stage.player.start().catch(() => {});
    try {
      const take = studio.speech.say({ room: 'design', mode, config, text: studio.text, seed: BLEND_SEED, label, isQuiet: true, keepsStopped: false });
      take.addEventListener('error', () => {
        if (studio.stage.take === take && !take.samples) studio.stage.show(studio.stage.lastWithAudio);
        if (take === this.take) this.showError(take.error);
      });
      this.take = this.played = take;
      studio.stage.play(take, { clicked });
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.showError(error);
    }
    this.show();
  }

  async saveBlend() {
    const { studio, take } = this;
    const name = this.name.value.trim();
    const isOne = [0, 100].includes(this.share.valueAsNumber);
    const missing = isOne ? 'design.blend_one' : !name ? 'design.name_first' : !take ? 'design.blend_unheard' : '';
    this.error.textContent = missing && studio.t(missing);
    if (missing || !take) return;
    try {
      await take.stored();
      if (take.seconds < MIN_REFERENCE_S) throw new Error(studio.t('design.blend_short', { least: MIN_REFERENCE_S }));
      if (!take.id) throw new Error(studio.t('design.not_stored'));
      await studio.api.post(`studio/takes/${take.id}/voice`, { name });
      await studio.voices.refresh();
      this.name.value = '';
      studio.toasts.show(studio.t('design.blend_kept', { name }));
    } catch (thrown) {
      this.showError(errorOf(thrown));
    }
  }

  /** Show an error of the blend, and scroll to it. @param {Error|null} error */
  showError(error) {
    this.error.textContent = error?.message ?? '';
    this.error.scrollIntoView({ block: 'nearest' });
  }
}
