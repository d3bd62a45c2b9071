/** The sheet in which a script becomes a file: what, as what, how loud, and how far it is. */

import { need } from '../elements.js';
import { errorOf } from '../errors.js';
import { collectClips, exportClips } from './exporting.js';
import { saveFile } from '../file_name.js';

/** @typedef {import('./exporting.js').Wanted} Wanted */

export class ExportForm {
  /** @param {HTMLElement} root the room's panel @param {import('../rooms/script.js').ScriptRoom} room */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.sheet = need(root, '#vw-script-export');
    this.shape = need(root, '#vw-script-shape', HTMLSelectElement);
    this.format = need(root, '#vw-script-format', HTMLSelectElement);
    this.loudness = need(root, '#vw-script-loudness', HTMLSelectElement);
    this.go = need(root, '#vw-script-go', HTMLButtonElement);
    this.progress = need(root, '#vw-script-progress', HTMLProgressElement);
    this.told = need(root, '#vw-script-told');
    this.error = need(root, '#vw-script-export-error');
    this.sheet.onsubmit = (event) => {
      event.preventDefault();
      this.make();
    };
    this.shape.onchange = () => {
      for (const field of [this.format, this.loudness]) field.disabled = this.shape.value === 'srt';
    };
  }

  /** @param {HTMLElement} source that asked */
  show(source) {
    this.sheet.showPopover({ source });
  }

  /** What was said of the script as it was before. */
  forgetTold() {
    this.error.textContent = '';
    if (!this.go.disabled) this.told.textContent = '';
  }

  /** @param {number} value @param {string} sentence */
  tell(value, sentence) {
    this.progress.value = value;
    this.told.textContent = sentence;
  }

  async make() {
    const { room, studio } = this;
    const { t } = studio;
    const { script, maker } = room;
    this.error.textContent = '';
    this.go.disabled = true;
    this.progress.hidden = false;
    try {
      room.check(script.lines.map(({ id }) => id));
      const clips = await collectClips(maker, (made, of) =>
        this.tell(made / (of + 1), made < of ? t('script.making', { n: made + 1, of }) : t('script.joining')),
      );
      const { file, name } = await exportClips(studio.api, script, clips, this.wanted);
      saveFile(file, name);
      this.tell(0, '');
      this.sheet.hidePopover();
      studio.toast(t('script.exported', { name }));
    } catch (error) {
      this.tell(0, '');
      studio.complain(this.error, errorOf(error));
    } finally {
      this.go.disabled = false;
      this.progress.hidden = true;
    }
  }

  /** What was chosen; which there are: assets/html/rooms/script.html. @returns {Wanted} */
  get wanted() {
    const loudness = this.loudness.value ? Number(this.loudness.value) : null;
    return /** @type {Wanted} */ ({ shape: this.shape.value, format: this.format.value, loudness });
  }
}
