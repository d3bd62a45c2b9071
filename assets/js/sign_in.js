/** Signing in and out, where the studio offers it. */

import { api } from './api.js';
import { need } from './elements.js';

/**
 * @param {ParentNode} page
 * @param {import('./preferences.js').Me} me
 * @param {(key: string, values?: Object<string, any>) => string} t
 */
export function offerSigningIn(page, { features: { oauth }, visitor }, t) {
  if (!oauth || !visitor) return;
  const into = need(page, '#vw-sign-in', HTMLAnchorElement);
  const out = need(page, '#vw-sign-out');
  const signedIn = visitor.kind === 'member';
  into.hidden = signedIn;
  out.hidden = !signedIn;
  // A provider does not let itself be shown in a frame.
  if (window.top !== window) into.target = '_blank';
  out.textContent = t('shell.sign_out', { name: visitor.name });
  out.onclick = async () => {
    await fetch(api.address(oauth.sign_out), { method: 'POST', redirect: 'manual' });
    location.reload();
  };
}
