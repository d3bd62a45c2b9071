/**
 * From a take to a voice: the name, a word about a take that is too short, and the request that keeps it.
 *
 * Events: 'kept' with {card, voice}; 'longer' with {card}: a longer text is wanted; 'closed'.
 *
 * @typedef {import('./card.js').TakeCard} TakeCard
 */

import { isShort } from './lineage.js';
import { proposed } from './names.js';

export class Keeping extends EventTarget {
  /** @param {HTMLElement} root the room's panel @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    super();
    this.studio = studio;
    const find = (name) => root.querySelector(`#vw-design-${name}`);
    this.panel = find('keeping');
    this.title = find('keeping-title');
    this.short = find('short');
    this.why = find('short-why');
    this.name = find('name');
    this.button = find('keep');
    this.nameError = find('name-error');
    this.keepError = root.querySelector('[data-error-for=keep]');
    /** @type {TakeCard|null} */
    this.card = null;
    find('keep-form').onsubmit = (event) => {
      event.preventDefault();
      this.keep();
    };
    this.panel.onkeydown = (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation(); // what sounds may go on
      this.close();
    };
    find('keep-not').onclick = () => this.close();
    find('longer').onclick = () => {
      const { card } = this;
      this.close();
      this.dispatchEvent(new CustomEvent('longer', { detail: { card } }));
    };
    this.name.oninput = () => this.complain('', '');
  }

  /** Ask how a take is to be kept. @param {TakeCard} card @param {string} preset name of the preset it came from, or '' */
  open(card, preset) {
    this.card = card;
    const taken = this.studio.voices.list.map(({ name }) => name);
    this.name.value = proposed(preset, card.description, taken);
    this.complain('', '');
    this.panel.hidden = false;
    this.refresh();
    this.panel.scrollIntoView({ block: 'nearest' });
    this.name.focus();
    this.name.select();
  }

  close() {
    this.panel.hidden = true;
    const { card } = this;
    this.card = null;
    if (card) this.dispatchEvent(new CustomEvent('closed', { detail: { card } }));
  }

  /** Another take stands where the one that was asked about stood. @param {TakeCard} card */
  forget(card) {
    if (card === this.card) this.close();
  }

  refresh() {
    if (!this.card) return;
    const { t } = this.studio;
    const { letter, take } = this.card;
    this.title.textContent = t('design.keeping', { letter });
    this.short.hidden = !isShort(take);
    this.why.textContent = t('design.short', { s: take.seconds.toFixed(1) });
  }

  /** @param {string} name what is wrong with the name @param {string} rest */
  complain(name, rest) {
    this.nameError.textContent = name;
    this.keepError.textContent = rest;
    this.name.setAttribute('aria-invalid', String(Boolean(name)));
  }

  async keep() {
    const { card, studio } = this;
    const name = this.name.value.trim();
    if (!name) return this.refuse('name', studio.t('design.name_first'));
    if (studio.voices.find(name)) return this.refuse('name', studio.t('design.name_taken'));
    this.complain('', '');
    this.button.disabled = true;
    try {
      const { take } = card;
      await take.stored();
      if (!take.id) throw new Error(studio.t('design.not_stored'));
      const voice = await studio.api.post(`studio/takes/${take.id}/voice`, { name });
      await studio.voices.refresh();
      if (card.take === take) this.done(card, studio.voices.find(voice.id) ?? voice);
    } catch (error) {
      this.refuse(error.param === 'name' ? 'name' : 'rest', error.message);
    } finally {
      this.button.disabled = false;
    }
  }

  /** @param {'name'|'rest'} place @param {string} sentence */
  refuse(place, sentence) {
    this.complain(place === 'name' ? sentence : '', place === 'name' ? '' : sentence);
    if (place === 'name') this.name.focus();
  }

  /** @param {TakeCard} card @param {Object} voice */
  done(card, voice) {
    this.close();
    this.dispatchEvent(new CustomEvent('kept', { detail: { card, voice } }));
  }
}
