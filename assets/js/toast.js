/** Sentences that come and go at the edge of the page, each with at most one thing to do about it. */

const STAY_MS = 8000;
const MOST = 2; // beside each other in a wide window, below each other on a phone: a third one would have no room

export class Toasts {
  /** @param {HTMLElement} holder */
  constructor(holder) {
    this.holder = holder;
  }

  /**
   * @param {string} sentence
   * @param {{action?: string, onAction?: () => void, stayMs?: number}} [options]
   * @returns {() => void} takes it away
   */
  show(sentence, { action, onAction, stayMs = STAY_MS } = {}) {
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
    let timer = setTimeout(leave, stayMs);
    const stay = () => clearTimeout(timer);
    const go = () => {
      stay();
      timer = setTimeout(leave, stayMs);
    };
    for (const event of ['pointerenter', 'focusin']) toast.addEventListener(event, stay);
    for (const event of ['pointerleave', 'focusout']) toast.addEventListener(event, go);
    this.holder.append(toast);
    while (this.holder.children.length > MOST) this.holder.firstElementChild?.remove();
    return leave;
  }
}
