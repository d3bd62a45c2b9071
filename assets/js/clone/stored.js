/** The stored voice that speaks in the Clone room in the place of a recording: which, and what is known of it. */

import { need } from '../elements.js';
import { fillSelect } from '../rooms/fields.js';

/** @typedef {import('../voices.js').StoredVoice} StoredVoice */

export class Stored {
  /** The one that is to be chosen once it is listed: its id. */
  awaited = '';

  /** @param {HTMLElement} room the room's panel @param {import('../studio.js').Studio} studio @param {() => void} onChange  another is chosen, or there are others */
  constructor(room, studio, onChange) {
    this.studio = studio;
    this.onChange = onChange;
    this.select = need(room, '#vw-clone-voice', HTMLSelectElement);
    this.label = need(room, 'label[for=vw-clone-voice]');
    this.root = need(room, '#vw-clone-stored');
    this.about = need(room, '#vw-clone-stored-about');
    this.words = need(room, '#vw-clone-stored-words');
    this.select.onchange = () => onChange();
    studio.voices.addEventListener('change', () => this.listed());
  }

  /** The id of the one that is chosen; empty: none. */
  get value() {
    return this.select.value;
  }

  set value(id) {
    this.select.value = id;
  }

  /** @returns {StoredVoice|null} null: what is recorded in the room speaks */
  get chosen() {
    return this.value ? this.studio.voices.find(this.value) : null;
  }

  /** They are known, or have changed. */
  listed() {
    const voice = this.awaited && this.studio.voices.find(this.awaited);
    this.awaited = '';
    if (voice) this.choose(voice);
    else this.onChange();
  }

  /** @param {{id: string}} voice */
  choose({ id }) {
    this.onChange(); // The voice is now among the options.
    this.value = id;
    this.onChange();
  }

  paint() {
    const { studio, select } = this;
    fillSelect(select, [['', studio.t('clone.new')], ...studio.voices.list.map(({ id, name }) => [id, name])]);
    const { chosen } = this;
    select.hidden = this.label.hidden = studio.voices.list.length === 0;
    this.root.hidden = !chosen;
    if (chosen) this.describe(chosen);
  }

  /** @param {StoredVoice} voice */
  describe({ description, transcript, seconds, tags }) {
    const about = [description, `${seconds.toFixed(1)} s`, ...tags.map((tag) => `#${tag}`)];
    this.about.textContent = about.filter(Boolean).join(' · ');
    this.words.textContent = transcript ?? this.studio.t('clone.by_xvector');
  }
}
