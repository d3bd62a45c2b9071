/** Sentences that come and go at the edge of the page, each with at most one thing to do about it; one that waits for an answer stays. */

const STAY_MS = 8000;
const MAX_TOASTS = 2; // Toasts shown at once; a third would not fit.

/**
 * @typedef {{action?: string, onAction?: () => void, stayMs?: number, isOfPage?: boolean, dismiss?: string, keys?: {sentence: string, action: string, dismiss: string}}} Told
 *   isOfPage: it stays when another room is shown; dismiss: it stays until it is taken away, which a button of this name does too;
 *   keys: of what is said, so that what stays follows the page's language
 */

export class Toasts {
  /** @param {HTMLElement} holder */
  constructor(holder) {
    this.holder = holder;
    /** Those that no room has to itself. @type {WeakSet<Element>} */
    this.ofPage = new WeakSet();
    // Where they have a row of their own, what is in a room is not laid out anew for it (studio.css).
    new ResizeObserver(() => holder.parentElement?.style.setProperty('--vw-told', `${holder.offsetHeight}px`)).observe(holder);
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
  show(sentence, { action, onAction, stayMs = STAY_MS, isOfPage = false, dismiss, keys } = {}) {
    const toast = document.createElement('p');
    toast.className = dismiss ? 'vw-toast vw-stays' : 'vw-toast';
    const words = Object.assign(document.createElement('span'), { textContent: sentence });
    if (keys) words.dataset.i18n = keys.sentence;
    toast.append(words);
    const leave = () => toast.remove();
    if (action) {
      const button = Object.assign(document.createElement('button'), { type: 'button', textContent: action });
      if (keys) button.dataset.i18n = keys.action;
      button.onclick = () => {
        if (!dismiss) leave();
        onAction?.();
      };
      toast.append(button);
    }
    if (dismiss) toast.append(dismissing(dismiss, keys?.dismiss, leave));
    else passing(toast, leave, stayMs);
    if (isOfPage) this.ofPage.add(toast);
    this.holder.append(toast);
    const notices = [...this.holder.children].filter((one) => !one.matches('.vw-stays'));
    const room = Math.max(1, MAX_TOASTS - (this.holder.children.length - notices.length));
    for (const old of notices.slice(0, -room)) old.remove();
    return leave;
  }
}

/** The button that takes an offer away. @param {string} name @param {string|undefined} key of the name @param {() => void} leave */
function dismissing(name, key, leave) {
  const button = Object.assign(document.createElement('button'), { type: 'button', className: 'vw-quiet', ariaLabel: name, title: name });
  button.dataset.icon = 'close';
  if (key) button.dataset.i18nAriaLabel = button.dataset.i18nTitle = key;
  button.onclick = leave;
  return button;
}

/** It leaves by itself, but not while somebody is at it. @param {HTMLElement} toast @param {() => void} leave @param {number} stayMs */
function passing(toast, leave, stayMs) {
  let timer = setTimeout(leave, stayMs);
  const stay = () => clearTimeout(timer);
  const go = () => {
    stay();
    timer = setTimeout(leave, stayMs);
  };
  for (const event of ['pointerenter', 'focusin']) toast.addEventListener(event, stay);
  for (const event of ['pointerleave', 'focusout']) toast.addEventListener(event, go);
}
