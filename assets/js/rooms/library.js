/** The Library room. */

export class LibraryRoom {
  static id = 'library';
  id = 'library';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    Object.assign(this, { root, studio });
  }
}
