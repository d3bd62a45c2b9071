/** Sentences that come and go at the edge of the page, each with at most one thing to do about it. */

const STAY_MS = 8000;
const MOST = 2; // beside each other in a wide window, below each other on a phone: a third one would have no room

/** @typedef {{action?: string, onAction?: () => void, stayMs?: number, isOfPage?: boolean}} Told  isOfPage: it stays when another room is shown */

export class Toasts {
  /** @param {HTMLElement} holder */
  constructor(holder) {
    this.holder = holder;
    /** Those that no room has to itself. @type {WeakSet<Element>} */
    this.ofPage = new WeakSet();
  }

  /** Another room is shown: what was told of the one before would stand over it. */
  leaveRoom() {
    for (const toast of [...this.holder.children]) if (!this.ofPage.has(toast)) toast.remove();
  }

  /**
   * @param {string} sentence
   * @param {Told} [options]
   * @returns {() => void} takes it away
   */
  show(sentence, { action, onAction, stayMs = STAY_MS, isOfPage = false } = {}) {
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
    if (isOfPage) this.ofPage.add(toast);
    this.holder.append(toast);
    while (this.holder.children.length > MOST) this.holder.firstElementChild?.remove();
    return leave;
  }
}
