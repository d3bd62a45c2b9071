/** Signing in and out, where the studio offers it. */

import { api } from './api.js';

/**
 * @param {ParentNode} page
 * @param {Object<string, any>} me GET studio/me
 * @param {(key: string, values?: Object<string, any>) => string} t
 */
export function offerSigningIn(page, me, t) {
  if (!me.features?.oauth) return;
  const [into, out] = ['in', 'out'].map((way) => page.querySelector(`#vw-sign-${way}`));
  const signedIn = me.visitor.kind === 'member';
  into.hidden = signedIn;
  out.hidden = !signedIn;
  // A provider does not let itself be shown in a frame.
  if (window.top !== window) into.target = '_blank';
  out.textContent = t('shell.sign_out', { name: me.visitor.name });
  out.onclick = async () => {
    await fetch(api.address(me.features.oauth.sign_out), { method: 'POST', redirect: 'manual' });
    location.reload();
  };
}
