/** What can be done with a take beside keeping it: its seed into the form, its file, and out with it. One menu serves all cards. */

import { kept } from '../keep.js';

export class TakeMenu {
  /**
   * @param {HTMLElement} root the popover
   * @param {(key: string, values?: Object<string, any>) => string} t
   * @param {{again: (card: import('./card.js').TakeCard) => void, drop: (card: import('./card.js').TakeCard) => void}} acts
   */
  constructor(root, t, { again, drop }) {
    this.root = root;
    this.t = t;
    /** @type {import('./card.js').TakeCard|null} */
    this.card = null;
    this.facts = /** @type {HTMLElement} */ (root.querySelector('p'));
    this.link = /** @type {HTMLAnchorElement} */ (root.querySelector('a'));
    root.onclick = ({ target }) => {
      const act = /** @type {HTMLElement} */ (target).closest('[data-do], a');
      if (!act || !this.card) return;
      root.hidePopover();
      if (!(act instanceof HTMLElement)) return;
      if (act.dataset.do === 'again') again(this.card);
      if (act.dataset.do === 'drop') drop(this.card);
    };
  }

  /** Be of this card, before the menu opens. @param {import('./card.js').TakeCard} card */
  of(card) {
    this.card = card;
    const { record, seed } = card.take;
    this.facts.textContent = [this.t('design.seed', { seed }), card.turnedDown].filter(Boolean).join(' · ');
    this.facts.title = card.turnedDown ? this.t('design.gain_title') : '';
    this.link.hidden = !record;
    if (record) this.link.href = kept(record, 'wav');
  }
}
