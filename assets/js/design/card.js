/**
 * One of the three places for a take: its waveform, seed, length and state, and what can be done with it.
 *
 * The card shows and asks; what becomes of a take is the room's to say. Events: 'act' with {act} in detail, one of
 * 'keep', 'use', 'more', 'reroll', 'drop', and when it was {clicked}; 'play' with {shift}.
 *
 * @typedef {import('../take.js').Take} Take
 * @typedef {{letter: string, by: 'sound'|'description'}} Origin  another take, and what of it was used
 */

import { Peaks } from '../peaks.js';
import { shown, Waveform } from '../waveform.js';
import { parsed } from './seeds.js';

const CHANGES = ['progress', 'done', 'error', 'stored'];
const COUNT_MS = 120; // between two writings of a number that runs

/** The waveform of one of several takes, all on one axis of time. */
class Side extends Waveform {
  longest = 0; // samples

  get span() {
    return Math.max(super.span, this.longest);
  }
}

export class TakeCard extends EventTarget {
  /**
   * @param {HTMLTemplateElement} template
   * @param {string} letter
   * @param {string} key          the key that plays it
   * @param {(key: string, values?: Object) => string} t
   */
  constructor(template, letter, key, t) {
    super();
    this.letter = letter;
    this.t = t;
    this.element = /** @type {HTMLElement} */ (template.content.firstElementChild.cloneNode(true));
    const find = (selector) => this.element.querySelector(selector);
    this.article = find('article');
    this.play = find('.vw-design-play');
    this.seed = find('.vw-design-seed input:not([type=checkbox])');
    this.lock = find('.vw-design-seed input[type=checkbox]');
    this.error = find('.vw-error');
    this.word = find('.vw-design-word');
    this.length = find('.vw-design-length');
    this.glyph = find('.vw-design-glyph');
    this.facts = find('.vw-design-facts');
    this.acts = [...this.element.querySelectorAll('[data-act]')];
    this.wave = new Side(find('canvas'));
    /** @type {Take|null} */
    this.take = null;
    this.dropped = false;
    /** @type {Object<string, any>|null} what it was kept as */
    this.voice = null;
    this.favourite = false;
    /** What it was made after. @type {Origin|null} */
    this.origin = null;
    this.description = ''; // of the voice, also where it was made after another take's sound
    this.closer = true; // whether a take can be made after its sound
    this.gainDb = 0;
    this.matched = false;
    this.playing = false;
    find('.vw-design-letter').textContent = letter;
    find('kbd').textContent = key;
    this.play.setAttribute('aria-keyshortcuts', `${key} Shift+${key}`);
    this.place = `seed-${letter}`;
    this.error.dataset.errorFor = this.place;
    this.error.id = `vw-design-seed-error-${letter}`;
    this.seed.setAttribute('aria-describedby', this.error.id);
    this.facts.id = `vw-design-facts-${letter}`;
    this.play.setAttribute('aria-describedby', this.facts.id);
    this.listen();
  }

  listen() {
    this.onTake = ({ type }) => this.changed(type);
    this.play.onclick = ({ shiftKey }) => {
      this.dispatchEvent(new CustomEvent('play', { detail: { shift: shiftKey } }));
    };
    for (const button of this.acts) {
      button.onclick = () => {
        const detail = { act: button.dataset.act, clicked: performance.now() };
        this.dispatchEvent(new CustomEvent('act', { detail }));
      };
    }
    this.seed.oninput = () => {
      this.lock.checked = this.seed.value.trim() !== '';
      this.error.textContent = '';
    };
  }

  /** The seed that was locked; null where one is to be drawn, undefined where what was typed is none. */
  locked() {
    if (!this.lock.checked) return null;
    return parsed(this.seed.value) ?? undefined;
  }

  /** Whether there is something to hear, now or soon. */
  get playable() {
    return Boolean(this.take) && !this.dropped && (this.take.samples > 0 || this.take.live);
  }

  /** @param {Take} take @param {{origin?: Origin|null, description?: string}} [options] */
  show(take, { origin = null, description = take.config.instructions } = {}) {
    for (const change of CHANGES) {
      this.take?.removeEventListener(change, this.onTake);
      take.addEventListener(change, this.onTake);
    }
    this.take = take;
    this.origin = origin;
    this.description = description;
    this.dropped = false;
    this.voice = null;
    this.favourite = false;
    this.gainDb = 0;
    this.matched = false;
    this.playing = false;
    this.seed.value = String(take.seed);
    this.wave.show(take);
    this.error.textContent = '';
    this.refresh();
  }

  /** @param {string} type */
  changed(type) {
    if (type === 'progress' && this.state === this.shown) return this.count();
    this.refresh();
  }

  get state() {
    const { take } = this;
    if (!take) return 'empty';
    if (this.dropped) return 'dropped';
    if (this.voice) return 'kept';
    if (this.favourite && take.state === 'done') return 'favourite';
    return take.state;
  }

  /** Write the length of a take that grows, not at every chunk. */
  count() {
    const now = performance.now();
    if (now - (this.counted ?? 0) < COUNT_MS) return;
    this.counted = now;
    this.length.textContent = this.lengthNow();
  }

  lengthNow() {
    return this.take?.samples ? this.t('design.length', { s: this.take.seconds.toFixed(1) }) : '';
  }

  refresh() {
    const { take, state, letter, t } = this;
    this.shown = state;
    this.article.dataset.state = state;
    const ahead = take?.queue?.position ?? 0;
    this.word.textContent =
      state === 'queued' && ahead > 0 ? t('design.state.queued_at', { n: ahead }) : t(`design.state.${state}`, { name: this.voice?.name ?? '' });
    this.length.textContent = this.lengthNow();
    const gain = this.matched ? t('design.gain', { db: decibels(this.gainDb) }) : '';
    const origin = this.origin ? t(`design.after.${this.origin.by}`, { letter: this.origin.letter }) : '';
    this.facts.textContent = [origin, gain].filter(Boolean).join(' · ');
    this.facts.title = gain ? t('design.gain_title') : '';
    this.article.classList.toggle('vw-design-playing', this.playing);
    this.play.disabled = !this.playable;
    this.glyph.dataset.icon = this.playing ? 'stop' : 'play';
    this.describe(this.article, 'design.take');
    this.describe(this.play, this.playing ? 'design.stop' : this.playable ? 'design.play' : 'design.nothing');
    this.describe(this.seed, 'design.seed_of');
    this.describe(this.lock, 'design.lock_of');
    const whole = take?.state === 'done' && !this.dropped;
    const able = {
      keep: whole,
      use: whole,
      more: whole,
      reroll: Boolean(take),
      drop: Boolean(take) && !this.dropped,
    };
    for (const button of this.acts) {
      const { act } = button.dataset;
      const key = act === 'more' && this.closer ? 'design.closer' : `design.${act}`;
      if (act === 'more') Object.assign(button, { textContent: t(key), title: t(`${key}_title`) });
      button.disabled = !able[act];
      button.hidden = act === (this.voice ? 'keep' : 'use');
      button.ariaLabel = t('design.act_of', { act: t(key), letter });
    }
  }

  /** Name a control for those who hear the page. @param {HTMLElement} element @param {string} key */
  describe(element, key) {
    const label = this.t(key, { letter: this.letter });
    if (element.ariaLabel !== label) element.ariaLabel = label;
  }

  /** @param {number} gainDb @param {boolean} matched whether it is known how loud this and another are */
  level(gainDb, matched) {
    this.gainDb = gainDb;
    this.matched = matched;
    this.refresh();
  }

  /** How high the waveform reaches, of the canvas' half. */
  get height() {
    const { low, high } = Peaks.of(this.take);
    return shown(high.reduce((peak, value, bin) => Math.max(peak, value, -low[bin]), 0));
  }

  /** Draw on axes that hold the longest and the highest of the takes. @param {number} longest samples @param {number} scale */
  stretch(longest, scale) {
    this.play.style.setProperty('--vw-design-scale', scale.toFixed(2));
    if (longest === this.wave.longest) return;
    this.wave.longest = longest;
    this.wave.draw();
  }

  /** @param {boolean} on */
  sound(on) {
    if (on === this.playing) return;
    this.playing = on;
    this.refresh();
  }
}

/** A true minus sign, and no minus before nothing. @param {number} gain */
function decibels(gain) {
  const text = Math.abs(gain).toFixed(1);
  return text === '0.0' ? '0.0' : `−${text}`;
}
