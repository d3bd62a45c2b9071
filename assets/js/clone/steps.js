/** The Clone room's three steps: one is open, those before it are done, those behind it are to come. The address names the open one. */

/** The step that the address names; null: none. @returns {number|null} */
export function addressed() {
  const [, step] = /^#\/clone\/([1-3])$/.exec(location.hash) ?? [];
  return step ? Number(step) : null;
}

export class Steps {
  /**
   * @param {HTMLElement} root  the list
   * @param {Object} told
   * @param {import('../words.js').Words['t']} told.t
   * @param {() => number} told.furthest  that may be opened
   * @param {() => void} told.onOpen
   */
  constructor(root, { t, furthest, onOpen }) {
    this.t = t;
    this.furthest = furthest;
    this.onOpen = onOpen;
    this.at = 1;
    this.items = [...root.querySelectorAll('.vw-step')].map((item) => ({
      item: /** @type {HTMLElement} */ (item),
      heading: /** @type {HTMLElement} */ (item.querySelector('h3')),
      body: /** @type {HTMLElement} */ (item.querySelector('.vw-step-body')),
      sum: /** @type {HTMLElement} */ (item.querySelector('.vw-step-sum')),
      change: /** @type {HTMLButtonElement} */ (item.querySelector('.vw-step-change')),
    }));
    this.items.forEach(({ change }, index) => (change.onclick = () => this.go(index + 1)));
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
      change.ariaLabel = `${this.t('clone.change')}: ${heading.textContent}`;
      heading.ariaLabel = isDone ? `${heading.textContent} (${this.t('clone.step.done')})` : null;
    });
  }
}
