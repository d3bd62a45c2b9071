/**
 * Card of one generated voice sample (take) in the Design room.
 *
 * The card shows waveform, duration, state and buttons. The room runs the actions of the buttons. Events: 'act' with the
 * requested action, 'play', 'menu'.
 *
 * @typedef {import('../player/take.js').Take} Take
 * @typedef {import('./take_requests.js').Change} Change
 * @typedef {{act: 'keep'|'use'|'again'|'closer'|'change', change?: Change, clicked: number}} CardAction
 * @typedef {(key: string, values?: Object<string, any>) => string} Translate
 */

import { getElements, copyOf, Emitter, getElement } from '../common/elements.js';
import { Peaks, drawnHeight, Waveform } from '../player/waveform.js';

const CHANGES = ['state', 'progress', 'done', 'error', 'stored'];
const LENGTH_INTERVAL_MS = 120; // Interval between updates of the duration during generation.

/** Waveform of a take, drawn on a time axis that is the same for all takes. */
class TakeWaveform extends Waveform {
  axisSamples = 0; // Number of samples of the longest take.

  get span() {
    return Math.max(super.span, this.axisSamples);
  }
}

/** @typedef {{id: string, name: string}} SavedVoice */

/**
 * Card of one take, which is a generated voice sample.
 *
 * @extends {Emitter<{act: CardAction, play: {shift: boolean}, menu: null}>}
 */
export class TakeCard extends Emitter {
  /**
   * Create the card of a take from a template.
   *
   * @param {HTMLTemplateElement} template
   * @param {{take: Take, letter: string, set: number, description: string, note?: string|null, voice?: SavedVoice|null}} given
   *   description: description of the voice, also if the take clones another take; note: message key of a note
   * @param {Translate} t
   * @param {import('../speak/voices.js').Voices} voices
   */
  constructor(template, { take, letter, set, description, note = null, voice = null }, t, voices) {
    super();
    this.take = take;
    this.letter = letter;
    this.name = `${set}${letter}`;
    this.description = description;
    this.note = note;
    /** Voice that was saved from the take, even if it was deleted later. */
    this.savedAs = voice;
    this.voices = voices;
    this.t = t;
    this.element = copyOf(template);
    const find = (/** @type {string} */ selector) => getElement(this.element, selector);
    this.article = find('article');
    this.play = getElement(this.element, '.vw-design-take-wave', HTMLButtonElement);
    this.menu = find('.vw-design-take-menu');
    this.error = find('.vw-error');
    this.word = find('.vw-design-take-word');
    this.kept = find('.vw-design-take-kept');
    this.nameLabel = find('.vw-design-take-naming');
    this.buttons = getElements(this.element, '[data-act]', HTMLButtonElement);
    this.wave = new TakeWaveform(getElement(this.element, 'canvas', HTMLCanvasElement));
    this.favourite = false;
    this.canVary = true; // True if variations of this take can be requested.
    this.gainDb = 0;
    this.matched = false;
    this.playing = false;
    this.counted = -Infinity;
    this.shown = '';
    this.article.dataset.letter = letter;
    find('.vw-design-take-letter').textContent = letter;
    this.key = letter.charCodeAt(0) - 64;
    find('kbd').textContent = String(this.key);
    this.word.id = `vw-design-take-word-${this.name}`;
    this.play.setAttribute('aria-describedby', this.word.id);
    /** @param {Event} event */
    this.onTake = ({ type }) => this.changed(type);
    for (const change of CHANGES) take.addEventListener(change, this.onTake);
    this.wave.show(take);
    this.listen();
  }

  listen() {
    this.play.onclick = ({ shiftKey }) => this.emit('play', { shift: shiftKey });
    this.menu.onclick = () => this.emit('menu', null);
    for (const button of this.buttons) {
      button.onclick = () => {
        const { act, change } = /** @type {Pick<CardAction, 'act'|'change'>} */ (button.dataset);
        this.emit('act', { act, change, clicked: performance.now() });
      };
    }
  }

  /** Remove the card from the page, and its listeners from the take. */
  end() {
    for (const change of CHANGES) this.take.removeEventListener(change, this.onTake);
    this.element.remove();
  }

  /** Voice that was saved from the take, or null if none was saved or it was deleted. @returns {SavedVoice|null} */
  get voice() {
    const { savedAs, voices } = this;
    return savedAs && voices.isListed ? voices.find(savedAs.id) : savedAs;
  }

  /** True if the take has audio or is still being generated. */
  get playable() {
    return this.take.samples > 0 || this.take.isReceiving;
  }

  /** Update the card after an event of its take. @param {string} type */
  changed(type) {
    if (type === 'progress' && this.state === this.shown) return this.updateDuration();
    this.refresh();
  }

  /** True if the take failed for a reason that is only temporary. */
  get isRetryable() {
    return this.take.state === 'failed' && this.take.error?.retryable === true;
  }

  get state() {
    if (this.voice) return 'kept';
    if (this.favourite && this.take.state === 'done') return 'favourite';
    return this.take.state;
  }

  /** Update the displayed duration during generation, but not after every chunk. */
  updateDuration() {
    const now = performance.now();
    if (now - this.counted < LENGTH_INTERVAL_MS) return;
    this.counted = now;
    this.word.textContent = this.statusText();
  }

  /**
   * Return the text for the state and the duration of the take.
   *
   * If the take is complete, the text contains only the duration.
   */
  statusText() {
    const { take, state, t } = this;
    const ahead = take.queue?.position ?? 0;
    const word = state === 'queued' && ahead > 0 ? t('design.state.queued_at', { n: ahead }) : t(`design.state.${state}`);
    const length = take.samples ? t('design.length', { s: take.seconds.toFixed(1) }) : '';
    return [['done', 'kept'].includes(state) ? '' : word, length, this.note ? t(this.note) : ''].filter(Boolean).join(' · ');
  }

  /** Text with the attenuation in dB for playback at equal loudness, or '' if unknown. */
  get gainText() {
    return this.matched ? this.t('design.gain', { db: decibels(this.gainDb) }) : '';
  }

  refresh() {
    const { take, state, name, t } = this;
    this.shown = state;
    this.article.dataset.state = state;
    this.article.ariaLabel = t('design.take', { letter: name });
    this.word.textContent = this.statusText();
    this.article.classList.toggle('vw-design-take-playing', this.playing);
    this.play.disabled = !this.playable;
    this.play.dataset.icon = this.playing ? 'stop' : 'play';
    if (this.playable) this.play.setAttribute('aria-keyshortcuts', `${this.key} Shift+${this.key}`);
    this.describe(this.play, this.playing ? 'design.stop' : this.playable ? 'design.play' : 'design.nothing');
    this.describe(this.menu, 'design.menu');
    const isDone = take.state === 'done';
    this.kept.hidden = !this.voice;
    getElement(this.kept, 'b').textContent = this.voice?.name ?? '';
    for (const button of this.buttons) {
      const { act = '', change } = button.dataset;
      const isAgain = act === 'again';
      button.hidden = isAgain !== (take.state === 'stopped' || this.isRetryable);
      button.disabled = (!isDone && !isAgain) || (act === 'closer' && !this.canVary);
      if (act === 'keep') button.hidden ||= Boolean(this.voice);
      if (act === 'use') button.hidden = false;
      if (act === 'closer') button.title = t(this.canVary ? 'design.closer_title' : 'design.closer_without');
      const word = change ? t(`design.change.${change}`) : t(isAgain ? 'design.again_stopped' : `design.${act}`);
      const label = t('design.act_of', { act: word, letter: name });
      if (button.ariaLabel !== label) button.ariaLabel = label;
    }
  }

  /**
   * Fix the height of the card, or release it.
   *
   * With a fixed height, the cards below do not move when the form in this card closes.
   *
   * @param {boolean} on true to fix the height
   */
  fixHeight(on) {
    this.article.style.minHeight = on ? `${this.article.offsetHeight}px` : '';
  }

  /**
   * Set the accessible name of a control, which also names the take.
   *
   * @param {HTMLElement} element @param {string} key message key
   */
  describe(element, key) {
    const label = this.t(key, { letter: this.name });
    if (element.ariaLabel !== label) element.ariaLabel = label;
  }

  /**
   * Set the attenuation with which the take is played.
   *
   * @param {number} gainDb gain in dB, at most 0 @param {boolean} matched true if the loudness of several takes is known
   */
  level(gainDb, matched) {
    this.gainDb = gainDb;
    this.matched = matched;
  }

  /** Height of the largest peak in the waveform, relative to half the height of the canvas. */
  get height() {
    const { low, high } = Peaks.of(this.take);
    return drawnHeight(high.reduce((peak, value, bin) => Math.max(peak, value, -low[bin]), 0));
  }

  /**
   * Set the scales of the waveform, so that all takes can be compared.
   *
   * @param {number} longest number of samples of the longest take
   * @param {number} scale factor for the height
   */
  drawOn(longest, scale) {
    this.play.style.setProperty('--vw-design-scale', scale.toFixed(2));
    if (longest === this.wave.axisSamples) return;
    this.wave.axisSamples = longest;
    this.wave.draw();
  }

  /**
   * Show in the card if the take is playing or was played last.
   *
   * @param {boolean} on true during playback @param {boolean} chosen true if the take was played last
   */
  showPlaying(on, chosen) {
    this.article.classList.toggle('vw-design-take-on', chosen);
    if (on === this.playing) return;
    this.playing = on;
    this.refresh();
  }
}

/** Format the absolute value of a gain with a minus sign (zero has no sign). @param {number} gain */
function decibels(gain) {
  const text = Math.abs(gain).toFixed(1);
  return text === '0.0' ? '0.0' : `−${text}`;
}
