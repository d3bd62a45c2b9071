/** Sentences that come and go at the edge of the page, each with at most one thing to do about it. */

const STAY_MS = 8000;
// On a phone they take the room's height: a third one would take too much.
const NARROW = matchMedia('(max-width: 40rem)');
const MOST = { narrow: 2, wide: 4 };

export class Toasts {
  /** @param {HTMLElement} holder */
  constructor(holder) {
    this.holder = holder;
  }

  /**
   * @param {string} sentence
   * @param {{action?: string, onAction?: () => void}} [options]
   * @returns {() => void} takes it away
   */
  show(sentence, { action, onAction } = {}) {
    const toast = document.createElement('p');
    toast.className = 'vw-toast';
    toast.append(Object.assign(document.createElement('span'), { textContent: sentence }));
    const leave = () => toast.remove();
    if (action) {
      const button = Object.assign(document.createElement('button'), { type: 'button', textContent: action });
      button.onclick = () => {
        leave();
        onAction?.();
      };
      toast.append(button);
    }
    let timer = setTimeout(leave, STAY_MS);
    const stay = () => clearTimeout(timer);
    const go = () => {
      stay();
      timer = setTimeout(leave, STAY_MS);
    };
    for (const event of ['pointerenter', 'focusin']) toast.addEventListener(event, stay);
    for (const event of ['pointerleave', 'focusout']) toast.addEventListener(event, go);
    this.holder.append(toast);
    const most = NARROW.matches ? MOST.narrow : MOST.wide;
    while (this.holder.children.length > most) this.holder.firstElementChild?.remove();
    return leave;
  }
}
