/**
 * Player bar at the bottom of the page (dock), with the primary button of the room.
 *
 * The player is shown as soon as there is audio.
 */

import { writeText } from '../common/elements.js';
import { recall, remember } from '../common/storage.js';
import { Take } from './take.js';

const VOLUME = 'voicewright.volume';
const RATE = 'voicewright.rate';

/** Controls of the player at the bottom of the page: Speak, Stop, volume and speed. */
export class Dock {
  /**
   * Find the controls on the page, and restore the stored volume and speed.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    this.root = /** @type {HTMLElement} */ (page.querySelector('#vw-stage'));
    this.line = /** @type {HTMLElement} */ (page.querySelector('#vw-dock-line'));
    this.first = /** @type {HTMLElement} */ (page.querySelector('.vw-first'));
    this.speak = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-speak'));
    this.stop = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-stop'));
    this.stopPanel = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-halt'));
    this.typed = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-typed'));
    this.volume = /** @type {HTMLInputElement} */ (page.querySelector('#vw-volume'));
    this.volumeButton = /** @type {HTMLElement} */ (page.querySelector('#vw-volume-button'));
    this.code = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-as-code'));
    this.home = /** @type {HTMLElement} */ (page.querySelector('#vw-dock-actions'));
    this.rate = /** @type {HTMLButtonElement} */ (page.querySelector('#vw-rate-button'));
    this.rates = [.../** @type {NodeListOf<HTMLInputElement>} */ (page.querySelectorAll('#vw-rates input'))];
    this.code.onclick = () => this.showCode();
    this.restoreSettings();
  }

  /**
   * Show a request as source code.
   *
   * It is the request that the room would send now, or else that of the loaded take, or else that of the Speak room.
   */
  showCode() {
    const { code, current, errorMessages, stage, speakRoom } = this.studio;
    errorMessages.guard(() => {
      const present = current?.presentRequest?.() ?? (stage.take instanceof Take ? null : speakRoom.presentRequest());
      if (present) code.showPresent(present);
      else if (stage.take instanceof Take) code.show(stage.take);
    });
  }

  /**
   * Update the buttons, and show the player if there is audio.
   *
   * @param {boolean} isBusy true during playback or generation
   */
  refresh(isBusy) {
    const { current, stage } = this.studio;
    if (isBusy) this.stop.disabled = false; // Enable the button before it gets the focus.
    this.showStop(isBusy);
    this.stop.toggleAttribute('disabled', !isBusy); // Disable the button only after the focus has moved.
    const begins = Boolean(current?.speak);
    this.typed.toggleAttribute('hidden', !current?.finishTyping);
    this.typed.disabled = this.studio.speakButton.disabled;
    this.first.toggleAttribute('hidden', !begins && !isBusy);
    this.stopPanel.toggleAttribute('hidden', !isBusy || this.home.contains(this.first));
    const isLoaded = Boolean(stage.take ?? this.studio.lastTake.script);
    this.root.classList.toggle('vw-loaded', isLoaded);
    this.offerRates(stage.player.canStretch);
  }

  /** Show a description of the request that the primary button would send. */
  showText() {
    const { current, speakRoom } = this.studio;
    writeText(this.line, (current?.line ? current : speakRoom).line?.() ?? '');
  }

  /**
   * Show the stop button, or show the primary button.
   *
   * @param {boolean} isBusy true for the stop button
   */
  showStop(isBusy) {
    const [shown, hidden] = isBusy ? [this.stop, this.speak] : [this.speak, this.stop];
    if (hidden.hidden && !shown.hidden) return;
    const hadFocus = document.activeElement === hidden;
    shown.hidden = false;
    hidden.hidden = true;
    // Do not scroll away from the text that the user reads.
    if (hadFocus) shown.focus({ preventScroll: true });
  }

  /** Restore the volume and the speed that are stored in this browser. */
  restoreSettings() {
    const { player } = this.studio.stage;
    const volume = recall('localStorage', VOLUME) ?? 1;
    if (volume >= 0 && volume <= 1) this.volume.value = String(volume);
    const update = () => {
      player.volume = this.volume.valueAsNumber;
      this.volumeButton.dataset.icon = player.volume > 0 ? 'volume' : 'muted';
    };
    update();
    this.volume.oninput = () => {
      update();
      remember('localStorage', VOLUME, this.volume.valueAsNumber);
    };
    const rate = recall('localStorage', RATE) ?? 1;
    for (const choice of this.rates) {
      choice.checked = Number(choice.value) === rate;
      choice.onchange = () => {
        player.rate = Number(choice.value);
        remember('localStorage', RATE, Number(choice.value));
        this.showRate();
      };
    }
    if (this.rates.some(({ checked }) => checked)) player.rate = rate;
    this.showRate();
  }

  /**
   * Enable the button for the speed, or let the button show why the speed is fixed.
   *
   * @param {boolean} can true if the output can change the speed
   */
  offerRates(can) {
    if (String(!can) === this.rate.ariaDisabled) return;
    this.rate.ariaDisabled = String(!can);
    if (can) this.rate.setAttribute('popovertarget', 'vw-rates');
    else this.rate.removeAttribute('popovertarget');
    this.rate.onclick = can ? null : () => this.studio.toasts.show(this.studio.t('shell.no_speed'));
  }

  showRate() {
    const { stage, t } = this.studio;
    const { rate } = stage.player;
    this.rate.textContent = `${rate}×`;
    this.rate.ariaLabel = this.rate.title = t('shell.speed_of', { rate });
  }
}
