/**
 * Theme and language of the page, stored by the studio per visitor. Event: 'change' with the new values.
 *
 * @typedef {{language?: string, theme?: string}} Chosen
 *
 * @typedef {Object} Features         what this studio can do beside; what is left out it cannot
 * @property {{available: boolean, how: string}} [transcribe]  how: what its host is told
 * @property {{sign_out: string}|null} [oauth]
 * @property {boolean} [share]        takes by link
 * @property {{small: string, speaks: boolean, may: boolean, download?: import('../host/real_voices.js').Download|null}} [real_voices]
 *   small: the id of the built-in checkpoint; download: where one is, for who may change it
 *
 * @typedef {Object} Me               GET studio/me
 * @property {Features} features
 * @property {{language?: string|null, theme?: string|null}} preferences
 * @property {{kind: string, name: string}} [visitor]
 */

import { api } from '../common/api.js';
import { Emitter, need } from '../common/elements.js';
import { preferred } from '../common/words.js';

const THEMES = ['system', 'light', 'dark'];
const DARK = matchMedia('(prefers-color-scheme: dark)');

/** @extends {Emitter<{change: Chosen}>} */
export class Preferences extends Emitter {
  /** @param {Me} me @param {Object<string, string>} languages names by code */
  constructor(me, languages) {
    super();
    const { language, theme } = me.preferences;
    this.languages = languages;
    this.language = language && language in languages ? language : preferred(Object.keys(languages));
    // Gradio's own switch, for links and frames: it holds for this visit, and is not kept.
    const asked = new URLSearchParams(location.search).get('__theme');
    this.theme = THEMES.find((one) => one === asked) ?? THEMES.find((one) => one === theme) ?? 'system';
    DARK.addEventListener('change', () => this.paint());
    this.paint();
  }

  paint() {
    const dark = this.theme === 'dark' || (this.theme === 'system' && DARK.matches);
    document.body.classList.toggle('dark', dark);
    document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
  }

  /** @param {Chosen} chosen */
  choose(chosen) {
    Object.assign(this, chosen);
    this.paint();
    // If the studio stores no preferences, the choice holds until the page is left.
    api.patch('studio/me', chosen).catch(() => {});
    this.emit('change', chosen);
  }

  nextTheme() {
    this.choose({ theme: THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length] });
  }
}

// --- Signing in and out, where the studio offers it.

/**
 * @param {ParentNode} page
 * @param {Me} me
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

// --- Ends the loop that Gradio's loading sign leaves behind: it counts the seconds of a sign that has gone, at
// every frame, so that a page on which nothing moves costs some percent of a core.  The loop is none of ours
// and has no handle. It is known by what it does: on a page that rests, one callback is asked for in each
// frame, and always one. A browser numbers what is asked for, so the one of the last frame can be taken back.

const SURE = 60; // Consecutive frames, after which any finite movement is over.
const TRIES = 1200;

export function endOrphanedFrames() {
  let seen = 0;
  let left = TRIES;
  const watch = () => {
    const own = requestAnimationFrame(() => {
      // Behind what loops asked for in this frame, which came before.
      const next = requestAnimationFrame(() => {});
      cancelAnimationFrame(next);
      seen = next - own === 2 ? seen + 1 : 0;
      if (seen >= SURE) cancelAnimationFrame(next - 1);
      else if (--left > 0) setTimeout(watch);
    });
  };
  watch();
}
