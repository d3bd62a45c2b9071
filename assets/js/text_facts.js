/** What stands below the text: how much it is, how long it takes, a way into a script, and a word on its language. */

import { need } from './elements.js';
import { languageName } from './rooms/fields.js';
import { sentLength } from './sent_text.js';
import { expectedSeconds } from './speech_rate.js';
import { TagChips } from './tag_chips.js';
import { untagged } from './tags.js';
import { span } from './time_words.js';
import { scriptName, unknownTongue } from './tongues.js';

const LONG = 400; // Characters; a longer text is better spoken as a script, line by line.
const NEAR = 0.8; // Share of the limit from which it is shown.
const MAX_NAMED = 3; // Languages named.

export class TextFacts {
  /** @type {number|undefined} */
  frame;

  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.count = need(page, '#vw-text-count');
    this.script = need(page, '#vw-text-script');
    this.said = need(page, '#vw-text-said');
    this.tongue = need(page, '#vw-text-tongue');
    this.tags = new TagChips(page, studio);
    this.script.onclick = () => studio.go('script', { text: studio.text, spokenBy: studio.current?.spokenBy?.() ?? null });
    studio.textField.addEventListener('input', () => this.refreshSoon());
    studio.pronunciation.addEventListener('change', () => this.refreshSoon());
  }

  refreshSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.refresh();
    });
  }

  /** At once, and not in the next frame: a room that comes into sight is seen first with its facts. */
  refreshNow() {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    this.refresh();
  }

  refresh() {
    const { studio } = this;
    const text = studio.text.trim();
    studio.dock.sayLine();
    this.tags.refresh();
    this.count.textContent = text && studio.t('shell.text_facts', this.facts(text));
    this.count.classList.toggle('vw-over', this.sentLength(text) > this.most);
    this.script.hidden = text.length <= LONG;
    this.said.textContent = this.otherwise(studio.pronunciation.count(text));
    const hint = text && this.hint(text);
    this.tongue.hidden = !hint;
    if (this.tongue.textContent !== hint) this.tongue.textContent = hint;
  }

  /** What opens the pronunciation dictionary, and how many words it has of this text. @param {number} n */
  otherwise(n) {
    return this.studio.t(n === 0 ? 'pronunciation.title' : 'pronunciation.places', { n });
  }

  /** Characters that one take may have. */
  get most() {
    return this.studio.limits.max_text_chars ?? Infinity;
  }

  /** Characters that are sent for a text: its tags too, and words as they are said. @param {string} text */
  sentLength(text) {
    return sentLength(this.studio.pronunciation.spoken(text) ?? text);
  }

  /** Who speaks, and how long it takes. @param {string} voice */
  line(voice) {
    const text = this.studio.text.trim();
    const time = text && this.studio.t('shell.about', { time: this.time(expectedSeconds(untagged(text))) });
    return [voice, time].filter(Boolean).join(', ');
  }

  /** @param {string} whole */
  facts(whole) {
    const text = untagged(whole);
    const { language } = this.studio.words;
    const segments = new Intl.Segmenter(language, { granularity: 'word' }).segment(text);
    let words = 0;
    for (const { isWordLike } of segments) words += isWordLike ? 1 : 0;
    const number = new Intl.NumberFormat(language);
    const sent = this.sentLength(whole);
    const isNear = sent > NEAR * this.most;
    const characters = isNear
      ? this.studio.t('shell.of_at_most', { n: number.format(sent), limit: number.format(this.most) })
      : number.format(sentLength(text));
    return { words: number.format(words), characters, time: this.time(expectedSeconds(text)) };
  }

  /** @param {number} seconds */
  time(seconds) {
    return span(Math.round(seconds), this.studio.t);
  }

  /** What the checkpoint of this room may not know of the text; empty: nothing. @param {string} text */
  hint(text) {
    const { studio } = this;
    const card = studio.current && studio.cardOf(studio.current);
    const unknown = card && unknownTongue(text, card.languages);
    if (!unknown) return '';
    const page = studio.words.language;
    const name = unknown.script ? scriptName(unknown.script, page) : new Intl.DisplayNames([page], { type: 'language' }).of(unknown.language ?? '');
    const values = { model: studio.modelName(card), name, languages: this.languagesOf(card) };
    return studio.t(unknown.script ? 'shell.unknown_script' : 'shell.unknown_language', values);
  }

  /** What a checkpoint speaks. @param {import('./rooms/fields.js').ModelCard} card */
  languagesOf({ languages }) {
    const { t, words } = this.studio;
    const { length } = languages;
    const known = new Intl.ListFormat(words.language, { type: 'conjunction' }).format(languages.map((one) => languageName(one, words.language)));
    return length > MAX_NAMED ? t('shell.languages', { n: length }) : known;
  }
}
