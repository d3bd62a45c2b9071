/** What the runtime says of the reference as it is chosen now, asked a moment after it was last changed. */

import { api } from '../api.js';

const SETTLED_MS = 500;

export class Clinic {
  /**
   * @param {HTMLElement} root  the Clone room's panel
   * @param {import('../studio.js').Studio} studio
   * @param {{onRefused: (error: Error) => void, onTrim: () => void}} tell
   */
  constructor(root, studio, { onRefused, onTrim }) {
    this.studio = studio;
    this.onRefused = onRefused;
    this.list = root.querySelector('#vw-clone-clinic');
    this.levels = root.querySelector('#vw-clone-levels');
    this.tidy = root.querySelector('#vw-clone-tidy');
    this.tidy.onclick = onTrim;
    this.asked = 0;
    /** The last answer. @type {Object|null} */
    this.said = null;
  }

  /** Forget what was said. */
  clear() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.said = null;
    this.list.replaceChildren();
    this.levels.textContent = '';
    this.tidy.hidden = true;
    this.list.dataset.state = 'empty';
  }

  /** Ask again once nothing changes any more. @param {() => {sound: Blob, transcript: string|null}} given */
  consult(given) {
    clearTimeout(this.timer);
    const asked = ++this.asked;
    this.list.dataset.state = 'asking';
    this.timer = setTimeout(() => this.ask(asked, given()), SETTLED_MS);
  }

  async ask(asked, { sound, transcript }) {
    const form = new FormData();
    form.append('audio_sample', sound, 'reference.wav');
    if (transcript) form.append('ref_text', transcript);
    try {
      const said = await api.form('v1/audio/voices/check', form);
      if (asked === this.asked) this.show(said);
    } catch (error) {
      if (asked !== this.asked) return;
      this.clear();
      this.onRefused(error);
    }
  }

  /** @param {Object} said the runtime's answer */
  show(said) {
    this.said = said;
    this.paint();
  }

  /** Write it down, in the page's language. */
  paint() {
    const { said, studio } = this;
    if (!said) return;
    const sentences = said.advice.map(({ code, sentence }) => this.item(this.sentence(code, sentence), code));
    const good = this.item(studio.t('clone.good', { s: said.speech_s.toFixed(1) }), 'good');
    this.list.replaceChildren(...(sentences.length ? sentences : [good]));
    this.list.dataset.state = said.usable ? 'said' : 'unusable';
    const { peak_db, speech_db, pauses_db } = said.levels;
    const figures = { peak: peak_db, speech: speech_db, pauses: pauses_db };
    this.levels.textContent = Object.entries(figures)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${studio.t(`clone.level.${name}`)} ${value.toFixed(0)} dB`)
      .join(' · ');
    const { start_s, end_s } = said.trim;
    this.tidy.hidden = start_s < 0.15 && said.seconds - end_s < 0.15;
  }

  /** The page's own words for a code, or the runtime's sentence; the page's where it speaks another language. */
  sentence(code, sentence) {
    const key = `clone.advice.${code}`;
    const own = this.studio.t(key);
    return own === key || this.studio.words.language === 'en' ? sentence : own;
  }

  item(text, code) {
    const item = document.createElement('li');
    item.textContent = text;
    item.dataset.code = code;
    return item;
  }
}
