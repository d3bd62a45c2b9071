/** Information below the text field: tag buttons, length, duration, and language hints. */

import { formatDuration } from '../common/dates.js';
import { createElement, getElement, writeText } from '../common/elements.js';
import { languageName } from '../common/fields.js';
import { scriptName, unknownLanguage } from '../common/language_detection.js';
import { expectedSeconds, sentLength, untagged } from '../common/text.js';

// --- Chips below the text field that insert tags.

const CHIPS = ['pause', 'whispering', 'excited', 'sad', 'laughing', 'neutral'];
// Tags whose names are the same in every language, because the runtime parses them.
const UNTRANSLATED_TAGS = new Set(['pause', 'neutral']);

const PADDING_PX = 20; // Maximum height of the padding below the last line of the text field.

/** Buttons below the text field that insert tags, if the voice supports tags. */
export class TagChips {
  /**
   * Create the buttons that insert a tag into the text.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.holder = getElement(page, '#vw-text-tags');
    this.language = '';
    this.refresh();
    this.holder.addEventListener('scroll', () => this.fade());
    new ResizeObserver(() => this.fade()).observe(this.holder);
  }

  /** Set attributes that show at which ends of the scrollable row more buttons are hidden. */
  fade() {
    const { scrollLeft, scrollWidth, clientWidth } = this.holder;
    // In right-to-left text, `scrollLeft` is negative.
    const at = Math.abs(scrollLeft);
    this.holder.toggleAttribute('data-before', at > 1);
    this.holder.toggleAttribute('data-behind', at < scrollWidth - clientWidth - 1);
  }

  refresh() {
    const { studio, holder } = this;
    // Show the row before the voice is known, so that nothing moves later.
    const takes = Boolean(studio.current?.takesTags);
    holder.toggleAttribute('data-awaited', takes && studio.cards.size === 0);
    holder.hidden = !takes;
    // Every voice supports pauses. All other tags need a voice that supports styles.
    holder.toggleAttribute('data-pause-only', !studio.current?.followsTags && studio.cards.size > 0);
    if (this.language === studio.words.language) return;
    this.language = studio.words.language;
    holder.replaceChildren(
      ...CHIPS.map((word) => {
        const tag = studio.t(`tags.${word}`);
        return this.chip(`[${tag}]`, `[${UNTRANSLATED_TAGS.has(word) ? word : tag}]`);
      }),
    );
  }

  /** Return a button that inserts a tag. @param {string} label @param {string} tag */
  chip(label, tag) {
    return createElement('button', { type: 'button', textContent: label, title: tag, onclick: () => this.insert(tag) });
  }

  /** Insert a tag into the text field at the caret. @param {string} tag */
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

// --- Sample texts, offered until the user has written a text.

/** Return a random element of a list. @param {string[]} words */
const oneOf = (words) => words[Math.floor(Math.random() * words.length)];

/** Buttons that fill the text field with a sample text. */
export class Starters {
  /** Create the buttons of a Speak room. @param {import('./room.js').SpeakersRoom} room */
  constructor(room) {
    this.room = room;
    this.studio = room.studio;
    this.holder = getElement(this.studio.page, '#vw-starters');
    this.offered = '';
  }

  /**
   * Show buttons with sample texts in a language of the loaded checkpoint.
   *
   * Until a checkpoint is loaded, the space for the buttons is reserved.
   */
  refresh() {
    const { studio, room, holder } = this;
    const { card } = room;
    this.show(!studio.isOwnText);
    holder.toggleAttribute('data-awaited', !card);
    const is = `${card?.id} ${studio.words.language}`;
    if (is === this.offered) return;
    this.offered = is;
    const { t } = studio;
    const buttons = studio.presets.starters.map(({ name, text, cast }) => {
      const [sample] = this.inLanguage(text);
      return this.button(name, untagged(sample).trim(), () => (cast ? this.playAsScript(name, sample) : this.useSample(sample)));
    });
    const texts = this.texts;
    if (texts.length > 1) {
      const name = t('speakers.languages', { n: texts.length });
      buttons.push(this.button(name, t('speakers.languages_about'), () => this.playAsScript(name, texts.join('\n\n'), room.spokenBy())));
    }
    buttons.push(this.button(t('speakers.shuffle'), t('speakers.shuffle_about'), () => this.shuffle()));
    holder.replaceChildren(...buttons);
  }

  /**
   * Show or hide the buttons.
   *
   * On a phone, the text field gets the space of hidden buttons, so that nothing below it moves.
   *
   * @param {boolean} isShown
   */
  show(isShown) {
    const { holder, room, studio } = this;
    if (holder.hidden !== isShown) return;
    const height = holder.getBoundingClientRect().bottom - studio.textField.getBoundingClientRect().top;
    room.root.style.setProperty('--vw-freed', isShown ? '' : `${height}px`); // In another room, the height is negative.
    holder.hidden = !isShown;
  }

  /** Sample sentences in the languages that the checkpoint supports. */
  get texts() {
    const { texts } = this.studio.presets;
    return (this.room.card?.languages ?? []).flatMap((language) => texts[language.toLowerCase()] ?? []);
  }

  /**
   * Return sample texts in the page's language, or in another supported language.
   *
   * @param {Object<string, string[]>} text sample texts by language
   */
  inLanguage(text) {
    const spoken = (this.room.card?.languages ?? []).map((language) => language.toLowerCase());
    const wanted = this.studio.words.language === 'zh' ? ['chinese', 'english'] : ['english', 'chinese'];
    return text[wanted.find((language) => spoken.includes(language)) ?? wanted[0]];
  }

  /**
   * Return a button with the name and the first words of a sample text.
   *
   * @param {string} name @param {string} about @param {() => void} onclick
   */
  button(name, about, onclick) {
    // The language of the sample text may differ from the language of the page.
    const lang = /\p{Script=Han}/u.test(about) ? 'zh' : 'en';
    const children = [createElement('span', { textContent: name }), createElement('small', { textContent: about, title: about, dir: 'auto', lang })];
    return createElement('button', { type: 'button', onclick }, children);
  }

  /** Put a sample text into the text field, with undo. @param {string} text */
  useSample(text) {
    const { studio, room } = this;
    studio.undo.replacing(room, studio.isOwnText, () => void (studio.text = text));
    studio.drafts.touch();
  }

  /**
   * Create a script from a text with several lines, and play it.
   *
   * @param {string} title
   * @param {string} text
   * @param {import('../app/studio.js').SpokenBy|null} [spokenBy]
   */
  playAsScript(title, text, spokenBy = null) {
    if (this.studio.isReachable()) this.studio.go('script', { title, text, spokenBy, isPlayed: true });
  }

  /** Use a random sample text, voice and style, with undo. */
  shuffle() {
    const { studio, room } = this;
    const { presets, catalogue, text } = studio;
    const written = presets.starters.filter(({ cast }) => !cast).flatMap((starter) => this.inLanguage(starter.text));
    studio.undo.replacing(room, studio.isOwnText, () => {
      studio.text = oneOf([...written, ...this.texts].filter((one) => one !== text));
      const voices = catalogue.speakers.filter(({ key }) => key !== room.chosen?.key);
      if (voices.length) room.choose(voices[Math.floor(Math.random() * voices.length)]);
      if (!room.noStyleReason()) room.setStyle(oneOf(presets.instructs.map((one) => one.text).filter((one) => one !== room.instruct.value)));
    });
    studio.drafts.touch();
  }
}

// --- Length, expected duration, a button that makes a script, and a hint about the language.

const MIN_SCRIPT_CHARS = 400; // Minimum number of characters of a text for which the page offers to make a script.
const LIMIT_SHARE = 0.8; // Fraction of the maximum length at which the limit is shown.
const MAX_NAMED_LANGUAGES = 3; // Maximum number of languages that the hint names.

/** Information about a text: its length, spoken duration, and language hints. */
export class TextFacts {
  /** @type {number|undefined} */
  frame;

  /**
   * Find the elements for the information on the page.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.count = getElement(page, '#vw-text-count');
    this.script = getElement(page, '#vw-text-script');
    this.pronunciationButton = getElement(page, '#vw-text-said');
    this.languageHint = getElement(page, '#vw-text-tongue');
    this.tags = new TagChips(page, studio);
    this.starters = new Starters(studio.speakRoom);
    this.script.onclick = () => studio.go('script', { text: studio.text, spokenBy: studio.current?.spokenBy?.() ?? null });
    studio.textField.addEventListener('input', () => this.refreshSoon());
    studio.textField.addEventListener('scroll', () => this.fade());
    new ResizeObserver(() => this.fade()).observe(studio.textField);
    studio.pronunciation.addEventListener('change', () => this.refreshSoon());
  }

  refreshSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.refresh();
    });
  }

  /** Update the information now, for a room that is about to be shown. */
  refreshNow() {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    this.refresh();
  }

  /** Set attributes that show at which ends of the text field more text is hidden. */
  fade() {
    const { textField } = this.studio;
    const { scrollTop, scrollHeight, clientHeight } = textField;
    textField.toggleAttribute('data-before', scrollTop > 1);
    // At the end of the text, a browser may scroll only to the last line and not to the padding below.
    textField.toggleAttribute('data-behind', scrollTop < scrollHeight - clientHeight - PADDING_PX);
  }

  refresh() {
    const { studio } = this;
    const text = studio.text.trim();
    this.fade();
    studio.dock.showText();
    this.tags.refresh();
    this.starters.refresh();
    const isLong = text.length > MIN_SCRIPT_CHARS;
    const isUnlimited = Boolean(studio.current?.takesAnyLength);
    const becomesScript = isUnlimited && this.isTooLong;
    // The number of characters is shown only if it is limited, because the button that makes a script needs the space.
    const form = becomesScript ? '_script' : isUnlimited && isLong ? '_long' : '';
    writeText(this.count, text && studio.t(`shell.text_facts${form}`, this.facts(text)));
    this.count.classList.toggle('vw-over', this.isTooLong && !becomesScript);
    this.script.hidden = !isLong;
    writeText(this.pronunciationButton, this.pronunciationLabel(studio.pronunciation.count(text)));
    const hint = text && this.hint(text);
    this.languageHint.hidden = !hint;
    writeText(this.languageHint, hint);
  }

  /**
   * Return the label of the button that opens the pronunciation dictionary.
   *
   * @param {number} n number of replacements in the text
   */
  pronunciationLabel(n) {
    return this.studio.t(n === 0 ? 'pronunciation.title' : 'pronunciation.places', { n });
  }

  /** Maximum number of characters of one request. */
  get maxChars() {
    return this.studio.limits.max_text_chars ?? Infinity;
  }

  /** True if the text is too long for one request. */
  get isTooLong() {
    return this.sentLength(this.studio.text.trim()) > this.maxChars;
  }

  /** Return the number of characters that are sent, after replacing pronunciations. @param {string} text */
  sentLength(text) {
    return sentLength(this.studio.pronunciation.spokenText(text) ?? text);
  }

  /**
   * Return a text with the name of a voice and the estimated duration of the text.
   *
   * @param {string} voice name of the voice
   */
  line(voice) {
    const text = this.studio.text.trim();
    const time = text && this.studio.t('shell.about', { time: this.time(expectedSeconds(untagged(text))) });
    return [voice, time].filter(Boolean).join(', ');
  }

  /**
   * Return the number of words and characters, and the duration of a text.
   *
   * @param {string} tagged text that may contain tags
   */
  facts(tagged) {
    const text = untagged(tagged);
    const { language } = this.studio.words;
    const segments = new Intl.Segmenter(language, { granularity: 'word' }).segment(text);
    let words = 0;
    for (const { isWordLike } of segments) words += isWordLike ? 1 : 0;
    const number = new Intl.NumberFormat(language);
    const sent = this.sentLength(tagged);
    const isNear = sent > LIMIT_SHARE * this.maxChars && !this.studio.current?.takesAnyLength;
    const characters = isNear
      ? this.studio.t('shell.of_at_most', { n: number.format(sent), limit: number.format(this.maxChars) })
      : number.format(sentLength(text));
    return { words: number.format(words), characters, time: this.time(expectedSeconds(text)) };
  }

  /** Format a duration in the page's language. @param {number} seconds */
  time(seconds) {
    return formatDuration(Math.round(seconds), this.studio.t);
  }

  /** Return a hint if the checkpoint does not support the language of a text, or ''. @param {string} text */
  hint(text) {
    const { studio } = this;
    const card = studio.current && studio.modelOfRoom(studio.current);
    const unknown = card && unknownLanguage(text, card.languages);
    if (!unknown) return '';
    const page = studio.words.language;
    const name = unknown.script ? scriptName(unknown.script, page) : new Intl.DisplayNames([page], { type: 'language' }).of(unknown.language ?? '');
    const values = { model: studio.realVoices.nameOf(card.id), name, languages: this.languagesOf(card) };
    return studio.t(unknown.script ? 'shell.unknown_script' : 'shell.unknown_language', values);
  }

  /**
   * Return the names of a checkpoint's languages as one text.
   *
   * If there are more than MAX_NAMED_LANGUAGES, the text has only their number.
   *
   * @param {import('../common/fields.js').ModelCard} card
   */
  languagesOf({ languages }) {
    const { t, words } = this.studio;
    const { length } = languages;
    const known = new Intl.ListFormat(words.language, { type: 'conjunction' }).format(languages.map((one) => languageName(one, words.language)));
    return length > MAX_NAMED_LANGUAGES ? t('shell.languages', { n: length }) : known;
  }
}
