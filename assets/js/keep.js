/** What can be done with the take on the stage: its file in each format, the star, a link to it, its request as code. */

import { api } from './api.js';
import { all, need } from './elements.js';
import { Take } from './take.js';

/** @typedef {import('./stage.js').Shown} Shown @typedef {import('./take.js').TakeRecord} TakeRecord */

export class Keep {
  /** @param {ParentNode} page @param {EventTarget} stage hears 'star', 'share' and 'code' */
  constructor(page, stage) {
    const menu = need(page, '#vw-keep');
    this.star = need(page, '#vw-star', HTMLButtonElement);
    this.button = need(page, '#vw-save', HTMLButtonElement);
    this.wav = need(menu, '#vw-download', HTMLAnchorElement);
    this.others = all(menu, '[data-format]', HTMLAnchorElement);
    this.share = need(menu, '#vw-share', HTMLButtonElement);
    this.code = need(menu, '#vw-copy-code', HTMLButtonElement);
    menu.addEventListener('click', () => menu.hidePopover());
    /** @type {Take|null} whose file is behind the link */
    this.offered = null;
    this.isShared = false; // True if the host allows links.
    /** What is shown. @type {Shown|null} */
    this.take = null;
    /** @type {TakeRecord|null} its record when that was put there */
    this.record = null;
    this.star.onclick = () => stage.dispatchEvent(new Event('star'));
    // What is several takes has a way of its own to a file.
    this.button.addEventListener('click', (event) => {
      if (!this.take || this.take instanceof Take) return;
      event.preventDefault();
      this.take.download(this.button);
    });
    this.share.onclick = () => stage.dispatchEvent(new Event('share'));
    this.code.onclick = () => stage.dispatchEvent(new Event('code'));
  }

  /** @param {Shown|null} take */
  show(take) {
    this.take = take;
    const record = take?.record ?? null;
    this.code.disabled = !take;
    this.button.disabled = !take;
    this.star.hidden = !record;
    this.star.dataset.icon = record?.favourite ? 'starred' : 'star';
    this.star.setAttribute('aria-pressed', String(Boolean(record?.favourite)));
    this.share.hidden = !record || !this.isShared;
    for (const link of this.others) {
      link.hidden = !record;
      if (record) link.href = kept(record, link.dataset.format ?? '');
    }
    this.offer(take instanceof Take && !take.live && take.samples ? take : null);
  }

  /**
   * Put the WAV behind its link: the studio's file, which says how it was made, or what the page holds where the
   * studio keeps nothing.
   *
   * @param {Take|null} take
   */
  offer(take) {
    const { wav } = this;
    wav.setAttribute('aria-disabled', String(!take));
    const record = take?.record ?? null;
    if (this.offered === take && this.record === record) return;
    this.offered = take;
    this.record = record;
    if (wav.href.startsWith('blob:')) URL.revokeObjectURL(wav.href);
    if (!take) return wav.removeAttribute('href');
    wav.href = record ? kept(record, 'wav') : URL.createObjectURL(take.wav());
    wav.download = record ? '' : take.filename;
  }
}

/** Where a kept take's file lies. @param {TakeRecord} record @param {string} format */
export function kept(record, format) {
  return String(api.address(`studio/takes/${record.id}/audio?format=${format}`));
}
