/** The stored voices, as the runtime lists them. Event: 'change'. */

import { api } from './api.js';

export class Voices extends EventTarget {
  /** @type {any[]} voice cards: id, name, … */
  list = [];
  /** Whether the runtime has said what there is. */
  isListed = false;

  async refresh() {
    const { data } = await api.get('v1/audio/voices');
    this.list = data;
    this.isListed = true;
    this.dispatchEvent(new Event('change'));
  }

  /** @param {string} idOrName */
  find(idOrName) {
    const name = idOrName.toLowerCase();
    return this.list.find((voice) => voice.id === idOrName) ?? this.list.find((voice) => voice.name.toLowerCase() === name) ?? null;
  }
}
