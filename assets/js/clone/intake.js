/** Recording of the Clone room: loading, checking, removing, and restoring after a reload. */

import { errorOf } from '../common/api.js';
import { clock, SAMPLE_RATE } from '../common/audio.js';
import { formatDuration } from '../common/dates.js';
import { getElement, getElements, writeText } from '../common/elements.js';
import { selectValue } from '../common/fields.js';
import { recordings } from '../common/storage.js';
import { decoded, Reference, FileTooLarge } from './reference.js';
import { addressed } from './steps.js';
import { edgeOf } from './trimmer.js';

// --- Draft of the Clone room with recording, transcript and choices, for reloads and undo.

/** @typedef {{language: string, transcript: string, only: boolean, voice: string, name: string, blend?: boolean, step: number, recording?: number} & Partial<Reference['selection']>} Draft */

/** State of the Clone room that the browser stores to restore it after a reload. */
export class SavedState {
  /** Time at which the recording was stored for a reload. @type {number|undefined} */
  recordedAt = undefined;
  /** Stored draft until it is restored, or null. @type {Draft|null} */
  pendingDraft = null;

  /** Create the stored state of a Clone room. @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** Store the recording in the browser, so that a reload of the page can restore it. @param {Reference} reference */
  store({ pcm, file, name, source }) {
    this.recordedAt = Date.now();
    recordings.put(this.room.id, { pcm, file, name, source, at: this.recordedAt });
    this.room.studio.drafts.touch();
  }

  /** Delete the recording that was stored in the browser. */
  forget() {
    recordings.delete(this.room.id);
  }

  /** Return the values of the form without the consent to cloning, which must be given again. @returns {Draft} */
  draft() {
    if (this.pendingDraft) return this.pendingDraft;
    const { language, transcript, xvector, reference, storedVoice, keepForm, currentVoice, steps } = this.room;
    const form = { language: language.value, transcript: transcript.value, only: xvector.checked };
    return { ...form, ...reference?.selection, recording: this.recordedAt, voice: storedVoice.value, name: keepForm.name.value, blend: keepForm.blend.checked, step: currentVoice ? 1 : steps.at };
  }

  /** Restore the recording and its form from a stored draft. @param {Draft} draft */
  async reopen(draft) {
    const { room } = this;
    this.pendingDraft = draft;
    selectValue(room.language, draft.language);
    room.storedVoice.awaitedId = draft.voice;
    const kept = await recordings.get(room.id);
    this.pendingDraft = null;
    // Another tab has replaced the stored recording in the meantime.
    if (!kept || room.reference || kept.at !== draft.recording) return;
    this.recordedAt = kept.at;
    const reference = new Reference({ ...kept, maxSeconds: room.microphone.maxSeconds });
    const { start = 0, end, cuts } = draft;
    if (reference.pcm && end) reference.select({ start, end, cuts });
    room.intake.showReference(reference);
    this.write(draft);
    room.intake.onChanged();
    const here = room.studio.current === room;
    room.steps.open((here && addressed()) || (draft.step ?? 1));
    if (here) room.studio.refresh();
  }

  /** Write the values of a draft into the form. @param {Draft} draft */
  write({ transcript, only, name, blend = false }) {
    const { room } = this;
    room.transcript.value = transcript;
    room.xvector.checked = only;
    room.keepForm.name.value = name;
    room.keepForm.blend.checked = blend;
  }

  /**
   * Return a function that restores the current recording and the current form.
   *
   * @returns {import('../app/studio.js').UndoFunction}
   */
  undoFunction() {
    const { room } = this;
    const { reference } = room;
    const draft = this.draft();
    return () => {
      room.language.value = draft.language;
      room.intake.showReference(reference);
      if (reference) this.store(reference);
      else this.forget();
      this.write(draft);
      room.steps.open(draft.step);
      room.storedVoice.value = draft.voice;
      room.view.paint();
      room.intake.onChanged();
    };
  }
}

// --- Loading, selecting, checking and removing the recording.

/** Loading, checking and removal of the recording in the Clone room. */
export class RecordingIntake {
  /** True if the runtime has refused the recording. */
  isRefused = false;

  /** Connect the buttons and the file field of a Clone room. @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
    this.studio = room.studio;
    this.status = getElement(room.root, '#vw-clone-status');
    this.edges = getElements(room.root, '#vw-clone-span input', HTMLInputElement);
    for (const field of this.edges) {
      field.onchange = () => (field.value ? room.trimmer.move(edgeOf(field), field.valueAsNumber) : this.onChanged());
    }
  }

  /**
   * Load a file and use it as the recording.
   *
   * If the file is not audio, an error is shown and the previous recording is kept.
   *
   * @param {Blob} file @param {{name?: string, isNew?: boolean}} [options]
   */
  async upload(file, { name = file instanceof File ? file.name : this.studio.t('clone.reference'), isNew = true } = {}) {
    const { studio, status } = this;
    this.room.showError('ref_audio', '');
    status.textContent = studio.t('clone.reading_file');
    try {
      const pcm = await decoded(file);
      const limit = studio.limits.max_upload_bytes ?? 10 * 2 ** 20;
      if (!pcm && file.size > limit) {
        const sizes = { size: (file.size / 2 ** 20).toFixed(1), limit: Math.floor(limit / 2 ** 20) };
        throw new Error(studio.t('clone.too_large', sizes));
      }
      // If the browser cannot decode the file, the runtime decides, because it reads more formats.
      if (!pcm) await this.room.audioChecks.check({ sound: file, transcript: null });
      this.useReference(new Reference({ pcm, file, name, source: 'upload', maxSeconds: this.room.microphone.maxSeconds }), isNew);
    } catch (error) {
      const why = error instanceof FileTooLarge ? this.sizeSentence(error) : errorOf(error).message;
      this.room.showError('ref_audio', studio.t('clone.not_taken', { name, why }));
    } finally {
      status.textContent = '';
    }
  }

  /** Return a message that says why a file is too large and what the user can do. @param {FileTooLarge} error */
  sizeSentence({ what, is, limit }) {
    const { t } = this.studio;
    if (what === 'long') return t('clone.too_long_to_open', { is: formatDuration(is, t), limit: formatDuration(limit, t) });
    const inMegabytes = (/** @type {number} */ bytes) => Math.ceil(bytes / 2 ** 20);
    return t('clone.too_large_to_open', { is: inMegabytes(is), limit: inMegabytes(limit) });
  }

  /** Use samples of the microphone as the recording. @param {Int16Array} pcm */
  useRecording(pcm) {
    const { room, studio } = this;
    const written = room.transcript.value;
    const reference = new Reference({ pcm, name: studio.t('clone.recorded'), source: 'recording', maxSeconds: room.microphone.maxSeconds });
    const isPart = this.useReference(reference, true);
    if (room.use.checkVisibility?.() ?? true) room.use.focus({ preventScroll: true });
    if (written || !pcm.length || isPart) return;
    room.words.fillIn(room.view.readingText, studio.t('clone.as_read'));
  }

  /**
   * Use a reference recording, and store it so that a reload can restore it.
   *
   * @param {Reference|null} reference @param {boolean} [isNew] true to select the best part
   * @returns {boolean} true if the selected part excludes some speech
   */
  useReference(reference, isNew = false) {
    const { room } = this;
    room.storedVoice.awaitedId = '';
    this.showReference(reference);
    room.steps.open(1);
    if (this.studio.current === room && addressed()) room.steps.name();
    if (!reference) {
      room.savedState.forget();
      return false;
    }
    room.savedState.store(reference);
    return isNew && room.partSelector.selectBest();
  }

  /** Show a recording in the room, or remove it if the value is null. @param {Reference|null} reference */
  showReference(reference) {
    const { room } = this;
    room.showError('ref_audio', '');
    room.showError('ref_text', '');
    room.reference = reference;
    const { stage } = this.studio;
    if (stage.take && stage.take === room.playback.playingTake) stage.show(null);
    room.savedVoice = room.currentVoice = null;
    this.isRefused = false;
    room.trying.open = false;
    room.storedVoice.value = '';
    room.words.clear();
    room.audioChecks.clear();
    room.keepForm.forget();
    room.partSelector.analyse(reference);
    room.find('name').textContent = reference?.name ?? '';
    room.find('length').textContent = reference?.pcm ? clock(reference.seconds * SAMPLE_RATE) : '';
    const cut = room.find('cut');
    cut.hidden = !reference?.isTooLong;
    if (reference?.isTooLong) cut.textContent = this.studio.t('clone.cut', { s: clock(reference.seconds * SAMPLE_RATE), most: reference.maxSeconds });
    room.trimmer.show(reference);
    room.view.paint();
    this.onChanged();
  }

  /** Remove the recording, and let the user undo the removal. */
  removeRecording() {
    const { room, studio } = this;
    const { reference } = room;
    if (!reference) return;
    const back = room.savedState.undoFunction();
    room.xvector.checked = false; // The choice to clone without a transcript does not apply to the next recording.
    this.useReference(null);
    room.find('record').focus({ preventScroll: true });
    studio.undo.offer(() => room.reference || back(), studio.t('clone.put_away'));
  }

  /** Update the page after code has changed the selection of the recording. */
  onMoved() {
    this.room.trimmer.paint();
    this.onChanged();
  }

  /** Update the page and check the recording again after a change. */
  onChanged() {
    const { room } = this;
    room.transcript.disabled = room.xvector.checked;
    const done = room.find('words-done');
    done.dataset.i18n = room.xvector.checked ? 'clone.sound_done' : 'clone.words_done';
    writeText(done, this.studio.t(done.dataset.i18n));
    room.compare();
    const { reference } = room;
    if (!reference) return;
    if (this.isRefused) room.showError('ref_audio', '');
    this.isRefused = false;
    for (const field of this.edges) field.value = reference[edgeOf(field)].toFixed(2);
    room.view.paintUseButton();
    room.audioChecks.checkSoon(() => ({
      sound: reference.sent(),
      surroundings: reference.surroundings,
      transcript: room.xvector.checked ? null : room.transcript.value.trim(),
    }));
  }

  /** Show an error of the runtime at the recording or at the transcript. @param {Error & {param?: string}} error */
  onRefused(error) {
    this.isRefused = error.param !== 'ref_text';
    this.room.showError(this.isRefused ? 'ref_audio' : 'ref_text', error.message);
    this.room.view.paintUseButton();
  }

  /** Reduce the selection to the speech that the runtime's checks have found. */
  trimToSpeech() {
    const { partSelector, audioChecks, reference } = this.room;
    if (!audioChecks.report || !reference) return;
    const { start_s, end_s } = audioChecks.report.trim;
    const { start, end, cuts } = reference.selection;
    const behind = reference.length - end_s;
    partSelector.undoable(this.studio.t('clone.tidied'), () => reference.select({ start: start + start_s, end: end - behind, cuts }));
  }
}
