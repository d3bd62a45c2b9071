/** The Clone room's three steps: one is open, those before it are done, those behind it are to come. The address names the open one. */

import { all, need } from '../elements.js';

/** The step that the address names; null: none. @returns {number|null} */
export function addressed() {
  const [, step] = /^#\/clone\/([1-3])$/.exec(location.hash) ?? [];
  return step ? Number(step) : null;
}

export class Steps {
  /**
   * @param {HTMLElement} root  the room's panel
   * @param {Object} told
   * @param {import('../words.js').Words} told.words
   * @param {() => number} told.furthest  that may be opened
   * @param {() => void} told.onOpen
   */
  constructor(root, { words, furthest, onOpen }) {
    this.words = words;
    this.furthest = furthest;
    this.onOpen = onOpen;
    this.at = 1;
    const head = need(root, '#vw-clone-step-head', HTMLTemplateElement).content;
    const items = all(root, '.vw-step');
    items.forEach((item, index) => item.prepend(this.headed(head, item, index + 1)));
    this.items = items.map((item) => ({
      item,
      heading: need(item, 'h3'),
      body: need(item, '.vw-step-body'),
      sum: need(item, '.vw-step-sum'),
      change: need(item, '.vw-step-change'),
    }));
    this.items.forEach(({ change }, index) => (change.onclick = () => this.go(index + 1)));
  }

  /** A step's number, title and way back. @param {DocumentFragment} head @param {HTMLElement} item @param {number} step */
  headed(head, { dataset }, step) {
    const own = document.importNode(head, true);
    need(own, '.vw-step-no').textContent = String(step);
    need(own, 'h3').dataset.i18n = dataset.title;
    this.words.apply(own);
    return own;
  }

  /** Open a step, or the furthest before it that can be. @param {number} step */
  open(step) {
    this.at = Math.max(1, Math.min(step, this.furthest()));
    this.onOpen();
  }

  /** Open a step by hand: its heading gets the focus, and the address names it. @param {number} step */
  go(step) {
    this.open(step);
    this.name();
    const { heading } = this.items[this.at - 1];
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: 'nearest' });
  }

  /** Have the address name the open step; Back leads to the room before all the same. */
  name() {
    if (!/^#\/clone(\/|$)/.test(location.hash)) return;
    const there = new URL(location.href);
    there.hash = `/clone/${this.at}`;
    history.replaceState(history.state, '', there);
  }

  /** @param {string[]} summaries of what is done @param {boolean} isOver all are done, and none can be changed */
  paint(summaries, isOver) {
    this.items.forEach(({ item, heading, body, sum, change }, index) => {
      const step = index + 1;
      const isDone = isOver || step < this.at;
      const isOpen = !isOver && step === this.at;
      item.dataset.state = isOpen ? 'open' : isDone ? 'done' : 'to-come';
      if (isOpen) item.setAttribute('aria-current', 'step');
      else item.removeAttribute('aria-current');
      body.hidden = !isOpen;
      sum.textContent = isDone ? summaries[index] : '';
      change.hidden = !isDone || isOver;
      change.ariaLabel = `${this.words.t('clone.change')}: ${heading.textContent}`;
      heading.ariaLabel = isDone ? `${heading.textContent} (${this.words.t('clone.step.done')})` : null;
    });
  }
}
