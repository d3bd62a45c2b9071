/** Facts below the shared text: tag chips, length, duration, and hints about its language. */

import { span } from '../common/dates.js';
import { make, need } from '../common/elements.js';
import { languageName } from '../common/fields.js';
import { scriptName, unknownLanguage } from '../common/language_detection.js';
import { expectedSeconds, sentLength, untagged } from '../common/text.js';

// --- Chips below the shared text that insert tags.

const CHIPS = ['pause', 'whispering', 'excited', 'sad', 'laughing', 'neutral'];
const KNOWN = new Set(['pause', 'neutral']); // Literal names that the runtime knows.

/** Chips below the shared text that insert tags, if the room's voice supports them. */
export class TagChips {
  /** @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.holder = need(page, '#vw-text-tags');
    this.language = '';
    this.refresh();
    this.holder.addEventListener('scroll', () => this.fade());
    new ResizeObserver(() => this.fade()).observe(this.holder);
  }

  /** Show at which ends a scrollable row has more content. */
  fade() {
    const { scrollLeft, scrollWidth, clientWidth } = this.holder;
    const at = Math.abs(scrollLeft); // Negative in right-to-left text.
    this.holder.toggleAttribute('data-before', at > 1);
    this.holder.toggleAttribute('data-behind', at < scrollWidth - clientWidth - 1);
  }

  refresh() {
    const { studio, holder } = this;
    // Their space is reserved before the voice is known, so that nothing moves later.
    const takes = Boolean(studio.current?.takesTags);
    holder.toggleAttribute('data-awaited', takes && studio.cards.size === 0);
    holder.hidden = !takes;
    // Every voice supports pauses; the other tags need a voice with styles.
    holder.toggleAttribute('data-pause-only', !studio.current?.followsTags && studio.cards.size > 0);
    if (this.language === studio.words.language) return;
    this.language = studio.words.language;
    holder.replaceChildren(
      ...CHIPS.map((word) => {
        const said = studio.t(`tags.${word}`);
        return this.chip(`[${said}]`, `[${KNOWN.has(word) ? word : said}]`);
      }),
    );
  }

  /** @param {string} label @param {string} tag */
  chip(label, tag) {
    const chip = make('button', { type: 'button', textContent: label, title: tag });
    chip.onclick = () => this.insert(tag);
    return chip;
  }

  /** Insert a tag at the caret. @param {string} tag */
  insert(tag) {
    const field = this.studio.textField;
    const { value, selectionStart } = field;
    const leads = selectionStart > 0 && !/\s/u.test(value[selectionStart - 1]) ? ' ' : '';
    const follows = /\s/u.test(value[selectionStart] ?? '') ? '' : ' ';
    field.setRangeText(`${leads}${tag}${follows}`, selectionStart, selectionStart, 'end');
    field.dispatchEvent(new Event('input', { bubbles: true }));
    field.focus();
  }
}

// --- Length, expected duration, the button that makes a script, and a hint about the language.

const SCRIPT_CHARS = 400; // A longer text is better spoken as a script, line by line.
const NEAR_LIMIT = 0.8; // Share of the limit above which the limit is shown.
const MAX_NAMED = 3; // Languages named.

export class TextFacts {
  /** @type {number|undefined} */
  frame;

  /** @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.count = need(page, '#vw-text-count');
    this.script = need(page, '#vw-text-script');
    this.said = need(page, '#vw-text-said');
    this.languageHint = need(page, '#vw-text-tongue');
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

  /** Update at once instead of in the next frame, so that a new room appears with its facts. */
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
    const becomesScript = Boolean(studio.current?.takesAnyLength) && this.isTooLong;
    this.count.textContent = text && studio.t(becomesScript ? 'shell.text_facts_script' : 'shell.text_facts', this.facts(text));
    this.count.classList.toggle('vw-over', this.isTooLong && !becomesScript);
    this.script.hidden = text.length <= SCRIPT_CHARS;
    this.said.textContent = this.otherwise(studio.pronunciation.count(text));
    const hint = text && this.hint(text);
    this.languageHint.hidden = !hint;
    if (this.languageHint.textContent !== hint) this.languageHint.textContent = hint;
  }

  /** Show the button of the pronunciation dictionary with the number of its words in this text. @param {number} n */
  otherwise(n) {
    return this.studio.t(n === 0 ? 'pronunciation.title' : 'pronunciation.places', { n });
  }

  /** Maximum characters of one take. */
  get most() {
    return this.studio.limits.max_text_chars ?? Infinity;
  }

  /** True if one take cannot have all of the text. */
  get isTooLong() {
    return this.sentLength(this.studio.text.trim()) > this.most;
  }

  /** Return the length of a text as sent, with tags and pronunciations. @param {string} text */
  sentLength(text) {
    return sentLength(this.studio.pronunciation.spoken(text) ?? text);
  }

  /** Return the voice and the estimated duration. @param {string} voice */
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
    const isNear = sent > NEAR_LIMIT * this.most && !this.studio.current?.takesAnyLength;
    const characters = isNear
      ? this.studio.t('shell.of_at_most', { n: number.format(sent), limit: number.format(this.most) })
      : number.format(sentLength(text));
    return { words: number.format(words), characters, time: this.time(expectedSeconds(text)) };
  }

  /** @param {number} seconds */
  time(seconds) {
    return span(Math.round(seconds), this.studio.t);
  }

  /** Return a hint about unsupported parts of the text; empty if there are none. @param {string} text */
  hint(text) {
    const { studio } = this;
    const card = studio.current && studio.cardOf(studio.current);
    const unknown = card && unknownLanguage(text, card.languages);
    if (!unknown) return '';
    const page = studio.words.language;
    const name = unknown.script ? scriptName(unknown.script, page) : new Intl.DisplayNames([page], { type: 'language' }).of(unknown.language ?? '');
    const values = { model: studio.modelName(card), name, languages: this.languagesOf(card) };
    return studio.t(unknown.script ? 'shell.unknown_script' : 'shell.unknown_language', values);
  }

  /** Return the languages of a checkpoint. @param {import('../common/fields.js').ModelCard} card */
  languagesOf({ languages }) {
    const { t, words } = this.studio;
    const { length } = languages;
    const known = new Intl.ListFormat(words.language, { type: 'conjunction' }).format(languages.map((one) => languageName(one, words.language)));
    return length > MAX_NAMED ? t('shell.languages', { n: length }) : known;
  }
}
