/**
 * List from which the user picks a voice, in all rooms.
 *
 * The picker has a search field, filters, recent voices, a row for each voice, and links for new voices.
 *
 * Arrow keys move between the rows. The Tab key reaches only one row, which is at first the row of the chosen voice.
 *
 * @typedef {import('./voices.js').Choice} Choice
 *
 * @typedef {Object} PickerCallbacks
 * @property {() => string} chosen  returns the key of the chosen voice
 * @property {(choice: Choice) => void} choose
 * @property {() => void} [leave]   called when the user goes to another room
 * @property {() => Choice[]} [speakers]  returns the speakers of a script, which are listed first
 * @property {(() => void)|null} [describe]  chooses a voice with a description, or null if no checkpoint supports it
 */

import { copyOf, createElement, getElement } from '../common/elements.js';
import { fits, markOf } from './voices.js';

const MAX_TAGS = 2;

/** List from which the user picks a voice, in all rooms. */
export class VoicePicker {
  /**
   * Create the picker in an element.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio @param {PickerCallbacks} callbacks
   */
  constructor(root, studio, callbacks) {
    this.root = root;
    this.studio = studio;
    this.callbacks = callbacks;
    root.classList.add('vw-picker');
    root.append(getElement(studio.page, '#vw-picker', HTMLTemplateElement).content.cloneNode(true));
    studio.words.apply(root);
    this.search = /** @type {HTMLInputElement} */ (root.querySelector('input'));
    this.list = /** @type {HTMLElement} */ (root.querySelector('.vw-picker-list'));
    this.describe = /** @type {HTMLButtonElement} */ (root.querySelector('.vw-picker-foot button'));
    this.kinds = /** @type {HTMLButtonElement[]} */ ([...root.querySelectorAll('[data-kind]')]);
    this.listen();
    this.fill();
  }

  listen() {
    const { catalogue, samples } = this.studio;
    this.search.oninput = () => this.fill();
    this.search.onkeydown = (event) => {
      const [first] = this.rows;
      if (event.key === 'ArrowDown') first?.focus();
      else if (event.key === 'Enter' && this.search.value.trim()) first?.click();
      else return;
      event.preventDefault();
    };
    for (const button of this.kinds) button.onclick = () => catalogue.show(button.dataset.kind ?? 'all');
    this.list.onkeydown = (event) => this.onKey(event);
    this.list.addEventListener('focusin', ({ target }) => this.setTabStop(rowOf(target)));
    for (const link of this.root.querySelectorAll('a')) link.onclick = () => this.callbacks.leave?.();
    this.describe.onclick = () => this.callbacks.describe?.();
    catalogue.addEventListener('change', () => this.fill());
    samples.addEventListener('change', () => this.updatePlaying());
  }

  /** Buttons that choose the voice of a row, in order. @returns {HTMLButtonElement[]} */
  get rows() {
    return [...this.list.querySelectorAll(/** @type {'button'} */ ('.vw-pick-choose'))];
  }

  /** Move the focus by an arrow key, or type into the search field. @param {KeyboardEvent} event */
  onKey(event) {
    const { rows } = this;
    // Focus the search field, which then receives the typed character.
    if (/^[\p{L}\p{N}]$/u.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) this.search.focus();
    const at = rows.findIndex((row) => row.parentElement === rowOf(event.target));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    rows[Math.max(0, Math.min(rows.length - 1, to))]?.focus();
  }

  // --- List of voices

  /**
   * Return the voices that match the filter and the search, in groups with titles.
   *
   * @returns {{title: string, choices: Choice[]}[]}
   */
  groups() {
    const { catalogue } = this.studio;
    const { kind, speakers, storedChoices, recentVoices } = catalogue;
    const own = storedChoices.filter(({ isCommon }) => !isCommon);
    const common = storedChoices.filter(({ isCommon }) => isCommon);
    const groups = {
      all: [['own', own], ['speakers', speakers], ['common', common]],
      speakers: [['speakers', speakers], ['common', common]],
      mine: [['own', own]],
      recent: [['recent', recentVoices]],
    }[kind];
    const query = this.search.value.trim();
    return /** @type {[string, Choice[]][]} */ ([['script', this.callbacks.speakers?.() ?? []], ...(groups ?? [])])
      .map(([title, choices]) => ({ title: this.studio.t(`picker.${title}`), choices: choices.filter((choice) => fits(choice, query)) }))
      .filter(({ choices }) => choices.length > 0);
  }

  /**
   * Render the list of voices again.
   *
   * The row that has the focus keeps the focus.
   */
  fill() {
    const { catalogue } = this.studio;
    const held = this.list.contains(document.activeElement) ? keyAt(document.activeElement) : '';
    const top = this.list.scrollTop;
    const wasSeen = Math.abs(this.scrollDistance()) < 1; // Positions may differ by fractions of a pixel.
    for (const button of this.kinds) button.setAttribute('aria-pressed', String(button.dataset.kind === catalogue.kind));
    this.describe.hidden = !this.callbacks.describe || !this.studio.cards.has('voice_design');
    const groups = this.groups();
    const lately = catalogue.kind === 'all' && !this.search.value.trim() ? catalogue.recentVoices : [];
    this.list.replaceChildren(
      ...(lately.length > 1 ? [heading(this.studio.t('picker.recent')), this.showRecent(lately)] : []),
      ...groups.flatMap(({ title, choices }) => [heading(title), this.group(title, choices)]),
      ...(groups.length ? [] : [this.showEmpty()]),
    );
    this.updatePlaying();
    this.mark();
    this.list.scrollTop = top;
    // Scroll again, because the chips of recent voices may have moved the list.
    if (wasSeen) this.list.scrollTop += this.scrollDistance();
    const row = held && this.rows.find((one) => keyAt(one) === held);
    if (row) row.focus({ preventScroll: true });
  }

  /** Return an element with a button for each recently used voice. @param {Choice[]} choices */
  showRecent(choices) {
    const strip = createElement('div', { className: 'vw-recents', role: 'group', ariaLabel: this.studio.t('picker.recent') });
    for (const choice of choices) {
      const chip = createElement('button', { type: 'button', className: 'vw-voice-chip' });
      chip.dataset.voice = choice.key;
      showVoice(chip, choice);
      this.offer(chip, choice);
      strip.append(chip);
    }
    return strip;
  }

  /** Return a list of voices with a title. @param {string} title @param {Choice[]} choices */
  group(title, choices) {
    return createElement('ul', { ariaLabel: title }, choices.map((choice) => this.row(choice)));
  }

  /** Return the row of a voice. @param {Choice} choice */
  row(choice) {
    const row = copyOf(getElement(this.studio.page, '#vw-pick', HTMLTemplateElement));
    row.dataset.voice = choice.key;
    const [choose, hear] = /** @type {HTMLButtonElement[]} */ ([...row.children]);
    const [name, about] = choose.children;
    choose.prepend(markOf(choice.voice, choice.kind));
    name.children[0].textContent = choice.name;
    name.append(...choice.tags.slice(0, MAX_TAGS).map((tag) => createElement('span', { className: 'vw-tag', textContent: tag })));
    about.textContent = choice.why || choice.about;
    choose.title = choice.why || choice.about;
    this.offer(choose, choice);
    hear.ariaLabel = hear.title = this.studio.t('picker.hear', { name: choice.name });
    hear.onclick = () => this.studio.samples.togglePlayback(choice);
    return row;
  }

  /**
   * Let a button choose a voice, or disable the button if the voice cannot be used.
   *
   * @param {HTMLButtonElement} button @param {Choice} choice
   */
  offer(button, choice) {
    if (choice.why) button.setAttribute('aria-disabled', 'true');
    else button.onclick = () => {
      this.callbacks.choose(choice);
      this.mark();
    };
  }

  /** Return an element that says why the list is empty and what the user can do. */
  showEmpty() {
    const { catalogue, t } = this.studio;
    const query = this.search.value.trim();
    const lines = query ? [t('picker.none_found', { query }), t('picker.describe')] : [t(catalogue.kind === 'recent' ? 'picker.none_recent' : 'picker.none_kept')];
    return createElement('div', { className: 'vw-picker-none', role: 'status' }, lines.map((textContent) => createElement('p', { textContent })));
  }

  // --- Selection and playback

  /** Mark the row of the chosen voice. */
  mark() {
    const chosen = this.callbacks.chosen();
    for (const chip of this.list.querySelectorAll('.vw-recents button')) chip.setAttribute('aria-pressed', String(keyAt(chip) === chosen));
    for (const row of this.rows) {
      const isChosen = keyAt(row) === chosen;
      row.setAttribute('aria-pressed', String(isChosen));
      row.parentElement?.classList.toggle('vw-picked', isChosen);
    }
    if (!this.list.contains(document.activeElement)) this.setTabStop((this.list.querySelector('.vw-picked') ?? this.list.querySelector('.vw-pick')));
  }

  /** Make one row the only row that the Tab key reaches. @param {Element|null} row */
  setTabStop(row) {
    if (!row) return;
    for (const one of this.list.querySelectorAll('.vw-pick')) {
      for (const button of /** @type {Iterable<HTMLButtonElement>} */ (one.children)) button.tabIndex = one === row ? 0 : -1;
    }
  }

  /** Focus the row of the chosen voice, and scroll to it. */
  focus() {
    const row = /** @type {HTMLElement|null} */ (this.list.querySelector('.vw-picked > .vw-pick-choose'));
    (row ?? this.search).focus({ preventScroll: true });
    this.reveal();
  }

  /** Return how far to scroll in pixels until the chosen voice is visible, or 0. */
  scrollDistance() {
    const row = this.list.querySelector('.vw-picked')?.getBoundingClientRect();
    if (!row?.height) return 0;
    const { top, bottom } = this.list.getBoundingClientRect();
    return row.bottom > bottom ? row.bottom - bottom : Math.min(0, row.top - top);
  }

  /** Scroll to the row of the chosen voice. */
  reveal() {
    this.list.querySelector('.vw-picked')?.scrollIntoView({ block: 'nearest' });
  }

  /** Show in each row if the sample of the voice is playing. */
  updatePlaying() {
    const { playingKey } = this.studio.samples;
    for (const hear of /** @type {Iterable<HTMLElement>} */ (this.list.querySelectorAll('.vw-pick-hear'))) {
      hear.dataset.icon = keyAt(hear) === playingKey ? 'pause' : 'play';
    }
  }
}

/**
 * Show the icon and the name of a voice in a button.
 *
 * @param {HTMLElement} chip
 * @param {Pick<Choice, 'voice'|'kind'|'name'>|null} choice
 */
export function showVoice(chip, choice) {
  const name = createElement('span', { textContent: choice?.name ?? '' });
  name.dir = 'auto';
  chip.replaceChildren(...(choice ? [markOf(choice.voice, choice.kind)] : []), name);
}

/** Return the row that contains an element, or null. @param {EventTarget|null} target */
function rowOf(target) {
  return target instanceof Element ? target.closest('.vw-pick') : null;
}

/** Return the key of the voice whose row or chip contains an element. @param {Element|null} element */
function keyAt(element) {
  const holder = /** @type {HTMLElement|null|undefined} */ (element?.closest('[data-voice]'));
  return holder?.dataset.voice ?? '';
}

/** Return a heading for a group of voices. @param {string} title */
function heading(title) {
  return createElement('h3', { textContent: title });
}

// --- The voice picker in a popover next to its button, or at the bottom of the window on a phone.

/** Voice picker in a popover next to its button, or at the bottom of a phone's screen. */
export class VoicePopover {
  /**
   * Create the popover from its elements on the page.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.element = /** @type {HTMLElement} */ (page.querySelector('#vw-voice-sheet'));
    /** @type {PickerCallbacks} */
    this.acts = { chosen: () => '', choose: () => {} };
    /** @type {HTMLElement|null} */
    this.opener = null;
    /** @type {VoicePicker|null} */
    this.picker = null;
    this.element.addEventListener('toggle', (event) => {
      if (/** @type {ToggleEvent} */ (event).newState === 'open') this.picker?.focus();
      // Safari does not focus clicked buttons, so the browser cannot restore the focus.
      else if (document.activeElement === document.body || this.element.contains(document.activeElement)) this.opener?.focus();
    });
  }

  /**
   * Let a button open the voice picker.
   *
   * @param {HTMLButtonElement} button @param {PickerCallbacks} callbacks  actions of the picker
   */
  attach(button, callbacks) {
    button.popoverTargetElement = this.element;
    button.ariaHasPopup = 'dialog';
    button.addEventListener('click', () => {
      this.opener = button;
      this.show(callbacks);
    });
  }

  /** Show the voice picker with the callbacks of the button that opened it. @param {PickerCallbacks} callbacks */
  show(callbacks) {
    this.acts = callbacks;
    const describe = callbacks.describe ?? null;
    this.picker ??= new VoicePicker(/** @type {HTMLElement} */ (this.element.lastElementChild), this.studio, {
      chosen: () => this.acts.chosen(),
      choose: (choice) => {
        this.acts.choose(choice);
        this.element.hidePopover();
      },
      leave: () => this.element.hidePopover(),
      speakers: () => this.acts.speakers?.() ?? [],
    });
    this.picker.callbacks.describe = describe && (() => {
      this.element.hidePopover();
      describe();
    });
    this.picker.search.value = '';
    this.picker.fill();
  }
}
