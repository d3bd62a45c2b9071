/**
 * Tags in a text: `[excited]` is a style for what follows, `[pause:500ms]` or `<break time="1s"/>` a silence. The
 * runtime reads them (runtime/shared/inline_tags.py); here they are found, left out where words are counted, and put
 * in by chips.
 */

import { need } from './elements.js';
import { namesStyle } from './style_words.js';

const TAG = /\[(?=[^[\]\n]*\p{L})[^[\]\n]{1,500}\]|<break(?=[\s/>])[^<>\n]{0,300}>/giu;
const TAG_AND_SPACE = new RegExp(`(^|\\s)?(${TAG.source})[ \\t]*`, TAG.flags);
const PAUSE = /^(?:<break\b.*|\[\s*(?:pause|break)(?:\s*[\s:=]\s*[\d.,]+\s*(?:\p{L}+\s*)?)?\s*\])$/iu;
const STYLE = /^\[\s*(?:neutral\s*\]|(?:style|风格|語氣|语气)\s*[:：=])/iu;
const CHIPS = ['pause', 'whispering', 'excited', 'sad', 'laughing', 'neutral'];
const KNOWN = new Set(['pause', 'neutral']); // Literal names that the runtime knows.

/** @param {string} text */
export function hasTags(text) {
  return tagsOf(text).length > 0;
}

/**
 * The fields of session.config for a text: they say whether it has tags.
 *
 * @param {import('./take.js').Config} config @param {string} text @returns {import('./take.js').Config}
 */
export function configFor({ tags: _, ...config }, text) {
  return hasTags(text) ? { ...config, tags: true } : config;
}

/** A text without its tags, as it is read. @param {string} text */
export function untagged(text) {
  return text.replace(TAG_AND_SPACE, (found, before, tag) => (isTag(tag) ? (before ?? '') : found));
}

/** Where the tags of a text are. @param {string} text */
export function tagsOf(text) {
  return [...text.matchAll(TAG)].filter(([tag]) => isTag(tag));
}

/** True if brackets hold a tag and no prose. @param {string} bracket */
function isTag(bracket) {
  return PAUSE.test(bracket) || STYLE.test(bracket) || namesStyle(bracket.slice(1, -1));
}

/** The last tag of a text that names a style; empty where none does. @param {string} text */
export function lastStyle(text) {
  return tagsOf(text).map(([tag]) => tag).findLast((tag) => !PAUSE.test(tag)) ?? '';
}

/** Chips below the shared text that put tags in, where the room's voice follows them. */
export class TagChips {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.holder = need(page, '#vw-text-tags');
    this.language = '';
    this.refresh();
    this.holder.addEventListener('scroll', () => this.fade());
    new ResizeObserver(() => this.fade()).observe(this.holder);
  }

  /** Show at which ends there is more of the row, where it scrolls. */
  fade() {
    const { scrollLeft, scrollWidth, clientWidth } = this.holder;
    const at = Math.abs(scrollLeft); // Negative in right-to-left text.
    this.holder.toggleAttribute('data-before', at > 1);
    this.holder.toggleAttribute('data-behind', at < scrollWidth - clientWidth - 1);
  }

  refresh() {
    const { studio, holder } = this;
    // Before it is known who speaks they have their place: nothing moves when they come.
    const takes = Boolean(studio.current?.takesTags);
    holder.toggleAttribute('data-awaited', takes && studio.cards.size === 0);
    holder.hidden = !takes;
    // A pause is made for every voice; the others are for those that follow a style.
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
    const chip = Object.assign(document.createElement('button'), { type: 'button', textContent: label, title: tag });
    chip.onclick = () => this.insert(tag);
    return chip;
  }

  /** Put a tag where the caret is. @param {string} tag */
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
