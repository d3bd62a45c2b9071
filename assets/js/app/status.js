/**
 * Status line of the page, with the state of the runtime and the loaded checkpoints.
 *
 * The WebSocket reports a lost connection immediately, and a stalled runtime within ten seconds. The page then polls
 * the studio for the state of the runtime. The event 'models' has the checkpoints, and is emitted when a runtime
 * becomes ready.
 */

import { Emitter, getElement } from '../common/elements.js';
import { translateMessage, nameOf } from '../common/server_messages.js';

const ASK_MS = 1000;
const RESPONSE_TIMEOUT_MS = 5000;
const OFFLINE_TIMEOUT_MS = 2000; // Timeout of the request that checks the connection after the browser goes offline.

/**
 * Status line of the page, which follows the connection to the runtime.
 *
 * @extends {Emitter<{models: import('../common/fields.js').ModelCard[]}>}
 */
export class Status extends Emitter {
  /**
   * Create the status line from the elements of a page, and follow the WebSocket.
   *
   * @param {ParentNode} page
   * @param {import('../../../clients/js/voicewright.js').SpeechSocket} socket
   * @param {(key: string, values?: Object<string, any>) => string} t
   * @param {import('../host/real_voices.js').RealVoices} realVoices names of the checkpoints, and the id of the embedded one
   */
  constructor(page, socket, t, realVoices) {
    super();
    this.realVoices = realVoices;
    this.t = t;
    this.statusLine = getElement(page, '#vw-status');
    this.models = getElement(page, '#vw-models');
    this.socket = socket;
    /** True if the studio itself does not respond. */
    this.isStudioAway = false;
    socket.addEventListener('state', () => this.onState());
    addEventListener('offline', () => this.checkConnection());
    addEventListener('online', () => (this.socket.state === 'closed' ? this.socket.open() : this.socket.check()));
    this.pollStatus();
  }

  onState() {
    const { state } = this.socket;
    if (state === 'open') {
      this.isStudioAway = false;
      this.loadModels();
    } else if (!this.isAsking) {
      if (state === 'stalled') this.onStudioAway();
      else this.show('waiting', this.t('shell.reconnecting'));
      this.pollStatus();
    }
  }

  /**
   * Check the connection to the studio after the browser reports that it is offline.
   *
   * A studio on the same machine needs no network, so it may still be reachable.
   */
  checkConnection() {
    this.socket.check();
    setTimeout(() => this.socket.check(OFFLINE_TIMEOUT_MS), OFFLINE_TIMEOUT_MS);
  }

  onStudioAway() {
    this.isStudioAway = true;
    this.show('waiting', this.t(navigator.onLine ? 'shell.silent_studio' : 'shell.offline'));
  }

  /** Poll the studio and show the runtime's state until the WebSocket is open again. */
  async pollStatus() {
    clearTimeout(this.timer);
    this.isAsking = true;
    while (this.socket.state !== 'open') {
      const status = await this.fetchStatus();
      if (/** @type {string} */ (this.socket.state) === 'open') break; // The WebSocket has opened in the meantime.
      if (!status) this.onStudioAway();
      else {
        this.isStudioAway = false;
        // The current step of the start is a tooltip, because few users need it.
        const isStep = nameOf(status.sentence)?.startsWith('state.step');
        this.show('waiting', isStep ? this.t('shell.getting_ready') : translateMessage(status.sentence));
        if (isStep) this.statusLine.title = translateMessage(status.sentence);
        // Connect now instead of waiting for the next attempt of the WebSocket.
        if (status.state === 'ready' && this.socket.state === 'closed') this.socket.open();
      }
      await new Promise((later) => setTimeout(later, ASK_MS));
    }
    this.isAsking = false;
  }

  /** Fetch the runtime's state from the studio, or return null if there is no response. */
  async fetchStatus() {
    try {
      const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
      const response = await fetch(new URL('studio/status', document.baseURI), { cache: 'no-store', signal });
      return await response.json();
    } catch {
      return null;
    }
  }

  async loadModels() {
    clearTimeout(this.timer);
    try {
      const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
      const response = await fetch(new URL('v1/models', document.baseURI), { cache: 'no-store', signal });
      if (!response.ok) throw new Error(String(response.status));
      this.setModels((await response.json()).data);
    } catch {
      if (this.socket.state === 'open') this.timer = setTimeout(() => this.loadModels(), ASK_MS);
    }
  }

  /**
   * Set the loaded checkpoints, show their names and emit the event 'models'.
   *
   * @param {import('../common/fields.js').ModelCard[]} cards
   */
  setModels(cards) {
    this.cards = cards;
    this.showModels();
    this.emit('models', cards);
  }

  /** Show the names of the loaded checkpoints in the page's language. */
  showModels() {
    const { cards } = this;
    if (this.socket.state !== 'open' || !cards) return;
    const mute = cards.some(({ speaks }) => !speaks);
    const isSmall = cards.every(({ id }) => id === this.realVoices.small);
    if (mute) this.show('mute', this.t('shell.mute'));
    this.statusLine.dataset.voice = isSmall ? 'small' : '';
    if (!mute) this.show('ready', this.t(isSmall ? 'real_voices.small' : 'shell.ready'));
    // The popover of the status word shows the device, so it is omitted here.
    this.models.textContent = cards.map(({ id }) => this.realVoices.nameOf(id)).join(' · ');
  }

  /** Show a state of the runtime with a sentence that describes it. @param {string} state @param {string} sentence */
  show(state, sentence) {
    this.statusLine.title = '';
    this.statusLine.dataset.state = state;
    this.statusLine.textContent = sentence;
  }
}
