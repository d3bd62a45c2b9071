/** Shows a take's request as code, in one language at a time, to be copied. */

import { api } from './api.js';
import { LANGUAGES } from './code.js';
import { all, need } from './elements.js';
import { Take } from './take.js';

/** @typedef {keyof typeof LANGUAGES} Language @typedef {import('./take.js').TakeRecord} TakeRecord */

const NAMES = /** @type {Language[]} */ (Object.keys(LANGUAGES));

/** What code needs to know of a take, fresh or kept. @param {Take|TakeRecord} take @returns {import('./code.js').Request} */
function requestOf(take) {
  const { mode, config, text, spoken, seed, id, reference, model } = take;
  const spoke = take instanceof Take ? (take.start?.model ?? take.record?.model?.id ?? model?.id) : model?.id;
  const referenceUrl = reference && id ? String(api.address(`studio/takes/${id}/reference`)) : null;
  return { mode, config, text: spoken ?? text, seed, model: spoke, hasReference: Boolean(reference), referenceUrl };
}

export class CodeDialog {
  /** @param {HTMLDialogElement} dialog @param {import('./studio.js').Studio} studio */
  constructor(dialog, studio) {
    this.dialog = dialog;
    this.studio = studio;
    this.panel = need(dialog, '#vw-code-panel');
    this.text = need(dialog, '#vw-code-text');
    /** @type {Language} */
    this.language = 'curl';
    /** @type {import('./code.js').Request|null} */
    this.request = null;
    const list = need(dialog, '[role=tablist]');
    list.replaceChildren(...NAMES.map((language) => this.tab(language)));
    list.onkeydown = (event) => this.onKey(event);
    this.tabs = all(list, '[role=tab]');
    need(dialog, '#vw-code-copy').onclick = () => this.copy();
    need(dialog, '#vw-code-close').onclick = () => dialog.close();
  }

  /** @param {Language} language */
  tab(language) {
    const tab = Object.assign(document.createElement('button'), { type: 'button', role: 'tab', textContent: language });
    tab.id = `vw-code-${language.toLowerCase()}`;
    tab.setAttribute('aria-controls', 'vw-code-panel');
    tab.onclick = () => this.choose(language);
    return tab;
  }

  /** @param {Take|TakeRecord} take a take, or its stored record */
  show(take) {
    this.request = requestOf(take);
    this.choose(this.language);
    this.dialog.showModal();
  }

  /** @param {Language} language */
  choose(language) {
    this.language = language;
    for (const tab of this.tabs) {
      const chosen = tab.textContent === language;
      tab.setAttribute('aria-selected', String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) this.panel.setAttribute('aria-labelledby', tab.id);
    }
    if (this.request) this.text.textContent = LANGUAGES[language](this.request, api.address('.'));
  }

  /** @param {KeyboardEvent} event */
  onKey({ key }) {
    const step = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    const at = (NAMES.indexOf(this.language) + step + NAMES.length) % NAMES.length;
    this.choose(NAMES[at]);
    this.tabs[at].focus();
  }

  async copy() {
    const { t } = this.studio;
    try {
      await navigator.clipboard.writeText(this.text.textContent ?? '');
      this.studio.toast(t('shell.code.copied'));
    } catch {
      // No clipboard for pages on plain http: at least everything is marked.
      getSelection()?.selectAllChildren(this.text);
      this.studio.toast(t('shell.code.marked'));
    }
  }
}
