/** The Host room. */

export class HostRoom {
  static id = 'host';
  id = 'host';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    Object.assign(this, { root, studio });
  }
}
