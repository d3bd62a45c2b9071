/**
 * Recording of the Clone room: loading, checking, removing and restoring after a reload.
 */

import { errorOf } from '../common/api.js';
import { span } from '../common/dates.js';
import { need, write } from '../common/elements.js';
import { preselect } from '../common/fields.js';
import { recordings } from '../common/storage.js';
import { clock } from './audio_checks.js';
import { decoded, Reference, FileTooLarge } from './reference.js';
import { addressed } from './steps.js';

// --- Draft of the Clone room with recording, transcript and choices, for reloads and undo.

/** @typedef {{language: string, transcript: string, only: boolean, voice: string, name: string, step: number, recording?: number} & Partial<Reference['choice']>} Draft */

export class SavedState {
  /** Time at which the recording was stored for a reload. @type {number|undefined} */
  recordedAt = undefined;
  /** Stored draft until it is restored, or null. @type {Draft|null} */
  reopening = null;

  /** @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** Store the recording for a reload of the page. @param {Reference} reference */
  store({ pcm, file, name, source }) {
    this.recordedAt = Date.now();
    recordings.put(this.room.id, { pcm, file, name, source, at: this.recordedAt });
  }

  /** Delete the stored recording. */
  forget() {
    recordings.delete(this.room.id);
  }

  /** Return the form's values without the consent, which the user must give again. @returns {Draft} */
  draft() {
    if (this.reopening) return this.reopening;
    const { language, transcript, xvector, reference, stored, keepForm, made, steps } = this.room;
    const form = { language: language.value, transcript: transcript.value, only: xvector.checked };
    return { ...form, ...reference?.choice, recording: this.recordedAt, voice: stored.value, name: keepForm.name.value, step: made ? 1 : steps.at };
  }

  /** Restore the recording and its form. @param {Draft} draft */
  async reopen(draft) {
    const { room } = this;
    this.reopening = draft;
    preselect(room.language, draft.language);
    room.stored.awaited = draft.voice;
    const kept = await recordings.get(room.id);
    this.reopening = null;
    // Another tab has replaced the stored recording in the meantime.
    if (!kept || room.reference || kept.at !== draft.recording) return;
    this.recordedAt = kept.at;
    const reference = new Reference({ ...kept, maxSeconds: room.microphone.maxSeconds });
    const { start = 0, end, cuts } = draft;
    if (reference.pcm && end) reference.choose({ start, end, cuts });
    room.intake.work(reference);
    this.write(draft);
    room.intake.changed();
    const here = room.studio.current === room;
    room.steps.open((here && addressed()) || (draft.step ?? 1));
    if (here) room.studio.refresh();
  }

  /** @param {Draft} draft */
  write({ transcript, only, name }) {
    const { room } = this;
    room.transcript.value = transcript;
    room.xvector.checked = only;
    room.keepForm.name.value = name;
  }

  /** Return a function that restores the current recording and its form. @returns {import('../app/studio.js').UndoFunction} */
  wayBack() {
    const { room } = this;
    const { reference } = room;
    const draft = this.draft();
    return () => {
      room.language.value = draft.language;
      room.intake.work(reference);
      if (reference) this.store(reference);
      else this.forget();
      this.write(draft);
      room.steps.open(draft.step);
      room.stored.value = draft.voice;
      room.showing.paint();
      room.intake.changed();
    };
  }
}

// --- Loading, selecting, checking and removing the recording.

export class RecordingIntake {
  /** True if the runtime has refused the recording. */
  isRefused = false;

  /** @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
    this.studio = room.studio;
    this.status = need(room.root, '#vw-clone-status');
    this.span = need(room.root, '#vw-clone-span');
  }

  /**
   * Use a file as the recording.
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
      this.take(new Reference({ pcm, file, name, source: 'upload', maxSeconds: this.room.microphone.maxSeconds }), isNew);
    } catch (error) {
      const why = error instanceof FileTooLarge ? this.tooMuch(error) : errorOf(error).message;
      this.room.showError('ref_audio', studio.t('clone.not_taken', { name, why }));
    } finally {
      status.textContent = '';
    }
  }

  /** Return a sentence that says why a file is too large, and what to do. @param {FileTooLarge} error */
  tooMuch({ what, is, limit }) {
    const { t } = this.studio;
    if (what === 'long') return t('clone.too_long_to_open', { is: span(is, t), limit: span(limit, t) });
    const inMegabytes = (/** @type {number} */ bytes) => Math.ceil(bytes / 2 ** 20);
    return t('clone.too_large_to_open', { is: inMegabytes(is), limit: inMegabytes(limit) });
  }

  /** @param {Int16Array} pcm */
  recorded(pcm) {
    const { room, studio } = this;
    const written = room.transcript.value;
    const reference = new Reference({ pcm, name: studio.t('clone.recorded'), source: 'recording', maxSeconds: room.microphone.maxSeconds });
    const isPart = this.take(reference, true);
    if (room.use.checkVisibility?.() ?? true) room.use.focus({ preventScroll: true });
    if (written || !pcm.length || isPart) return;
    room.words.fillIn(room.showing.readingText, studio.t('clone.as_read'));
  }

  /**
   * Use a reference audio, and store it for a reload.
   *
   * @param {Reference|null} reference @param {boolean} [isNew] true if no part is selected yet
   * @returns {boolean} true if the selection excludes speech
   */
  take(reference, isNew = false) {
    const { room } = this;
    room.stored.awaited = '';
    this.work(reference);
    room.steps.open(1);
    if (this.studio.current === room && addressed()) room.steps.name();
    if (!reference) {
      room.savedState.forget();
      return false;
    }
    room.savedState.store(reference);
    return isNew && room.choosing.begin();
  }

  /** @param {Reference|null} reference */
  work(reference) {
    const { room } = this;
    room.showError('ref_audio', '');
    room.showError('ref_text', '');
    room.reference = reference;
    room.kept = room.made = null;
    this.isRefused = false;
    room.trying.open = false;
    room.stored.value = '';
    room.words.clear();
    room.audioChecks.clear();
    room.keepForm.forget();
    room.choosing.take(reference);
    room.find('name').textContent = reference?.name ?? '';
    room.find('length').textContent = reference?.pcm ? clock(reference.seconds) : '';
    const cut = room.find('cut');
    cut.hidden = !reference?.isCut;
    if (reference?.isCut) cut.textContent = this.studio.t('clone.cut', { s: clock(reference.seconds), most: reference.maxSeconds });
    room.trimmer.show(reference);
    room.showing.paint();
    this.changed();
  }

  /** Remove the recording, and offer undo. */
  drop() {
    const { room, studio } = this;
    const { reference } = room;
    if (!reference) return;
    const back = room.savedState.wayBack();
    room.xvector.checked = false; // The choice to clone without a transcript does not apply to the next recording.
    this.take(null);
    room.find('record').focus({ preventScroll: true });
    studio.undoable(() => room.reference || back(), studio.t('clone.put_away'));
  }

  /** Update the trimmer after the selection was changed without its handles. */
  moved() {
    this.room.trimmer.paint();
    this.changed();
  }

  /** Check the reference audio again after a change. */
  changed() {
    const { room } = this;
    room.transcript.disabled = room.xvector.checked;
    const done = room.find('words-done');
    done.dataset.i18n = room.xvector.checked ? 'clone.sound_done' : 'clone.words_done';
    write(done, this.studio.t(done.dataset.i18n));
    room.compare();
    const { reference } = room;
    if (!reference) return;
    this.isRefused = false;
    const { start, end, length } = reference;
    const times = { from: start.toFixed(2), to: end.toFixed(2), s: length.toFixed(1) };
    this.span.textContent = reference.pcm ? this.studio.t('clone.span', times) : this.studio.t('clone.undecoded');
    room.showing.paintUse();
    room.audioChecks.checkSoon(() => ({
      sound: reference.sent(),
      transcript: room.xvector.checked ? null : room.transcript.value.trim(),
    }));
  }

  /** @param {Error & {param?: string}} error */
  refused(error) {
    this.isRefused = error.param !== 'ref_text';
    this.room.showError(this.isRefused ? 'ref_audio' : 'ref_text', error.message);
    this.room.showing.paintUse();
  }

  /** Trim the selection to the speech that the checks have found. */
  tidy() {
    const { choosing, audioChecks, reference } = this.room;
    if (!audioChecks.report || !reference) return;
    const { start_s, end_s } = audioChecks.report.trim;
    const { start, end, cuts } = reference.choice;
    const behind = reference.length - end_s;
    choosing.undoable(this.studio.t('clone.tidied'), () => reference.choose({ start: start + start_s, end: end - behind, cuts }));
  }
}
