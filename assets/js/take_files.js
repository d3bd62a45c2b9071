/** The files of a kept take, in each format: one menu for all rows of the Library. */

import { all, need } from './elements.js';
import { kept } from './keep.js';

export class TakeFiles {
  /** @param {ParentNode} root */
  constructor(root) {
    this.menu = need(root, '#vw-takes-files');
    this.links = all(this.menu, 'a', HTMLAnchorElement);
    this.menu.addEventListener('click', () => this.menu.hidePopover());
  }

  /** Be of this take, before the menu opens. @param {import('./take.js').TakeRecord} record */
  of(record) {
    for (const link of this.links) link.href = kept(record, link.dataset.format ?? '');
  }
}
