/** Chips below the shared text that put tags in. */

import { need } from './elements.js';

const CHIPS = ['pause', 'whispering', 'excited', 'sad', 'laughing', 'neutral'];
const KNOWN = new Set(['pause', 'neutral']); // Literal names that the runtime knows.

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
