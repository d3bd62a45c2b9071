/** Public links to stored takes (generated audio): create, copy and revoke a link. */

import { api } from '../common/api.js';

/** @typedef {import('../app/studio.js').Studio} Studio */

/** Field and buttons for the public link of a take. */
export class Sharing {
  /**
   * Connect the field and the buttons in an element.
   *
   * @param {HTMLElement} place @param {string} take id of the take @param {Studio} studio @param {(action: () => Promise<void>)
   * => void} guard runs an action and shows its error
   */
  constructor(place, take, studio, guard) {
    this.place = place;
    this.route = `studio/takes/${take}/share`;
    this.studio = studio;
    this.field = /** @type {HTMLInputElement} */ (place.querySelector('input'));
    /** @param {string} name @returns {HTMLButtonElement} */
    const button = (name) => /** @type {HTMLButtonElement} */ (place.querySelector(`[data-act=${name}]`));
    button('copy').onclick = () => this.copy();
    button('end').onclick = () => guard(() => this.end());
  }

  /** Load and show the public link, if one exists. */
  async loadLink() {
    this.show(await api.get(this.route));
  }

  async begin() {
    this.show(await api.post(this.route));
    this.field.focus();
    this.field.select();
  }

  async end() {
    this.show(await api.delete(this.route));
    this.studio.toasts.show(this.studio.t('share.ended'));
  }

  /** Show the public link, or hide the field if there is no link. @param {{link: string|null}} answer */
  show({ link }) {
    this.place.hidden = link === null;
    this.field.value = link === null ? '' : String(api.address(link));
  }

  async copy() {
    this.field.select();
    try {
      await navigator.clipboard.writeText(this.field.value);
      this.studio.toasts.show(this.studio.t('share.copied'));
    } catch {
      // Pages on plain HTTP cannot use the clipboard, so the link was only selected.
      this.studio.toasts.show(this.studio.t('share.marked'));
    }
  }
}

/**
 * Create a public link to stored audio (a take), and copy it to the clipboard.
 *
 * A toast with the result has a button that revokes the link.
 *
 * @param {Studio} studio
 * @param {string} take id of the take
 */
export async function shareTake(studio, take) {
  const { t, toasts } = studio;
  const route = `studio/takes/${take}/share`;
  const shared = await toasts.guard(() => api.post(route));
  if (!shared) return;
  const url = String(api.address(shared.link));
  const isCopied = await navigator.clipboard?.writeText(url).then(() => true, () => false);
  const end = () => toasts.guard(() => api.delete(route).then(() => toasts.show(t('share.ended'))));
  toasts.show(isCopied ? t('share.link_copied') : url, { action: t('share.end'), onAction: end });
}
