/** The Library: what was spoken, and the voices that were kept. */

import { TakesPanel } from '../takes_panel.js';
import { VoicesPanel } from '../voices_panel.js';

export class LibraryRoom {
  static id = 'library';
  id = 'library';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.takes = new TakesPanel(root.querySelector('#vw-library-takes'), studio);
    this.voices = new VoicesPanel(root.querySelector('#vw-library-voices'), studio);
  }

  enter() {
    this.takes.refresh();
    this.voices.refresh();
  }

  onLanguage() {
    this.takes.onLanguage();
    this.voices.onLanguage();
  }
}
