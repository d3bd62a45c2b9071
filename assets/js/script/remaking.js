/** Making one line again: the others stay, and its sound does until it has another, or where that fails. */

export class Remaking {
  /** A line that is made again and had a sound. @type {{id: string, back: () => void, dismiss: () => void}|null} */
  line = null;

  /** @param {import('../rooms/script.js').ScriptRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** @param {string} id */
  begin(id) {
    const { studio, script, maker, casting } = this.room;
    const line = script.line(id);
    if (!line || !studio.reached()) return;
    if (casting.isGone(line.voice)) return studio.complain('request', this.room.goneError(line));
    studio.stop();
    const { seed, locked } = line;
    const isMade = maker.state(line).state === 'made';
    const back = maker.forget(line);
    script.tell(false);
    this.room.playFrom(id, { only: true });
    const undo = () => {
      studio.stop();
      script.change(id, { seed });
    };
    const said = studio.t('script.remade', { n: script.at(id) + 1 });
    const dismiss = locked ? () => {} : studio.toast(said, { action: studio.t('shell.undo'), onAction: undo });
    if (isMade) this.line = { id, back, dismiss };
  }

  /** What becomes of it. */
  follow() {
    const { studio, script, maker } = this.room;
    const line = this.line && script.line(this.line.id);
    if (!line) return;
    const { state } = maker.state(line);
    if (state === 'made') this.line = null;
    if (state !== 'failed') return;
    this.line?.dismiss();
    this.takeBack();
    studio.toast(studio.t('script.not_remade', { n: script.at(line.id) + 1 })); // The reason is shown at the button.
  }

  /** It has its sound back. */
  takeBack() {
    const { line } = this;
    this.line = null;
    if (!line) return;
    line.back();
    this.room.file();
  }

  /** Another script is open. */
  forget() {
    this.line = null;
  }
}
