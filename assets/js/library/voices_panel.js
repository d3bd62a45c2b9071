/** Panel of the Library with stored voices, and with search, import and export. */

import { api, errorOf } from '../common/api.js';
import { formatDuration } from '../common/dates.js';
import { arrangeChildren, createElement, getElement } from '../common/elements.js';
import { acceptFiles } from '../common/files.js';
import { askToErase, restoreVoice, VoiceRow } from './voice_row.js';

const VOICE_FILE_SUFFIX = /\.(voice|pt|zip)$/; // File name suffixes of voice files from Voicewright, the official demo and voicebox.
const MAX_STEM_CHARS = 60; // Maximum length of a name in characters before a number is added to it.
const RENAME_MS = 20000;

/** Panel of the Library room that lists the stored voices. */
export class VoicesPanel {
  /**
   * Create the panel from its elements on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.search = getElement(root, '#vw-voices-search', HTMLInputElement);
    this.list = getElement(root, '#vw-voices-list');
    this.bin = getElement(root, '#vw-voices-bin');
    this.empty = getElement(root, '#vw-voices-empty');
    this.begin = getElement(root, '#vw-voices-begin');
    this.error = getElement(root, '#vw-voices-error');
    this.consent = getElement(root, '#vw-voices-consent', HTMLDialogElement);
    /** @type {Map<string, VoiceRow>} rows by the id of the voice */
    this.rows = new Map();
    this.search.oninput = () => this.paint();
    acceptFiles(getElement(root, '#vw-voices-file', HTMLInputElement), (files) => this.importFiles(files), root);
    /** True if the message above the list is an error from loading the list. */
    this.showsLoadError = false;
    studio.voices.addEventListener('change', () => this.onListed());
  }

  /** Render the list again after a change of the page's language. */
  onLanguage() {
    this.rows.clear();
    this.paint();
    this.listBin();
  }

  /** Update the list after the voices were loaded, and clear an earlier loading error. */
  onListed() {
    if (this.showsLoadError) this.error.textContent = '';
    this.showsLoadError = false;
    this.paint();
    this.listBin();
  }

  /** List the deleted voices, with buttons that restore them or delete them permanently. */
  async listBin() {
    if (this.root.closest('[hidden]')) return;
    const { studio } = this;
    const { t, toasts } = studio;
    /** @type {{voices: {id: string, name: string, restorable_s: number}[]}} */
    const { voices } = await api.get('studio/deleted-voices').catch(() => ({ voices: [] })); // The list of voices reports the error.
    const items = voices.map((voice) => {
      const erase = async () => askToErase(studio, voice, (await api.get(`studio/voices/${voice.id}`)).takes);
      const button = (/** @type {string} */ key, /** @type {() => void} */ onclick) =>
        createElement('button', { type: 'button', className: 'vw-quiet', textContent: t(key), onclick });
      const sentence = t('voices.is_in_bin', { name: voice.name, time: formatDuration(voice.restorable_s, t) });
      const buttons = [button('library.restore_bin', () => restoreVoice(studio, voice.id)), ' ', button('voices.delete_now', () => toasts.guard(erase))];
      return createElement('li', { id: `vw-bin-${voice.id}` }, [sentence, ' ', ...buttons]);
    });
    // An unchanged list keeps its elements, so that a focused button keeps the focus.
    if (this.bin.innerHTML !== items.map(({ outerHTML }) => outerHTML).join('')) this.bin.replaceChildren(...items);
  }

  async refresh() {
    try {
      await this.studio.voices.refresh();
    } catch (thrown) {
      const error = errorOf(thrown);
      if (error.unreachable) return this.studio.status.checkConnection(); // The status line shows that the studio is unreachable.
      this.error.textContent = error.message;
      this.showsLoadError = true;
    }
    this.root.removeAttribute('data-awaited');
  }

  // --- Files.

  /**
   * Import several voice files one after another.
   *
   * For each refused file, the reason is shown.
   *
   * @param {File[]} files
   */
  async importFiles(files) {
    const { studio } = this;
    const refused = [];
    /** @type {import('../speak/voices.js').StoredVoice[]} */
    const brought = [];
    const renamed = [];
    this.error.textContent = '';
    for (const file of files) {
      try {
        if (!VOICE_FILE_SUFFIX.test(file.name)) throw new Error(studio.t('voices.no_voice_file'));
        const { voice, isRenamed } = await this.importFile(file);
        if (voice) brought.push(voice);
        if (voice && isRenamed) renamed.push(voice);
      } catch (error) {
        refused.push(`${file.name}: ${errorOf(error).message}`);
      }
    }
    this.error.textContent = refused.join(' ');
    this.showsLoadError = false;
    const plain = brought.length - renamed.length;
    if (plain) studio.toasts.show(studio.t('voices.imported', { n: plain }));
    await this.refresh();
    for (const { id, name } of renamed) {
      studio.toasts.show(studio.t('voices.imported_as', { name }), { action: studio.t('voices.rename'), onAction: () => this.rename(id), stayMs: RENAME_MS });
    }
  }

  /**
   * Import a voice file.
   *
   * If the file contains no consent, a dialog requests it. If another voice has the same name, a number is added.
   *
   * @param {File} file
   * @returns {Promise<{voice: import('../speak/voices.js').StoredVoice|null, isRenamed: boolean}>} voice: null if the
   * file was skipped
   */
  async importFile(file) {
    const form = new FormData();
    form.append('file', file);
    if (file.name.endsWith('.pt')) form.append('name', file.name.replace(VOICE_FILE_SUFFIX, ''));
    let isRenamed = false;
    for (;;) {
      try {
        return { voice: await api.form('v1/audio/voices', form), isRenamed };
      } catch (error) {
        const { code } = errorOf(error);
        if (code === 'consent_required' && !form.has('consent')) {
          if (!(await this.confirmConsent(file.name))) return { voice: null, isRenamed };
          form.append('consent', this.studio.t('clone.consent_words', { date: new Date().toISOString().slice(0, 10) }));
        } else if (code === 'voice_name_taken' && !isRenamed) {
          form.set('name', this.freeName(file.name.replace(VOICE_FILE_SUFFIX, '')));
          isRenamed = true;
        } else {
          throw error;
        }
      }
    }
  }

  /** Return a name that no stored voice has, by adding a number. @param {string} name */
  freeName(name) {
    const existing = new Set(this.studio.voices.list.map((voice) => voice.name.toLowerCase()));
    // Remove the number that a browser adds to a second download, as in "Peter (1)".
    const stem = name.replace(/[ _(-]*\d*\)?$/u, '') || name;
    let n = 2;
    while (existing.has(`${stem} ${n}`.toLowerCase())) n += 1;
    return `${[...stem].slice(0, MAX_STEM_CHARS).join('')} ${n}`;
  }

  /** Show a voice in the list and focus its name field. @param {string} id id of the voice */
  rename(id) {
    this.studio.go('library', { half: 'voices' });
    const row = this.rows.get(id);
    row?.unfold(true);
    const field = row && getElement(row.element, '[data-field=name]', HTMLInputElement);
    field?.focus();
    field?.select();
  }

  /**
   * Ask the user to confirm that the speaker has given consent.
   *
   * @param {string} name name of the voice file @returns {Promise<boolean>}
   */
  confirmConsent(name) {
    const { consent, studio } = this;
    const tick = getElement(consent, 'input', HTMLInputElement);
    const yes = getElement(consent, '[value=yes]', HTMLButtonElement);
    getElement(consent, 'p').textContent = studio.t('voices.consent_missing', { name });
    tick.checked = false;
    yes.disabled = true;
    tick.onchange = () => (yes.disabled = !tick.checked);
    consent.returnValue = '';
    consent.showModal();
    return new Promise((settle) => (consent.onclose = () => settle(consent.returnValue === 'yes' && tick.checked)));
  }

  // --- The list.

  /**
   * Return true if the data of a voice contains all words of the search field.
   *
   * @param {import('../speak/voices.js').StoredVoice} voice
   */
  fits({ name, description, tags, language, transcript }) {
    const text = [name, description, ...tags, language, transcript].join(' ').toLowerCase();
    return this.search.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  }

  paint() {
    const voices = this.studio.voices.list.filter((voice) => this.fits(voice));
    const rows = voices.map((voice) => {
      const row = this.rows.get(voice.id) ?? new VoiceRow(voice, this.studio);
      row.update(voice);
      return row;
    });
    for (const row of rows) this.rows.set(row.voice.id, row);
    arrangeChildren(this.list, rows.map(({ element }) => element));
    this.empty.hidden = rows.length > 0;
    this.begin.hidden = rows.length > 0 || this.search.value.trim() !== '';
    this.empty.textContent = this.studio.t(this.search.value.trim() ? 'voices.none_found' : 'voices.none_yet');
  }
}
