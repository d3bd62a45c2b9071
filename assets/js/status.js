/**
 * The status line: whether the runtime is there, and what it holds.
 *
 * The socket tells at once that the runtime has gone; while it is away the page asks the studio what
 * becomes of it. Dispatches 'models' with the cards whenever a runtime has come.
 */

const ASK_MS = 1000;

export class Status extends EventTarget {
  /**
   * @param {ParentNode} page
   * @param {import('./ws_client.js').SpeechSocket} socket
   * @param {(key: string) => string} t
   */
  constructor(page, socket, t) {
    super();
    this.t = t;
    this.line = page.querySelector('#vw-status');
    this.models = page.querySelector('#vw-models');
    this.socket = socket;
    socket.addEventListener('state', () => this.onState());
    this.ask();
  }

  onState() {
    if (this.socket.state === 'open') this.greet();
    else if (!this.timer) this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), ASK_MS);
    let sentence = this.t('shell.silent_studio');
    try {
      const response = await fetch(new URL('studio/status', document.baseURI), { cache: 'no-store' });
      const status = await response.json();
      sentence = status.sentence;
      // No need to wait for the socket's own next attempt.
      if (status.state === 'ready' && this.socket.state === 'closed') this.socket.open();
    } catch {
      // The sentence above says it.
    }
    if (this.socket.state !== 'open') this.show('waiting', sentence);
  }

  async greet() {
    clearTimeout(this.timer);
    this.timer = 0;
    try {
      const response = await fetch(new URL('v1/models', document.baseURI), { cache: 'no-store' });
      if (!response.ok) throw new Error(String(response.status));
      this.introduce((await response.json()).data);
    } catch {
      if (this.socket.state === 'open') this.timer = setTimeout(() => this.greet(), ASK_MS);
    }
  }

  /** @param {import('./rooms/fields.js').ModelCard[]} cards */
  introduce(cards) {
    this.cards = cards;
    this.name();
    this.dispatchEvent(new CustomEvent('models', { detail: cards }));
  }

  /** Say what is there, in the page's language. */
  name() {
    const { cards } = this;
    if (this.socket.state !== 'open' || !cards) return;
    const mute = cards.some(({ speaks }) => !speaks);
    this.show(mute ? 'mute' : 'ready', this.t(mute ? 'shell.mute' : 'shell.ready'));
    this.models.textContent = cards
      .map(({ id, device, dtype }) => `${id} on ${device}, ${dtype}`)
      .join(' · ');
  }

  show(state, sentence) {
    this.line.dataset.state = state;
    this.line.textContent = sentence;
  }
}
