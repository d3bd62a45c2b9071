/**
 * Messages on the page: toasts, errors next to form fields, and notes about a take.
 *
 * A take is the audio that the runtime generates for one request.
 */

import { errorOf } from '../common/api.js';
import { formatDuration } from '../common/dates.js';
import { getElements, createElement, getElement, writeText } from '../common/elements.js';
import { scriptName, unsupportedScript } from '../common/language_detection.js';
import { translateMessage, nameOf } from '../common/server_messages.js';
import { Take, UNANSWERED_DELAY_MS } from '../player/take.js';

// --- Toasts (short messages at the edge of the page), with up to two buttons. A toast with a question stays until an answer.

const STAY_MS = 8000;
const MAX_TOASTS = 2; // Maximum number of toasts that are shown at once.

/**
 * @typedef {{action?: string, onAction?: () => void, also?: {action: string, onAction: () => void}, stayMs?: number, isOfPage?: boolean, dismiss?: string, keys?: {sentence: string, action: string, dismiss: string, values?: Record<string, string>}}} ToastOptions
 *   also: a second action; isOfPage: the toast stays when another room is shown; dismiss: the toast stays until the user closes it with a button of this name;
 *   keys: message keys of the texts. If the page's language changes, the toast is translated with these keys.
 */

export class Toasts {
  /**
   * Create the toasts of the page.
   *
   * The holder is the element that contains them.
   *
   * @param {HTMLElement} holder
   */
  constructor(holder) {
    this.holder = holder;
    /** Toasts that stay when the room changes. @type {WeakSet<Element>} */
    this.pageToasts = new WeakSet();
    // The CSS variable --vw-told contains the height of the toasts. studio.css reserves this height in narrow windows,
    // so toasts do not move the rooms above.
    new ResizeObserver(() => holder.parentElement?.style.setProperty('--vw-told', `${holder.offsetHeight}px`)).observe(holder);
  }

  /** Remove the toasts that belong to the room that the user is leaving. */
  leaveRoom() {
    for (const toast of [...this.holder.children]) if (!this.pageToasts.has(toast)) toast.remove();
  }

  /**
   * Show a toast, which is a short message at the edge of the page.
   *
   * @param {string} sentence
   * @param {ToastOptions} [options]
   * @returns {() => void} function that closes the toast
   */
  show(sentence, { action, onAction, also, stayMs = STAY_MS, isOfPage = false, dismiss, keys } = {}) {
    const words = createElement('span', { textContent: sentence });
    if (keys) Object.assign(words.dataset, keys.values, { i18n: keys.sentence });
    const toast = createElement('p', { className: dismiss ? 'vw-toast vw-stays' : 'vw-toast' }, [words]);
    const leave = () => toast.remove();
    if (action) {
      const button = createElement('button', { type: 'button', textContent: action });
      if (keys) button.dataset.i18n = keys.action;
      button.onclick = () => {
        if (!dismiss) leave();
        onAction?.();
      };
      toast.append(button);
    }
    if (also) toast.append(createElement('button', { type: 'button', textContent: also.action, onclick: () => [leave(), also.onAction()] }));
    if (dismiss) toast.append(closeButton(dismiss, keys?.dismiss, leave));
    else closeLater(toast, leave, stayMs);
    if (isOfPage) this.pageToasts.add(toast);
    this.holder.append(toast);
    const notices = [...this.holder.children].filter((one) => !one.matches('.vw-stays'));
    const room = Math.max(1, MAX_TOASTS - (this.holder.children.length - notices.length));
    for (const old of notices.slice(0, -room)) old.remove();
    return leave;
  }

  /**
   * Run an action and return its result, or show its error and return undefined.
   *
   * @template T
   * @param {() => T|Promise<T>} action
   */
  async guard(action) {
    try {
      return await action();
    } catch (error) {
      this.show(errorOf(error).message);
    }
  }
}

/**
 * Return the close button of a toast.
 *
 * @param {string} name
 * @param {string|undefined} key message key of the name
 * @param {() => void} leave
 */
function closeButton(name, key, leave) {
  const button = createElement('button', { type: 'button', className: 'vw-quiet', ariaLabel: name, title: name, onclick: leave });
  button.dataset.icon = 'close';
  if (key) button.dataset.i18nAriaLabel = button.dataset.i18nTitle = key;
  return button;
}

/**
 * Close a toast after a delay, but not while the pointer or the focus is on it.
 *
 * @param {HTMLElement} toast
 * @param {() => void} leave function that closes the toast
 * @param {number} stayMs delay in ms
 */
function closeLater(toast, leave, stayMs) {
  let timer = setTimeout(leave, stayMs);
  const stay = () => clearTimeout(timer);
  const go = () => {
    stay();
    timer = setTimeout(leave, stayMs);
  };
  for (const event of ['pointerenter', 'focusin']) toast.addEventListener(event, stay);
  for (const event of ['pointerleave', 'focusout']) toast.addEventListener(event, go);
}

// --- Error messages, each at the form field that it concerns.

/** Map of server field names to form field names, if they differ. @type {Object<string, string>}  */
const PLACE = { input: 'text', speaker: 'voice', instruct: 'instructions' };

/** Error messages of the page, each shown at the form field that it concerns. */
export class ErrorMessages {
  /**
   * Messages shown while the runtime is unavailable, by element.
   *
   * `then` is the message that replaces `sentence` when the runtime is available again.
   *
   * @type {Map<HTMLElement, {sentence: string, then: string}>}
   */
  shownWhileAway = new Map();
  /**
   * Messages shown since the runtime became available again, by element.
   *
   * They are cleared if the runtime becomes unavailable again.
   *
   * @type {Map<HTMLElement, string>}
   */
  shownSinceReady = new Map();

  /** Create the error messages of a page. @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.page = page;
    this.studio = studio;
  }

  /**
   * Show a message at an element, or at the form field with this name.
   *
   * If there is no such field, the message is shown at the Speak button. For a room that is not shown, it is shown as a
   * toast. An error about the connection is cleared when the runtime is available again.
   *
   * @param {HTMLElement|string} place @param {Error|string} error @param {string} [room] id of a room, by default the current one
   * @returns {HTMLElement|null} the element with the message, or null for a toast or no message
   */
  showMessage(place, error, room = this.studio.current?.id) {
    const sentence = typeof error === 'string' ? error : error.message;
    const holder = place instanceof HTMLElement ? place : this.errorElement(place, room);
    if (!holder) {
      if (sentence) this.studio.toasts.show(sentence);
      return null;
    }
    holder.textContent = sentence;
    if (Object(error).unreachable) this.shownWhileAway.set(holder, { sentence, then: '' });
    if (sentence && holder !== place) holder.closest('details')?.setAttribute('open', '');
    return holder;
  }

  /**
   * Run an action, and show its error at the form field that it concerns.
   *
   * @param {() => unknown} action @param {string} [room] id of a room, by default the current one
   * @throws {Error} The error is neither of a form field nor of a server.
   */
  async guard(action, room) {
    try {
      await action();
    } catch (thrown) {
      const error = errorOf(thrown);
      if (!error.field && !error.code) throw error;
      this.showMessage(error.field ?? error.param ?? 'request', error, room);
    }
  }

  /**
   * Show an error that applies only while the runtime is unavailable.
   *
   * When the runtime is available again, `nextText` replaces the error.
   *
   * @param {HTMLElement|string} place @param {Error|string} error @param {string} nextText @param {string} [room]
   */
  showUntilReady(place, error, nextText, room) {
    const holder = this.showMessage(place, error, room);
    if (holder) this.shownWhileAway.set(holder, { sentence: holder.textContent ?? '', then: nextText });
  }

  /**
   * Replace the errors that `showUntilReady` has shown, because the runtime is available.
   *
   * This is called each time the runtime becomes available again.
   */
  back() {
    for (const [holder, { sentence, then }] of this.shownWhileAway) {
      if (holder.textContent !== sentence) continue;
      holder.textContent = then;
      this.shownSinceReady.set(holder, then);
    }
    this.shownWhileAway.clear();
  }

  /** Clear the messages about the recovery, because the runtime is unavailable again. */
  onUnavailable() {
    for (const [holder, then] of this.shownSinceReady) if (holder.textContent === then) holder.textContent = '';
    this.shownSinceReady.clear();
  }

  /**
   * Return the element for the error of a form field, or null if the field is not shown.
   *
   * @param {string} place @param {string|undefined} room @returns {HTMLElement|null}
   */
  errorElement(place, room) {
    const { current, dock } = this.studio;
    if (!current || room !== current.id) return null;
    const find = (/** @type {string} */ field) => [current.root, dock.root].flatMap((root) => getElements(root, `[data-error-for="${CSS.escape(field)}"]`));
    // The runtime may report a part of a field, such as `inputs.0.text`.
    const [field] = place.split('.');
    return [...find(PLACE[field] ?? field), ...find('request')][0] ?? null;
  }

  /** Clear the error of a form field after its value has changed. @param {HTMLElement} field */
  clearField(field) {
    for (let around = field.parentElement; around && around !== this.page; around = around.parentElement) {
      const places = around.querySelectorAll(':scope > [data-error-for]');
      for (const place of places) place.textContent = '';
      if (places.length > 0) return;
    }
  }

  clear() {
    for (const place of this.page.querySelectorAll('[data-error-for]')) place.textContent = '';
  }
}

/**
 * Undo of the user's last action, with a button in a toast or with Ctrl+Z.
 *
 * Ctrl+Z works until the user types or opens another room.
 */
export class Undo {
  /** Function that undoes the last action. @type {(() => void)|null} */
  back = null;
  /** Function that closes the toast with the undo button. @type {(() => void)|null} */
  dismiss = null;

  /** Create the undo of a page, which has no action to undo yet. @param {import('./studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
  }

  forget() {
    this.back = null;
  }

  /**
   * Run an action that replaces text in a room's form, and let the user undo it.
   *
   * If the user chooses several suggestions in a row, undo restores the text before the first suggestion.
   *
   * @param {import('../common/storage.js').Source} room @param {boolean} isOwn true if the replaced text is the user's own text:
   * a toast then offers undo
   * @param {() => import('./studio.js').UndoFunction|void} action may return a function that undoes changes outside the drafts
   * @param {string} [sentence] text of the toast
   */
  replacing(room, isOwn, action, sentence = this.studio.t('shell.replaced')) {
    const { studio } = this;
    /** @type {import('../common/storage.js').Source[]} */
    const sources = [studio, studio.variation, room];
    const before = sources.map((source) => ({ source, draft: source.draft?.() }));
    const back = action();
    if (this.back && !isOwn) return;
    this.dismiss?.();
    this.forget();
    const recall = () => {
      for (const { source, draft } of before) if (draft) source.recall?.(draft);
      back?.();
    };
    this.offer(recall, isOwn ? sentence : '');
  }

  /**
   * Let the user undo an action with Ctrl+Z, and with a toast if there is a `sentence`.
   *
   * The toast replaces the toast of an earlier action.
   *
   * @param {() => void} undoAction function that undoes the action @param {string} [sentence] text of the toast
   */
  offer(undoAction, sentence = '') {
    const { studio, back: before } = this;
    /** @type {(() => void)|null} */
    let dismiss = null;
    const undo = () => {
      if (this.back === undo) this.back = before;
      dismiss?.();
      undoAction();
      studio.drafts.touch();
    };
    this.back = undo;
    if (!sentence) return;
    this.dismiss?.();
    this.dismiss = dismiss = studio.toasts.show(sentence, { action: studio.t('shell.undo'), onAction: undo });
  }
}

// --- Line next to the name of a take, with its queue position or notes about its text. A sheet shows the full notes with a
// next step. The server's notes are meant for programs, so the page has its own texts for common notes.

const OWN = 'shell.note.';

/** Line next to the name of a take, with its queue position or notes about its text. */
export class Notes {
  /**
   * Create the notes from the elements of a page.
   *
   * @param {HTMLElement} page @param {import('./studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.line = getElement(page, '#vw-note');
    this.detailsButton = getElement(page, '#vw-note-more');
    this.sheet = getElement(page, '#vw-notes');
    this.content = getElement(page, '#vw-notes-say');
    this.checkpointsButton = getElement(page, '#vw-notes-see');
    this.checkpointsButton.onclick = () => {
      this.sheet.hidePopover();
      studio.realVoices.open();
    };
  }

  /**
   * Show the queue position of a request next to its name, or notes about its audio.
   *
   * @param {import('../player/stage.js').ShownAudio|null} take
   */
  showTake(take) {
    const { t } = this.studio;
    if (!take || (take instanceof Take && take.state === 'stopped')) return this.say('');
    if (take instanceof Take && take.isUnanswered) return this.say(performance.now() - take.askedAt < UNANSWERED_DELAY_MS ? '' : t('shell.no_answer_yet'));
    if (!take.queue) return this.showNotes(take);
    const { position: n, etaMs } = take.queue;
    const key = `shell.queue_${n ? 'at' : 'next'}${etaMs === null ? '' : '_eta'}`;
    this.say(t(key, { n, time: formatDuration((etaMs ?? 0) / 1000, t) }));
  }

  /** Show a temporary message next to the name of the played audio. @param {string} sentence */
  say(sentence) {
    writeText(this.line, sentence);
    this.detailsButton.toggleAttribute('hidden', true);
  }

  /**
   * Show the server's notes about a take, for example about letters that it cannot speak.
   *
   * @param {import('../player/stage.js').ShownAudio} take
   */
  showNotes(take) {
    const { studio } = this;
    const sentences = (take.start?.notes ?? []).map((note) => this.translated(note, take));
    const sentence = sentences.map(({ text }) => text).join(' ');
    writeText(this.line, sentence);
    this.detailsButton.toggleAttribute('hidden', sentence === '');
    if (this.content.textContent !== sentences.map(({ text }) => text).join('')) this.content.replaceChildren(...sentences.map(({ text }) => paragraph(text)));
    this.checkpointsButton.hidden = !studio.realVoices.isHost || !sentences.some(({ isRead }) => isRead);
  }

  /**
   * Translate a note of the server into the page's language.
   *
   * @param {string} note note of the server @param {import('../player/stage.js').ShownAudio} take
   * @returns {{text: string, isRead?: boolean}} isRead: true if a published checkpoint supports the writing system of the text
   */
  translated(note, take) {
    const { studio } = this;
    const { t, words } = studio;
    const [, name = ''] = /^note\.(.+)$/.exec(nameOf(note) ?? '') ?? [];
    if (name === 'strange_script') return this.unsupportedScript(take) ?? { text: translateMessage(note) };
    if (!(OWN + name in words.english)) return { text: translateMessage(note) };
    const isStyled = name === 'dropped_styles' && 'mode' in take && take.mode === 'base' && studio.catalogue.supportsStyle('base');
    return { text: t(OWN + name) + (isStyled ? ` ${t('shell.note.style_field')}` : '') };
  }

  /**
   * Return a note about a writing system that the voice's languages do not use, or null.
   *
   * @param {import('../player/stage.js').ShownAudio} take
   */
  unsupportedScript(take) {
    const { studio } = this;
    const { t, words } = studio;
    const card = [...studio.cards.values()].find(({ id }) => id === take.start?.model);
    const unsupported = card && 'sent' in take ? unsupportedScript(take.sent, card.languages) : null;
    if (!card || !unsupported) return null;
    const letters = scriptName(unsupported.script, words.language);
    const sentence = t('shell.note.strange_script', { languages: studio.facts.languagesOf(card), letters });
    const isRead = unsupported.isRead && studio.realVoices.isHost && card.id === studio.realVoices.small;
    return { text: isRead ? `${sentence} ${t('shell.note.real_voices_read')}` : sentence, isRead };
  }
}

/** @param {string} text */
const paragraph = (text) => createElement('p', { textContent: text });
