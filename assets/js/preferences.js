/** How the page looks and speaks: theme and language, kept by the studio for each visitor. */

import { api } from './api.js';
import { preferred } from './words.js';

const THEMES = ['system', 'light', 'dark'];
const DARK = matchMedia('(prefers-color-scheme: dark)');

export class Preferences extends EventTarget {
  /** @param {Object<string, any>} me GET studio/me @param {Object<string, string>} languages names by code */
  constructor(me, languages) {
    super();
    const { language, theme } = me.preferences ?? {};
    this.languages = languages;
    this.language = language in languages ? language : preferred(Object.keys(languages));
    // Gradio's own switch, for links and frames: it holds for this visit, and is not kept.
    const asked = new URLSearchParams(location.search).get('__theme');
    this.theme = [asked, theme].find((one) => THEMES.includes(one)) ?? 'system';
    DARK.addEventListener('change', () => this.paint());
    this.paint();
  }

  paint() {
    const dark = this.theme === 'dark' || (this.theme === 'system' && DARK.matches);
    document.body.classList.toggle('dark', dark);
    document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
  }

  /** @param {{language?: string, theme?: string}} chosen */
  choose(chosen) {
    Object.assign(this, chosen);
    this.paint();
    // Where the studio keeps nothing, it holds until the page is left.
    api.patch('studio/me', chosen).catch(() => {});
    this.dispatchEvent(new CustomEvent('change', { detail: chosen }));
  }

  nextTheme() {
    this.choose({ theme: THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length] });
  }
}
