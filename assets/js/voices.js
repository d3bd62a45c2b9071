/**
 * The stored voices, as the runtime lists them. Event: 'change'.
 *
 * @typedef {Object} StoredVoice
 * @property {string} id
 * @property {string} name
 * @property {string} language         'auto' where nobody said
 * @property {string|null} description
 * @property {string[]} tags
 * @property {string|null} transcript  null: it clones by x-vector only
 * @property {number} seconds          of the reference audio
 * @property {number} created_at       seconds since 1970
 * @property {string|null} consent
 * @property {Object<string, string>} provenance  model, seed, description, ...
 * @property {string[]} advice
 * @property {boolean} yours           false: the server's
 */

import { api } from './api.js';

export class Voices extends EventTarget {
  /** @type {StoredVoice[]} */
  list = [];
  /** Whether the runtime has said what there is. */
  isListed = false;
  /** How often they were asked for, and which of these answers is shown: one that was asked for before it comes too late. */
  asked = 0;
  shown = 0;

  async refresh() {
    const turn = (this.asked += 1);
    const { data } = await api.get('v1/audio/voices');
    if (turn < this.shown) return;
    this.shown = turn;
    this.list = data;
    this.isListed = true;
    this.dispatchEvent(new Event('change'));
  }

  /** @param {string} idOrName @returns {StoredVoice|null} */
  find(idOrName) {
    const name = idOrName.toLowerCase();
    return this.list.find((voice) => voice.id === idOrName) ?? this.list.find((voice) => voice.name.toLowerCase() === name) ?? null;
  }
}
