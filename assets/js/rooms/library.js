/** The Library: what was spoken, and the voices that were kept. */

import { need } from '../elements.js';
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
    const takes = need(root, '#vw-library-takes');
    this.scripts = new KeptScripts(studio, () => this.takes.refresh());
    this.takes = new TakesPanel(takes, studio, this.scripts);
    this.voices = new VoicesPanel(need(root, '#vw-library-voices'), studio);
  }

  enter() {
    this.takes.refresh();
    this.voices.refresh();
  }

  onLanguage() {
    this.scripts.paint();
    this.takes.onLanguage();
    this.voices.onLanguage();
  }
}
