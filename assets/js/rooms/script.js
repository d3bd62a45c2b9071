/** The Script room. */

export class ScriptRoom {
  static id = 'script';
  id = 'script';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    Object.assign(this, { root, studio });
  }
}
