/** The dock: the last row of the page. It holds the room's first button, and the player once there is something to hear. */

const VOLUME = 'voicewright.volume';

export class Dock {
  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.root = /** @type {HTMLElement} */ (page.querySelector('#vw-stage'));
    this.line = /** @type {HTMLElement} */ (page.querySelector('#vw-dock-line'));
    this.first = /** @type {HTMLElement} */ (page.querySelector('.vw-first'));
    this.speak = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-speak'));
    this.stop = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-stop'));
    this.volume = /** @type {HTMLInputElement} */ (page.querySelector('#vw-volume'));
    this.home = /** @type {HTMLElement} */ (page.querySelector('#vw-dock-actions'));
    this.recallVolume();
  }

  /** Show what can be begun and what is to be heard. @param {boolean} isBusy something sounds or is being made */
  refresh(isBusy) {
    const { current, stage } = this.studio;
    this.stop.disabled = !isBusy;
    this.turn(isBusy);
    const begins = Boolean(current.speak);
    this.first.hidden = !begins && !isBusy;
    const isLoaded = Boolean(stage.take);
    this.root.hidden = !isLoaded && !(begins && this.home.contains(this.first));
    this.root.classList.toggle('vw-loaded', isLoaded);
  }

  /** Say what would be begun; it is seen until something was heard. */
  sayLine() {
    this.line.textContent = this.studio.current?.line?.() ?? '';
  }

  /** One place for both: what is begun there is stopped there, by hand and by keys. @param {boolean} isBusy */
  turn(isBusy) {
    const [shown, gone] = isBusy ? [this.stop, this.speak] : [this.speak, this.stop];
    if (gone.hidden && !shown.hidden) return;
    const hadFocus = document.activeElement === gone;
    shown.hidden = false;
    gone.hidden = true;
    if (hadFocus) shown.focus();
  }

  /** The volume as it was left in this browser. */
  recallVolume() {
    const { player } = this.studio.stage;
    const set = (/** @type {number} */ volume) => (player.volume = volume);
    try {
      const kept = Number(localStorage.getItem(VOLUME) ?? 1);
      if (kept >= 0 && kept <= 1) this.volume.value = String(kept);
    } catch {
      // A browser that gives the page no place: it begins at full volume each time.
    }
    set(this.volume.valueAsNumber);
    this.volume.oninput = () => {
      set(this.volume.valueAsNumber);
      try {
        localStorage.setItem(VOLUME, this.volume.value);
      } catch {
        // The same: it holds until the page is left.
      }
    };
  }
}
