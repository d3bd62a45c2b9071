/** The Library: what was spoken, and the voices that were kept. In a narrow window one of the two is shown. */

import { all, need } from '../elements.js';
import { KeptScripts } from '../kept_scripts.js';
import { TakesPanel } from '../takes_panel.js';
import { VoicesPanel } from '../voices_panel.js';

export class LibraryRoom {
  static id = 'library';
  id = 'library';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.halves = need(root, '.vw-halves');
    this.turns = all(root, '.vw-library-turn [data-half]');
    const takes = need(root, '#vw-library-takes');
    this.scripts = new KeptScripts(studio, () => this.takes.refresh());
    this.takes = new TakesPanel(takes, studio, this.scripts);
    this.voices = new VoicesPanel(need(root, '#vw-library-voices'), studio);
    for (const turn of this.turns) turn.onclick = () => this.show(turn.dataset.half ?? '');
  }

  /** @param {import('../studio.js').Given} [given]  half: the one that is asked for */
  enter({ half } = {}) {
    if (half) this.show(half);
    this.takes.follow();
    this.takes.refresh();
    this.voices.refresh();
  }

  /** Show this half where there is no place for both. @param {string} half */
  show(half) {
    this.halves.dataset.shown = half;
    for (const turn of this.turns) turn.setAttribute('aria-pressed', String(turn.dataset.half === half));
  }

  draft() {
    return { half: this.halves.dataset.shown };
  }

  /** @param {{half?: string}} draft */
  recall({ half }) {
    if (this.turns.some(({ dataset }) => dataset.half === half)) this.show(half ?? '');
  }

  onLanguage() {
    this.scripts.paint();
    this.takes.onLanguage();
    this.voices.onLanguage();
  }
}
