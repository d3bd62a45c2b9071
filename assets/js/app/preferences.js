/**
 * Theme and language of the page, which the studio stores for each visitor.
 *
 * `Preferences` emits the event 'change' with the new values.
 *
 * @typedef {{language?: string, theme?: string}} PreferenceValues
 *
 * @typedef {{state: 'absent'|'fetching'|'failed'|'here', got: number, of: number, problem: any}} Model  download; `got` and `of` are in bytes
 *
 * @typedef {Object} Features         optional features of this studio
 * @property {{available: boolean, how: string, model: Model|null}} [transcribe]  how, model: instructions and download for the host
 * @property {{sign_out: string}|null} [oauth]
 * @property {{max_s: number|null, max_clips: number}} [export]  max_s: maximum seconds, or null if only the disk limits it
 * @property {boolean} [share]        true if takes can be shared by link
 * @property {{small: string, speaks: boolean, may: boolean, download?: import('../host/real_voices.js').Download|null}} [real_voices]
 *   small: id of the embedded checkpoint; may: true if the visitor is the host; download: state of a download, for the host only
 *
 * @typedef {Object} StudioInfo               response of GET studio/me
 * @property {Features} features
 * @property {{language?: string|null, theme?: string|null}} preferences
 * @property {{kind: string, name: string}} [visitor]
 */

import { api } from '../common/api.js';
import { Emitter, getElement } from '../common/elements.js';
import { remember } from '../common/storage.js';
import { preferredLanguage } from '../common/words.js';

const THEME = 'voicewright.theme'; // Key of the theme, which the documentation pages read.
const THEMES = ['system', 'light', 'dark'];
const DARK = matchMedia('(prefers-color-scheme: dark)');

/**
 * Preferences of the visitor: the theme and the language of the page.
 *
 * @extends {Emitter<{change: PreferenceValues}>}
 */
export class Preferences extends Emitter {
  /**
   * Create the preferences from the response of GET studio/me.
   *
   * @param {StudioInfo} me @param {Object<string, string>} languages names of the languages by code
   */
  constructor(me, languages) {
    super();
    const { language, theme } = me.preferences;
    this.languages = languages;
    this.language = language && language in languages ? language : preferredLanguage(Object.keys(languages));
    // Gradio's query parameter sets the theme of links and frames. It is not stored.
    const urlTheme = new URLSearchParams(location.search).get('__theme');
    this.theme = THEMES.find((one) => one === urlTheme) ?? THEMES.find((one) => one === theme) ?? 'system';
    DARK.addEventListener('change', () => this.paint());
    // Gradio starts later and sets the system's theme and language, so the chosen ones must be applied again.
    const observer = new MutationObserver(() => this.paint());
    observer.observe(document.body, { attributeFilter: ['class'] });
    observer.observe(document.documentElement, { attributeFilter: ['lang'] });
    this.applyTheme();
  }

  /** Show the theme, and store it for the documentation pages. */
  applyTheme() {
    remember('localStorage', THEME, this.theme);
    this.paint();
  }

  paint() {
    const { documentElement } = document;
    if (documentElement.lang !== this.language) documentElement.lang = this.language;
    const dark = this.theme === 'dark' || (this.theme === 'system' && DARK.matches);
    document.body.classList.toggle('dark', dark);
    documentElement.style.colorScheme = dark ? 'dark' : 'light';
  }

  /** Apply the chosen theme or language, and store the choice in the studio. @param {PreferenceValues} chosen */
  choose(chosen) {
    Object.assign(this, chosen);
    this.applyTheme();
    // If the studio does not store preferences, the choice applies until the page is closed.
    api.patch('studio/me', chosen).catch(() => {});
    this.emit('change', chosen);
  }

  nextTheme() {
    this.choose({ theme: THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length] });
  }
}

// --- Signing in and out, if the studio offers it.

/**
 * Show a link to sign in, or a button to sign out, if the studio has sign-in.
 *
 * @param {ParentNode} page
 * @param {StudioInfo} me
 * @param {(key: string, values?: Object<string, any>) => string} t
 */
export function offerSigningIn(page, { features: { oauth }, visitor }, t) {
  if (!oauth || !visitor) return;
  const into = getElement(page, '#vw-sign-in', HTMLAnchorElement);
  const out = getElement(page, '#vw-sign-out');
  const signedIn = visitor.kind === 'member';
  into.hidden = signedIn;
  out.hidden = !signedIn;
  // Sign-in providers forbid frames, so a framed studio opens the sign-in page in a new tab.
  if (window.top !== window) into.target = '_blank';
  out.textContent = t('shell.sign_out', { name: visitor.name });
  out.onclick = async () => {
    await fetch(api.address(oauth.sign_out), { method: 'POST', redirect: 'manual' });
    location.reload();
  };
}

// --- Cancellation of the animation loop of Gradio's loading indicator, which would use a few percent of a core. Gradio
// does not expose the ids of the loop's requests. But browsers number the requests, and on an idle page the loop makes
// exactly one request per frame, so the id of its next request is known.

const STABLE_FRAMES = 60; // Number of consecutive frames after which any finite animation has ended.
const TRIES = 1200;

export function cancelOrphanedFrames() {
  let seen = 0;
  let triesLeft = TRIES;
  const watch = () => {
    const first = requestAnimationFrame(() => {
      // At this time, all animation loops have requested their next frame.
      const next = requestAnimationFrame(() => {});
      cancelAnimationFrame(next);
      seen = next - first === 2 ? seen + 1 : 0;
      if (seen >= STABLE_FRAMES) cancelAnimationFrame(next - 1);
      else if (next - first > 1 || --triesLeft > 0) setTimeout(watch);
    });
  };
  watch();
}
