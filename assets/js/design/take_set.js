/**
 * Takes that were asked for together, and what they came from: three of one description, or more after one that was liked.
 *
 * @typedef {import('./card.js').TakeCard} TakeCard
 * @typedef {{kind: 'described'|'more'|'changed'|'closer'|'longer', from: string|null, words?: string}} Origin
 *   from: the name of a take, as 1B; words: what the description was given
 */

import { copyOf, need } from '../elements.js';

export class TakeSet {
  /**
   * @param {HTMLTemplateElement} template
   * @param {{number: number, at: number, origin: Origin}} given  at: milliseconds since 1970
   * @param {(key: string, values?: Object<string, any>) => string} t
   */
  constructor(template, { number, at, origin }, t) {
    this.number = number;
    this.at = at;
    this.origin = origin;
    this.t = t;
    this.element = copyOf(template);
    const find = (/** @type {string} */ selector) => need(this.element, selector);
    this.title = find('h2');
    this.title.id = `vw-design-set-${number}`;
    this.element.setAttribute('aria-labelledby', this.title.id);
    this.what = find('.vw-design-set-what');
    this.hint = find('.vw-hint');
    this.more = find('.vw-design-set-more');
    this.list = find('ol');
    /** @type {TakeCard[]} */
    this.cards = [];
  }

  /** Put a card at its letter's place. @param {TakeCard} card */
  put(card) {
    const after = this.cards.findIndex(({ letter }) => letter > card.letter);
    const place = after < 0 ? this.cards.length : after;
    this.list.insertBefore(card.element, this.cards[place]?.element ?? null);
    this.cards.splice(place, 0, card);
  }

  /** @param {TakeCard} card */
  take(card) {
    this.cards = this.cards.filter((other) => other !== card);
    card.element.remove();
  }

  /** Whether its takes follow a description; it changes nothing in what was made after a sound. */
  get isDescribed() {
    return this.origin.kind !== 'closer';
  }

  /**
   * @param {string} language of the page
   * @param {{isNewest: boolean, takesChanges: boolean}} place  takesChanges: it is the newest that follows a description
   */
  refresh(language, { isNewest, takesChanges }) {
    const { t, origin } = this;
    this.element.classList.toggle('vw-design-set-old', !isNewest);
    this.element.classList.toggle('vw-design-set-changes', takesChanges);
    this.title.textContent = t('design.set', { n: this.number });
    this.what.textContent = origin.kind === 'changed' ? `+ ${origin.words}` : origin.kind === 'described' ? '' : t(`design.origin.${origin.kind}`);
    this.what.classList.toggle('vw-design-set-change', origin.kind === 'changed');
    const from = origin.from ? t('design.origin.from', { letter: origin.from }) : '';
    const time = new Intl.DateTimeFormat(language, { timeStyle: 'short' }).format(this.at);
    this.hint.textContent = [from, time].filter(Boolean).join(' · ');
    this.more.ariaLabel = t('design.act_of_set', { act: t('design.more'), n: this.number });
    for (const card of this.cards) card.refresh();
  }
}
