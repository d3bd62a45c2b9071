/** Dialog for the pronunciation dictionary, which saves each row when it is complete. */

import { errorOf } from '../common/api.js';
import { wavBlob } from '../common/audio.js';
import { createElement, getElements, getElement } from '../common/elements.js';
import { acceptFiles, saveFile } from '../common/files.js';
import { readWordList, writeWordList } from './pronunciation.js';

/** @typedef {import('./pronunciation.js').Entry} Entry */

const SAMPLE_SEED = 7; // Constant seed, so that a word always sounds the same.
const MAX_WORD_CHARS = 80; // Maximum length of a word in characters, as in the studio.

/** Dialog for editing the pronunciation dictionary. */
export class PronunciationSheet {
  /** Take of the word that was played last, or null. @type {import('../player/take.js').Take|null} */
  sample = null;
  /** Player of the sample word, or null if no word is playing. @type {HTMLAudioElement|null} */
  audio = null;
  /** True if the sample word has paused another playback, which is resumed afterwards. */
  isPaused = false;

  /**
   * Create the dialog from the elements of a page.
   *
   * @param {HTMLElement} page @param {import('../app/studio.js').Studio} studio
   */
  constructor(page, studio) {
    this.studio = studio;
    /** Text field that was edited last. @type {HTMLTextAreaElement} */
    this.field = studio.textField;
    this.dictionary = studio.pronunciation;
    this.dialog = getElement(page, '#vw-pronunciation', HTMLDialogElement);
    this.list = getElement(page, '#vw-pronunciation-list');
    this.pattern = getElement(page, '#vw-pronunciation-row', HTMLTemplateElement);
    this.error = getElement(page, '#vw-pronunciation-error');
    this.message = getElement(page, '#vw-pronunciation-told');
    this.undo = getElement(page, '#vw-pronunciation-undo');
    this.addButton = getElement(page, '#vw-pronunciation-add');
    for (const opener of getElements(page, '[data-vw-pronunciation]')) opener.onclick = () => this.open();
    this.addButton.onclick = () => this.focusEmptyRow();
    page.addEventListener('focusin', ({ target }) => {
      if (target instanceof HTMLTextAreaElement && target.matches('#vw-text, .vw-line-text')) this.field = target;
    });
    getElement(page, '#vw-pronunciation-save').onclick = () => saveFile(new Blob([writeWordList(this.entries())], { type: 'text/csv' }), 'pronunciation.csv');
    getElement(page, '#vw-pronunciation-close').onclick = () => this.dialog.close();
    acceptFiles(getElement(page, '#vw-pronunciation-file', HTMLInputElement), ([file]) => this.importFile(file));
    this.list.onchange = () => this.save();
    this.list.onkeydown = (event) => this.onKey(event);
    // A click on the backdrop has the dialog as its target.
    this.dialog.onclick = ({ target }) => target === this.dialog && this.dialog.close();
    this.dialog.onclose = () => this.leave();
  }

  /**
   * Open the dialog with the stored dictionary.
   *
   * If a word is selected in the text field, a new row is added for this word.
   */
  async open() {
    const { field } = this;
    const marked = field.checkVisibility() ? field.value.slice(field.selectionStart, field.selectionEnd).trim() : '';
    this.showError('');
    this.showMessage('');
    this.show(this.dictionary.words);
    this.dialog.showModal();
    await this.dictionary.refresh().then(() => this.show(this.dictionary.words), (error) => this.showError(error.message));
    const isNew = marked.length <= MAX_WORD_CHARS && !/\s\s|\n/.test(marked) && !this.dictionary.words.some(({ word }) => word === marked);
    if (marked && isNew) this.add({ word: marked, said: '' });
    else if (this.list.children.length === 0) this.add();
  }

  leave() {
    const { stage } = this.studio;
    if (stage.take === this.sample) stage.stop();
    this.stopWord();
    this.list.replaceChildren();
  }

  // --- Rows

  /** Show dictionary entries as rows. @param {Entry[]} entries */
  show(entries) {
    this.list.replaceChildren(...entries.map((entry) => this.row(entry)));
  }

  /** Return a row for a dictionary entry. @param {Entry} entry */
  row({ word, said }) {
    const row = this.studio.words.copyOf(this.pattern);
    const [first, second] = row.querySelectorAll('input');
    first.value = word;
    second.value = said;
    getElement(row, '.vw-word-hear').onclick = () => this.speak(second.value || first.value);
    getElement(row, '.vw-word-remove').onclick = () => this.remove(row);
    return row;
  }

  /** Focus an empty row, and add one if there is none. */
  focusEmptyRow() {
    const fields = [...this.list.querySelectorAll('input')];
    const empty = fields.find((field, at) => at % 2 === 0 && !field.value && !fields[at + 1].value);
    if (empty) empty.focus();
    else this.add();
  }

  /** Add a row and focus it. @param {Entry} [entry] */
  add(entry = { word: '', said: '' }) {
    const row = this.row(entry);
    this.list.append(row);
    const [word, said] = row.querySelectorAll('input');
    (entry.word ? said : word).focus();
  }

  /**
   * Handle the Enter key, which moves the focus to the next field.
   *
   * @param {KeyboardEvent} event
   */
  onKey(event) {
    if (event.key !== 'Enter' || event.isComposing) return;
    const fields = [...this.list.querySelectorAll('input')];
    const at = fields.findIndex((field) => field === event.target);
    if (at < 0) return; // The focus is on a button and not in a field.
    event.preventDefault();
    const next = fields[at + 1];
    if (next) next.focus();
    else if (fields[at].value) this.add();
  }

  /** Remove a row, and save the dictionary if the row was complete. @param {HTMLElement} row */
  remove(row) {
    const before = this.entries();
    const next = row.nextElementSibling ?? row.previousElementSibling;
    const [word] = row.querySelectorAll('input');
    row.remove();
    (next?.querySelector('input') ?? this.addButton).focus();
    if (this.entries().length === before.length) return; // The removed row was incomplete, so nothing has to be saved.
    this.save();
    this.showMessage(this.studio.t('pronunciation.removed', { word: word.value }), () => {
      this.show(before);
      this.save();
    });
  }

  /**
   * Return the entries of all complete rows.
   *
   * If a word occurs twice, the second row is marked and skipped.
   *
   * @returns {Entry[]}
   */
  entries() {
    /** @type {Map<string, string>} */
    const entries = new Map();
    for (const row of this.list.children) {
      const [first, second] = row.querySelectorAll('input');
      const [word, said] = [first.value.trim(), second.value.trim()];
      const isTwice = entries.has(word);
      first.ariaInvalid = isTwice ? 'true' : null;
      if (word && said && !isTwice) entries.set(word, said);
    }
    return [...entries].map(([word, said]) => ({ word, said }));
  }

  /**
   * Save the entries of all complete rows, and show a message.
   *
   * @param {string} [sentence] message that is shown after saving
   */
  async save(sentence = this.studio.t('pronunciation.kept')) {
    const entries = this.entries();
    const [twice] = getElements(this.list, '[aria-invalid=true]', HTMLInputElement);
    this.showError(twice ? this.studio.t('pronunciation.twice', { word: twice.value.trim() }) : '');
    this.showMessage('');
    if (JSON.stringify(entries) === JSON.stringify(this.dictionary.words.map(({ word, said }) => ({ word, said })))) return;
    try {
      const isMerged = await this.dictionary.save(entries);
      if (isMerged) this.show(this.dictionary.words);
      if (!this.message.textContent) this.showMessage(isMerged ? this.studio.t('pronunciation.merged') : sentence);
    } catch (error) {
      this.showError(errorOf(error).message);
    }
  }

  // --- Playback and files

  /** Generate and play a word with the settings of the Speak room. @param {string} words text to speak */
  speak(words) {
    const { studio } = this;
    const speakers = studio.speakRoom;
    if (!words.trim() || !speakers.chosen || !studio.isReachable()) return;
    const { mode } = speakers.chosen;
    const asked = { room: speakers.id, mode, config: speakers.config(speakers.chosen), text: words, spoken: words, seed: SAMPLE_SEED };
    const before = this.sample;
    this.stopWord();
    const isReading = studio.isBusy && studio.stage.take !== before;
    if (!isReading) studio.stop();
    const sample = studio.speech.say({ ...asked, label: words, isSample: true });
    this.sample = sample;
    if (!isReading) studio.stage.play(sample);
    else sample.addEventListener('done', () => sample === this.sample && this.playWord(sample));
  }

  /**
   * Play the audio of a word, and pause other playback until it ends.
   *
   * @param {import('../player/take.js').Take} sample
   */
  playWord({ chunks }) {
    const { stage } = this.studio;
    this.isPaused ||= stage.isPlaying;
    stage.pause();
    const src = URL.createObjectURL(wavBlob(chunks));
    this.audio = createElement('audio', { src, volume: stage.player.volume, onended: () => this.stopWord() });
    this.audio.play().catch(() => this.stopWord());
  }

  /** Stop the audio of the word, and resume the playback that it has paused. */
  stopWord() {
    const { audio, isPaused } = this;
    this.sample = this.audio = null;
    this.isPaused = false;
    if (audio) {
      audio.pause();
      URL.revokeObjectURL(audio.src);
    }
    if (isPaused) this.studio.stage.resume();
  }

  /** Import entries from a file, which replace existing entries for the same words. @param {File} [file] */
  async importFile(file) {
    if (!file) return;
    const text = await this.studio.importer.table(file);
    if (text === null) return;
    const { entries: brought, leftOut } = readWordList(text);
    if (brought.length === 0) return this.showError(this.studio.t('pronunciation.nothing_in', { name: file.name }));
    const merged = new Map([...this.entries(), ...brought].map(({ word, said }) => [word, said]));
    this.show([...merged].map(([word, said]) => ({ word, said })));
    await this.save(this.studio.t(leftOut ? 'pronunciation.brought_but' : 'pronunciation.brought', { n: brought.length, left: leftOut }));
  }

  /** Show an error in the dialog. @param {string} sentence */
  showError(sentence) {
    this.error.textContent = sentence;
  }

  /**
   * Show a message in the dialog, with an undo button if `undo` is given.
   *
   * @param {string} sentence @param {(() => void)|null} [undo]
   */
  showMessage(sentence, undo = null) {
    this.message.textContent = sentence;
    this.undo.hidden = !undo;
    this.undo.onclick = undo;
  }
}
