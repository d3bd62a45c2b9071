/** Shows a take's request as code, in one language at a time, to be copied. */

import { api } from './api.js';
import { LANGUAGES } from './code.js';

/** What code needs to know of a take, fresh or kept. */
function requestOf({ mode, config, text, spoken, seed, id, reference, start, record, model }) {
  return {
    mode,
    config,
    text: spoken ?? text,
    seed,
    model: start?.model ?? record?.model?.id ?? model?.id,
    hasReference: Boolean(reference),
    referenceUrl: reference && id ? String(api.address(`studio/takes/${id}/reference`)) : null,
  };
}

export class CodeDialog {
  /** @param {HTMLDialogElement} dialog @param {import('./studio.js').Studio} studio */
  constructor(dialog, studio) {
    this.dialog = dialog;
    this.studio = studio;
    this.tabs = dialog.querySelector('[role=tablist]');
    this.text = dialog.querySelector('#vw-code-text');
    this.language = 'curl';
    this.tabs.replaceChildren(...Object.keys(LANGUAGES).map((language) => this.tab(language)));
    this.tabs.onkeydown = (event) => this.onKey(event);
    dialog.querySelector('#vw-code-copy').onclick = () => this.copy();
    dialog.querySelector('#vw-code-close').onclick = () => dialog.close();
  }

  tab(language) {
    const tab = Object.assign(document.createElement('button'), { type: 'button', role: 'tab', textContent: language });
    tab.id = `vw-code-${language.toLowerCase()}`;
    tab.setAttribute('aria-controls', 'vw-code-panel');
    tab.onclick = () => this.choose(language);
    return tab;
  }

  /** @param {import('./take.js').Take|Object} take a take, or its stored record */
  show(take) {
    this.request = requestOf(take);
    this.choose(this.language);
    this.dialog.showModal();
  }

  choose(language) {
    this.language = language;
    for (const tab of this.tabs.children) {
      const chosen = tab.textContent === language;
      tab.setAttribute('aria-selected', String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) this.dialog.querySelector('#vw-code-panel').setAttribute('aria-labelledby', tab.id);
    }
    this.text.textContent = LANGUAGES[language](this.request, api.address('.'));
  }

  onKey({ key }) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    const names = Object.keys(LANGUAGES);
    this.choose(names[(names.indexOf(this.language) + step + names.length) % names.length]);
    this.tabs.querySelector('[tabindex="0"]').focus();
  }

  async copy() {
    const { t } = this.studio;
    try {
      await navigator.clipboard.writeText(this.text.textContent);
      this.studio.toast(t('shell.code.copied'));
    } catch {
      // No clipboard for pages on plain http: at least everything is marked.
      getSelection().selectAllChildren(this.text);
      this.studio.toast(t('shell.code.marked'));
    }
  }
}
