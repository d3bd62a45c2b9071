/** The voice picker in a sheet: beside the button that opens it, and at the bottom of a phone's window. */

import { VoicePicker } from './voice_picker.js';

/** @typedef {import('./voice_picker.js').Acts} Acts */

export class VoicePopover {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.element = /** @type {HTMLElement} */ (page.querySelector('#vw-voice-sheet'));
    /** @type {Acts} */
    this.acts = { chosen: () => '', choose: () => {} };
    /** @type {HTMLElement|null} */
    this.opener = null;
    /** @type {VoicePicker|null} */
    this.picker = null;
    this.element.addEventListener('toggle', (event) => {
      if (/** @type {ToggleEvent} */ (event).newState === 'open') this.picker?.focus();
      // A button that was clicked by hand has let go of the focus: the browser has nothing to give it back to.
      else if (document.activeElement === document.body || this.element.contains(document.activeElement)) this.opener?.focus();
    });
  }

  /**
   * Make a button choose a voice by the sheet.
   *
   * @param {HTMLButtonElement} button @param {Acts} acts  of them, what is done with the choice
   */
  serve(button, acts) {
    button.popoverTargetElement = this.element;
    button.ariaHasPopup = 'dialog';
    button.addEventListener('click', () => {
      this.opener = button;
      this.show(acts);
    });
  }

  /** The picker for what opens the sheet. @param {Acts} acts */
  show(acts) {
    this.acts = acts;
    const describe = acts.describe ?? null;
    this.picker ??= new VoicePicker(/** @type {HTMLElement} */ (this.element.lastElementChild), this.studio, {
      chosen: () => this.acts.chosen(),
      choose: (choice) => {
        this.acts.choose(choice);
        this.element.hidePopover();
      },
      leave: () => this.element.hidePopover(),
    });
    this.picker.acts.describe = describe && (() => {
      this.element.hidePopover();
      describe();
    });
    this.picker.search.value = '';
    this.picker.fill();
  }
}

