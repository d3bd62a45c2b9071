/**
 * Dialog for the choice of published checkpoints, with their estimated memory and speed.
 *
 * During a download, it shows the progress instead.
 */

import { createElement, getElement } from '../common/elements.js';

/** States of a download that is not finished. */
export const UNDER_WAY = new Set(['fetching', 'paused', 'changing', 'failed']);
const MODES = ['custom_voice', 'voice_design', 'base'];

/**
 * @typedef {{weights: string, memory: number, rtf: number, fits: boolean}} Bits estimates for one weight format on this
 * machine
 *
 * @typedef {{id: string, size: string, kind: string, mode: string, licence: string, download: number, common: number,
 *   shared: number|null, bits: Bits[], chosen: string|null, suggested: boolean}} Offer
 */
/**
 * @typedef {{offers: Offer[], sizes: string, total: number|null, room: number|null, asking: boolean,
 *   quantize: string|null, problem: {code: string}|null}} Plan
 */

export class CheckpointSheet {
  /**
   * Create the content of the dialog in which the host chooses checkpoints.
   *
   * @param {HTMLDialogElement} dialog @param {import('./real_voices.js').RealVoices} voices
   */
  constructor(dialog, voices) {
    this.dialog = dialog;
    this.voices = voices;
    this.t = voices.t;
    /** @type {Plan|null} */
    this.plan = null;
    /** Ids of the checkpoints that the host has chosen, or null for the suggestion. @type {Set<string>|null} */
    this.chosenIds = null;
    /** Weight bits that the host has chosen, or null for the studio's setting. @type {string|null} */
    this.weights = null;
    /** Key of the content that the list shows, which is rebuilt only if the key changes. */
    this.builtKey = '';
    this.showsDownloadError = false; // True if the shown error message is about the download.
    this.list = getElement(dialog, '#vw-real-list');
    this.totalLine = getElement(dialog, '#vw-real-sum');
    this.bits = getElement(dialog, '#vw-real-bits');
    this.select = getElement(this.bits, 'select', HTMLSelectElement);
    this.select.onchange = () => {
      this.weights = this.select.value;
      this.paint();
    };
    this.error = getElement(dialog, '#vw-real-error');
    this.begin = getElement(dialog, '#vw-real-begin', HTMLButtonElement);
    this.pauseButton = getElement(dialog, '#vw-real-turn');
    this.stop = getElement(dialog, '#vw-real-stop');
    getElement(dialog, '#vw-real-close').onclick = () => this.close();
    dialog.onclick = ({ target }) => {
      if (target === dialog) this.close(); // A click on the backdrop has the dialog as its target.
    };
    this.begin.onclick = () => voices.begin(
        this.chosen.map(({ id }) => id),
        this.weights,
      );
    this.pauseButton.onclick = () => voices.runAction(voices.download.state === 'fetching' ? 'pause' : 'resume');
    this.stop.onclick = () => voices.runAction('stop');
    this.list.onchange = ({ target }) => target instanceof HTMLInputElement && this.pick(target);
  }

  get isOpen() {
    return this.dialog.open;
  }

  open() {
    this.showError('');
    if (!this.isOpen) this.dialog.showModal();
    this.paint();
  }

  close() {
    this.dialog.close();
  }

  /** Show an error in the dialog. @param {string} sentence */
  showError(sentence) {
    this.error.textContent = sentence;
  }

  /** Show the checkpoints that can be downloaded. @param {Plan} plan */
  show(plan) {
    this.plan = plan;
    this.paint();
  }

  /** Select or deselect a checkpoint, and deselect other checkpoints of the same mode. @param {HTMLInputElement} box */
  pick(box) {
    const chosen = new Set(this.chosen.map(({ id }) => id));
    const offers = this.plan?.offers ?? [];
    const { mode } = /** @type {Offer} */ (offers.find(({ id }) => id === box.value));
    for (const offer of offers) if (offer.mode === mode) chosen.delete(offer.id);
    if (box.checked) chosen.add(box.value);
    this.chosenIds = chosen;
    this.showError('');
    this.paint();
  }

  /** @returns {Offer[]} */
  get chosen() {
    const { chosenIds } = this;
    return (this.plan?.offers ?? []).filter((offer) => this.weightsOf(offer)?.fits !== false && (chosenIds ? chosenIds.has(offer.id) : offer.suggested));
  }

  /**
   * Show the selection or the progress of the download.
   *
   * The list is rebuilt only if its content has changed.
   */
  paint() {
    if (!this.isOpen) return;
    const { state, parts, problem } = this.voices.download;
    const runs = UNDER_WAY.has(state);
    const texts = runs ? parts.map(({ id }) => id) : [this.plan?.offers, this.plan?.sizes, this.plan?.asking, this.weights];
    const key = JSON.stringify([texts, document.documentElement.lang]);
    if (key !== this.builtKey) {
      this.builtKey = key;
      const { value = null } = /** @type {HTMLInputElement} */ (document.activeElement) ?? {};
      this.list.replaceChildren(...(runs ? this.downloads() : this.groups()));
      if (value) [...this.list.querySelectorAll('input')].find((box) => box.value === value)?.focus({ preventScroll: true });
    }
    if (runs) this.paintDownloads();
    else for (const box of this.list.querySelectorAll('input')) box.checked = this.chosen.some(({ id }) => id === box.value);
    this.begin.hidden = runs;
    const kinds = Math.max(0, ...(this.plan?.offers ?? []).map(({ bits }) => bits.length));
    // Reserve the space for the choice of bits during the measurement, so that the button below does not move.
    const isAwaited = kinds === 0 && this.plan?.asking !== false;
    this.bits.hidden = runs || !(isAwaited || kinds > 1);
    this.bits.toggleAttribute('data-awaited', isAwaited);
    this.bits.title = this.t('real_voices.bits.why');
    this.select.value = this.weights ?? this.plan?.quantize ?? 'auto';
    this.pauseButton.hidden = !runs || state === 'changing';
    this.stop.hidden = !runs;
    this.pauseButton.textContent = this.voices.pauseButton.textContent;
    this.stop.textContent = this.t(state === 'failed' ? 'real_voices.others' : 'real_voices.stop');
    this.totalLine.textContent = runs ? (problem ? '' : this.t('real_voices.close_this')) : this.total();
    // Clear the error of a download when the download has ended.
    const saysWhy = runs && Boolean(problem);
    if (saysWhy) this.showError(this.voices.sentence);
    else if (this.showsDownloadError) this.showError('');
    this.showsDownloadError = saysWhy;
    const need = this.memory(this.chosen);
    this.begin.disabled = this.chosen.length === 0 || (this.plan?.total != null && need > this.plan.total) || this.isDiskTooSmall;
    this.begin.textContent = this.t('real_voices.begin_it');
  }

  // --- Selection.

  /**
   * Return the weight format that a checkpoint would use, or null if not yet known.
   *
   * @param {Offer} offer @returns {Bits|null}
   */
  weightsOf({ bits, chosen }) {
    const wanted = this.weights && this.weights !== 'auto' ? this.weights : chosen;
    return bits.find(({ weights }) => weights === wanted) ?? null;
  }

  groups() {
    const offers = this.plan?.offers;
    if (!offers) return [element('p', 'vw-hint', this.t('real_voices.asking'))];
    const groups = MODES.map((mode) => {
      const group = element('section', 'vw-offers');
      const two = element('div', 'vw-offers-two');
      two.append(...offers.filter((offer) => offer.mode === mode).map((offer) => this.card(offer)));
      group.append(element('h3', '', this.t(`real_voices.group.${mode}`)), element('p', 'vw-hint', this.t(`real_voices.note.${mode}`)), two);
      return group;
    });
    const source = this.plan?.sizes === 'hub' ? 'hub' : this.plan?.asking ? 'asking' : 'table';
    return [...groups, element('p', 'vw-hint vw-offers-source', `${this.t(`real_voices.sizes.${source}`)} ${this.t('real_voices.estimate')}`)];
  }

  /** Return the selectable card of a checkpoint. @param {Offer} offer */
  card(offer) {
    const { id, size, kind, mode, download } = offer;
    const { memory = null, fits = null } = this.weightsOf(offer) ?? {};
    const card = element('label', 'vw-offer');
    const box = createElement('input', { type: 'checkbox', value: id, disabled: fits === false });
    const values = { get: gigabytes(download), memory: memory === null ? '' : gigabytes(memory) };
    const sizes = download === 0 ? this.t('real_voices.is_here') : this.t('real_voices.to_download', values);
    const facts = [sizes, memory === null ? '' : this.t('real_voices.of_memory', values)].filter(Boolean).join(' · ');
    const name = element('b', '', `${size} ${kind}`);
    name.append(' ', element('small', '', this.t(`real_voices.for.${mode}`)));
    card.append(box, name, element('span', '', facts), this.pace(offer));
    return card;
  }

  /** Return an element with the estimated speed of a checkpoint on this machine. @param {Offer} offer */
  pace(offer) {
    const used = this.weightsOf(offer);
    if (!used) return element('span', '', this.t(this.plan?.asking ? 'real_voices.measuring' : 'real_voices.not_measured'));
    const { rtf, fits, memory, weights } = used;
    if (!fits) {
      const have = gigabytes(this.plan?.total ?? 0);
      return element('span', 'vw-slow', this.t('real_voices.too_large', { need: gigabytes(memory), have }));
    }
    let texts = this.t('real_voices.pace', { pace: times(rtf) });
    const full = offer.bits.find((kind) => kind.weights === 'off');
    if (weights !== 'off' && full) {
      texts = this.t('real_voices.rounded', { pace: texts, bits: weights.replace('int', ''), full: times(full.rtf) });
    }
    return element('span', rtf > 1 ? 'vw-slow' : '', rtf > 1 ? this.t('real_voices.slow', { pace: texts }) : texts);
  }

  /**
   * Return the estimated memory of several checkpoints in bytes.
   *
   * Memory that the checkpoints share is counted once.
   *
   * @param {Offer[]} offers
   */
  memory(offers) {
    return offers.reduce((sum, offer, at) => sum + (this.weightsOf(offer)?.memory ?? 0) - (at ? (offer.shared ?? 0) : 0), 0);
  }

  /**
   * Return the bytes to download for some checkpoints.
   *
   * Files in common count once.
   *
   * @param {Offer[]} offers
   */
  size(offers) {
    return offers.reduce((sum, { download, common }, at) => sum + download - (at ? common : 0), 0);
  }

  /** True if the free disk space is too small for the selected checkpoints. */
  get isDiskTooSmall() {
    const room = this.plan?.room ?? null;
    return room !== null && this.size(this.chosen) > room;
  }

  total() {
    const { chosen, plan } = this;
    if (!plan) return '';
    if (chosen.length === 0) return this.t('real_voices.choose');
    const texts = [this.t('real_voices.to_download', { get: gigabytes(this.size(chosen)) })];
    const once = chosen.reduce((sum, { download }) => sum + download, 0) - this.size(chosen);
    if (Number(gigabytes(once))) texts.push(this.t('real_voices.once', { once: gigabytes(once) }));
    if (plan.total !== null) {
      texts.push(this.t('real_voices.memory_of', { need: gigabytes(this.memory(chosen)), have: gigabytes(plan.total) }));
    }
    if (this.isDiskTooSmall) texts.push(this.t('real_voices.no_room', { room: gigabytes(plan.room ?? 0) }));
    return texts.join(' · ');
  }

  // --- Download.

  downloads() {
    this.rows = this.voices.download.parts.map(({ id }) => {
      const name = id.replace(/^Qwen\/Qwen3-TTS-12Hz-/, '').replace('-', ' ');
      const [small, bar] = [element('small', ''), createElement('progress', { ariaLabel: name })];
      const head = createElement('div', { className: 'vw-down-head' }, [element('b', '', name), small]);
      return { row: createElement('div', { className: 'vw-down' }, [head, bar]), small, bar };
    });
    this.now = element('p', 'vw-hint vw-down-now');
    return [...this.rows.map(({ row }) => row), this.now];
  }

  paintDownloads() {
    const { parts, state, rate } = this.voices.download;
    for (const [at, { small, bar }] of (this.rows ?? []).entries()) {
      const { got, of, step } = parts[at];
      const moves = of && got < of && step === 'fetching' ? 'fetching' : step;
      const key = state === 'failed' && step !== 'here' ? 'failed' : moves;
      small.textContent = this.t(`real_voices.step.${key}`, { got: gigabytes(got), of: gigabytes(of) });
      bar.max = 1;
      bar.value = of ? got / of : 0;
    }
    if (!this.now) return;
    const speed = rate ? this.t('real_voices.speed', { rate: Math.max(1, Math.round((rate * 8) / 1e6)) }) : '';
    const texts = { fetching: [speed, this.voices.progressText], paused: [this.t('real_voices.is_paused')], changing: [this.voices.sentence] };
    this.now.textContent = (texts[/** @type {keyof typeof texts} */ (state)] ?? []).filter(Boolean).join(' · ');
  }
}

/** Convert a real-time factor to the speed as a multiple of real time. @param {number} rtf */
function times(rtf) {
  const pace = 1 / rtf;
  return pace >= 10 ? String(Math.round(pace)) : pace.toFixed(pace < 0.1 ? 2 : 1);
}

/** Return a number of bytes in gigabytes, with one decimal. @param {number} bytes */
export const gigabytes = (bytes) => (bytes / 1e9).toFixed(1);

/** @param {keyof HTMLElementTagNameMap} tag @param {string} className @param {string} [textContent] */
const element = (tag, className, textContent = '') => createElement(tag, { className, textContent });
