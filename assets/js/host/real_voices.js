/**
 * Download of published checkpoints, which replace the small embedded checkpoint.
 *
 * A banner shows that the embedded voice is in use, or the progress of a download. A sheet starts, pauses and stops the
 * download. The studio stores the state of the download, so a reload of the page does not affect it.
 */

import { StudioError } from '../common/api.js';
import { createElement, getElement } from '../common/elements.js';
import { recall, remember } from '../common/storage.js';
import { translateMessage, errorSentence } from '../common/server_messages.js';
import { gigabytes, CheckpointSheet, UNDER_WAY } from './real_voices_sheet.js';

const PATH = 'studio/host/downloads';
const AWAY = 'voicewright.banner';
const HEARD = 'voicewright.heard';
const ASK_MS = 1000;
const ROOMS = new Set(['speakers', 'design', 'clone']);

/** @typedef {{id: string, got: number, of: number, step: string}} Part */
/**
 * @typedef {{state: string, parts: Part[], got: number, of: number, rate: number|null, change: string|null,
 *   problem: {code: string, message: string, facts: Object<string, any>}|null, can_go_back: boolean}} Download
 */

export class RealVoices {
  /**
   * Create the download of real checkpoints for a page, with its dialog.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.t = studio.t;
    const { small = '', speaks = false, may = false, download = null } = studio.me.features.real_voices ?? {};
    this.small = small;
    this.isHost = may;
    this.key = '';
    this.statusRequests = 0;
    /**
     * True if the small embedded checkpoint generates the speech of the current room.
     *
     * Until the runtime is ready, the value is from the configuration.
     */
    this.usesSmallVoice = speaks;
    /** @type {Download} */
    this.download = download ?? { state: 'none', parts: [], got: 0, of: 0, rate: null, change: null, problem: null, can_go_back: false };
    this.banner = getElement(page, '#vw-banner');
    this.text = getElement(page, '#vw-banner-says');
    this.bar = getElement(page, '#vw-banner-bar', HTMLProgressElement);
    this.detailsButton = getElement(page, '#vw-banner-see');
    this.pauseButton = getElement(page, '#vw-banner-turn');
    this.dismissButton = getElement(page, '#vw-banner-leave');
    this.loaded = getElement(page, '#vw-loaded');
    this.loadedNames = getElement(page, '#vw-loaded-names');
    this.loadedButton = getElement(page, '#vw-loaded-see');
    this.sheet = new CheckpointSheet(getElement(page, '#vw-real-voices', HTMLDialogElement), this);
    this.detailsButton.onclick = () => this.open();
    this.dismissButton.onclick = () => this.dismiss();
    this.pauseButton.onclick = () => this.runAction(this.download.state === 'fetching' ? 'pause' : 'resume');
    this.loadedButton.onclick = () => {
      this.loaded.hidePopover();
      this.open();
    };
    this.paint();
    if (this.isHost) this.loadStatus();
  }

  /**
   * Use the key that the host has entered for downloads, and update the banner.
   *
   * @param {string} key
   * @param {boolean} isOwn true if the studio has started the runtime
   */
  allow(key, isOwn) {
    if (this.isHost === isOwn && this.key === key) return;
    this.key = key;
    this.isHost = isOwn;
    this.paint();
    if (isOwn) this.loadStatus();
  }

  /** Update the banner after the current room or its checkpoint has changed. */
  refresh() {
    const { cards, current } = this.studio;
    const card = cards.get(current?.mode ?? '');
    if (card) this.usesSmallVoice = card.id === this.small;
    this.paint();
  }

  // --- Requests.

  /**
   * Send a request about the download to the studio, and return the JSON of its response.
   *
   * @param {string} [path] @param {string} [method] @param {Object<string, any>} [json] @returns {Promise<any>}
   */
  async send(path = '', method = 'GET', json) {
    return this.studio.api.asHost(this.key, PATH + path, { method, body: json && JSON.stringify(json) });
  }

  /** Load the state of the download, and repeat this while the state may change. */
  async loadStatus() {
    clearTimeout(this.timer);
    const count = ++this.statusRequests;
    let moves = UNDER_WAY.has(this.download.state) || this.sheet.isOpen;
    try {
      const status = await this.send(this.sheet.isOpen ? '?plan=1' : '');
      if (count < this.statusRequests) return; // A later request returns a newer state.
      this.update(status.download);
      if (status.plan) this.sheet.show(status.plan);
      moves = ['fetching', 'changing'].includes(status.download.state) || Boolean(status.plan?.asking);
    } catch (error) {
      if (!(error instanceof StudioError)) throw error;
      if (error.code === 'host_only') {
        this.isHost = moves = false;
        this.paint();
      }
    }
    if (moves && count === this.statusRequests) this.timer = setTimeout(() => this.loadStatus(), ASK_MS);
  }

  /**
   * Pause, resume or stop the download, or return to the embedded checkpoint.
   *
   * @param {'pause'|'resume'|'stop'|'back'} action
   */
  async runAction(action) {
    this.sheet.showError('');
    await this.request(() => this.send(action === 'stop' ? '' : `/${action}`, action === 'stop' ? 'DELETE' : 'POST'));
    if (action === 'stop') this.showToast(this.t('real_voices.stopped'));
  }

  /**
   * Start the download of checkpoints.
   *
   * @param {string[]} models ids of the checkpoints
   * @param {string|null} quantize  number of bits of the weights, or null for the studio's setting
   */
  async begin(models, quantize) {
    await this.request(() => this.send('', 'POST', quantize ? { models, quantize } : { models }));
    if (this.download.state !== 'fetching') return;
    this.sheet.close();
    this.showToast(this.t('real_voices.goes_on'));
  }

  /**
   * Run a request about the download, and show the new state or the error.
   *
   * @param {() => Promise<{download: Download}>} action
   */
  async request(action) {
    try {
      this.update((await action()).download);
    } catch (error) {
      if (!(error instanceof StudioError)) throw error;
      this.sheet.showError(error.message);
      if (!this.sheet.isOpen) this.showToast(error.message);
    }
    this.loadStatus();
  }

  /** Show the new state of the download. @param {Download} download */
  update(download) {
    const before = this.download.state;
    this.download = download;
    if (download.state === 'done' && ['fetching', 'changing'].includes(before)) this.onDone();
    this.paint();
  }

  onDone() {
    this.sheet.close();
    const undo = { action: this.t('shell.undo'), onAction: () => this.runAction('back') };
    this.showToast(this.t('real_voices.here'), this.download.can_go_back ? undo : {});
  }

  /**
   * Show a toast that does not disappear when the user opens another room.
   *
   * @param {string} sentence
   * @param {import('../app/messages.js').ToastOptions} [options]
   */
  showToast(sentence, options = {}) {
    this.studio.toasts.show(sentence, { ...options, isOfPage: true });
  }

  // --- Rendering.

  open() {
    if (!this.isHost) return;
    this.sheet.open();
    this.loadStatus();
  }

  dismiss() {
    // Discard a failed download. The downloaded parts of files are kept.
    if (this.download.state === 'failed') this.request(() => this.send('', 'DELETE'));
    remember('localStorage', AWAY, 1);
    this.paint();
    const back = () => {
      remember('localStorage', AWAY, 0);
      this.paint();
    };
    this.showToast(this.t('real_voices.stays', { name: this.t('real_voices.small') }), { action: this.t('shell.undo'), onAction: back });
  }

  /**
   * True if the user has already played a take in this browser.
   *
   * The banner is shown only then, because the user can compare the published checkpoints with that take.
   */
  get hasPlayed() {
    return Boolean(recall('localStorage', HEARD));
  }

  onPlayed() {
    if (this.hasPlayed) return;
    remember('localStorage', HEARD, 1);
    this.paint();
  }

  get isDismissed() {
    return Boolean(recall('localStorage', AWAY));
  }

  /** Text of the banner: the error or progress of a download, or a suggestion. */
  get sentence() {
    const { state, change, problem } = this.download;
    if (state === 'failed' && problem) return problem.code === 'not_changed' ? translateMessage(problem.message) : errorSentence(problem);
    if (state === 'changing') return change ? translateMessage(change) : this.t('real_voices.loading');
    if (!UNDER_WAY.has(state)) return this.t('real_voices.more');
    return `${this.progressText}. ${this.t('real_voices.goes_on')}`;
  }

  /** Text with the downloaded size, the total size and the remaining time. */
  get progressText() {
    const { got, of, state, rate } = this.download;
    const left = state === 'fetching' && rate ? ` · ${this.t('real_voices.left', { time: this.time((of - got) / rate) })}` : '';
    return this.t('real_voices.far', { got: gigabytes(got), of: gigabytes(of) }) + left;
  }

  /** Return a duration as text, in minutes if it exceeds 90 seconds. @param {number} seconds */
  time(seconds) {
    if (seconds > 90) return this.t('real_voices.minutes', { m: Math.round(seconds / 60) });
    return this.t('shell.seconds', { s: Math.max(1, Math.round(seconds)) });
  }

  paint() {
    const { state, got, of } = this.download;
    const moves = this.isHost && UNDER_WAY.has(state);
    const room = this.studio.current?.id ?? this.studio.roomAddress.room ?? 'speakers';
    this.banner.hidden = !ROOMS.has(room) || !(moves || (this.usesSmallVoice && this.hasPlayed && !this.isDismissed));
    this.banner.dataset.kind = moves ? state : 'small';
    const head = createElement('b', { textContent: this.t(`real_voices.head.${moves ? state : 'small'}`) });
    this.text.replaceChildren(head, this.isHost || moves ? ` ${this.sentence}` : '');
    this.bar.hidden = !moves || state === 'failed';
    if (state === 'changing' || !of) this.bar.removeAttribute('value');
    else this.bar.value = got / of;
    this.detailsButton.hidden = this.loadedButton.hidden = !this.isHost;
    this.detailsButton.textContent = this.t(moves ? 'real_voices.details' : 'real_voices.see');
    this.pauseButton.hidden = !moves || state === 'changing';
    this.pauseButton.textContent = this.t(state === 'fetching' ? 'real_voices.pause' : state === 'failed' ? 'real_voices.again' : 'real_voices.resume');
    this.dismissButton.hidden = moves && state !== 'failed';
    this.sheet.paint();
  }

  /** Return the name of a checkpoint as the page shows it. @param {string} id */
  nameOf(id) {
    return id === this.small ? this.t('real_voices.small_voice') : id;
  }

  /**
   * Return a simple description of a device or a dtype, or null if there is none.
   *
   * @param {'runs'|'precise'} kind 'runs' for a device, 'precise' for a dtype @param {string} name
   */
  plainTerm(kind, name) {
    const key = `real_voices.${kind}.${name}`;
    const text = this.t(key);
    return text === key ? null : text;
  }

  /**
   * Show the loaded checkpoints in the popover of the status line.
   *
   * @param {{id: string, device: string, dtype: string}[]} cards
   */
  showModels(cards) {
    this.loadedNames.replaceChildren(
      ...cards.map(({ id, device, dtype }) => {
        const hint = id === this.small ? this.t('real_voices.small_hint') : '';
        const runs = this.plainTerm('runs', device.split(':')[0]) ?? device;
        const textContent = [hint, runs, this.plainTerm('precise', dtype) ?? dtype].filter(Boolean).join(' · ');
        // The tooltip has the exact names, for operators.
        const about = createElement('p', { className: 'vw-hint', textContent, title: `${device}, ${dtype}` });
        return createElement('li', {}, [createElement('b', { textContent: this.nameOf(id) }), about]);
      }),
    );
  }
}
