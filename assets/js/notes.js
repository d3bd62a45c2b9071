/**
 * What stands beside the name of a take: its place in the queue, or what its voice has left out of the text. The line has
 * place for the beginning of a sentence; a sheet has all of it, and the way on. The server's sentences are for programs,
 * so the page has its own for those that people meet.
 */

import { need, write } from './elements.js';
import { inPageWords, nameOf } from './server_words.js';
import { strangeScript, scriptName } from './tongues.js';

const OWN = 'shell.note.';

export class Notes {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.line = need(page, '#vw-note');
    this.more = need(page, '#vw-note-more');
    this.sheet = need(page, '#vw-notes');
    this.says = need(page, '#vw-notes-say');
    this.see = need(page, '#vw-notes-see');
    this.see.onclick = () => {
      this.sheet.hidePopover();
      studio.realVoices.open();
    };
  }

  /** Say something that passes. @param {string} sentence */
  say(sentence) {
    write(this.line, sentence);
    this.more.hidden = true;
  }

  /** Say what a take's voice has made of its text. @param {import('./stage.js').Shown} take */
  tell(take) {
    const { studio } = this;
    const said = (take.start?.notes ?? []).map((note) => this.worded(note, take));
    const sentence = said.map(({ words }) => words).join(' ');
    write(this.line, sentence);
    this.more.hidden = sentence === '';
    if (this.says.textContent !== said.map(({ words }) => words).join('')) this.says.replaceChildren(...said.map(({ words }) => paragraph(words)));
    this.see.hidden = !studio.realVoices.may || !said.some(({ isRead }) => isRead);
  }

  /**
   * A note in the page's words.
   *
   * @param {string} note as the server said it @param {import('./stage.js').Shown} take
   * @returns {{words: string, isRead?: boolean}}  isRead: the real voices say what this one does not
   */
  worded(note, take) {
    const { studio } = this;
    const { t, words } = studio;
    const [, name = ''] = /^note\.(.+)$/.exec(nameOf(note) ?? '') ?? [];
    if (name === 'strange_script') return this.strange(take) ?? { words: inPageWords(note) };
    if (!(OWN + name in words.english)) return { words: inPageWords(note) };
    const isStyled = name === 'dropped_styles' && 'mode' in take && take.mode === 'base' && studio.catalogue.takesStyle('base');
    return { words: t(OWN + name) + (isStyled ? ` ${t('shell.note.style_field')}` : '') };
  }

  /** Letters that no language of the voice is written in. @param {import('./stage.js').Shown} take */
  strange(take) {
    const { studio } = this;
    const { t, words } = studio;
    const card = [...studio.cards.values()].find(({ id }) => id === take.start?.model);
    const strange = card && 'sent' in take ? strangeScript(take.sent, card.languages) : null;
    if (!card || !strange) return null;
    const letters = scriptName(strange.script, words.language);
    const said = t('shell.note.strange_script', { languages: studio.facts.languagesOf(card), letters });
    const isRead = strange.isRead && studio.realVoices.may && card.id === studio.realVoices.small;
    return { words: isRead ? `${said} ${t('shell.note.real_voices_read')}` : said, isRead };
  }
}

/** @param {string} words */
const paragraph = (words) => Object.assign(document.createElement('p'), { textContent: words });
