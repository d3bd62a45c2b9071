/**
 * How the page looks and speaks: theme and language, kept by the studio for each visitor. Event: 'change' with what was chosen.
 *
 * @typedef {{language?: string, theme?: string}} Chosen
 *
 * @typedef {Object} Features         what this studio can do beside; what is left out it cannot
 * @property {{available: boolean, how: string}} [transcribe]  how: what its host is told
 * @property {{sign_out: string}|null} [oauth]
 * @property {boolean} [share]        takes by link
 * @property {{small: string, speaks: boolean, may: boolean, download?: import('./real_voices.js').Download|null}} [real_voices]
 *   small: the id of the built-in checkpoint; download: where one is, for who may change it
 *
 * @typedef {Object} Me               GET studio/me
 * @property {Features} features
 * @property {{language?: string|null, theme?: string|null}} preferences
 * @property {{kind: string, name: string}} [visitor]
 */

import { api } from './api.js';
import { Emitter } from './emitter.js';
import { preferred } from './words.js';

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
    // Where the studio keeps nothing, it holds until the page is left.
    api.patch('studio/me', chosen).catch(() => {});
    this.emit('change', chosen);
  }

  nextTheme() {
    this.choose({ theme: THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length] });
  }
}
