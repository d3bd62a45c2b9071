/** What the Clone room works with: a recording is taken in, chosen from, judged anew at every change, and put away. */

import { need, write } from '../elements.js';
import { errorOf } from '../errors.js';
import { decoded, Reference, TooMuch } from '../reference.js';
import { span } from '../time_words.js';
import { offerUndo } from './choosing.js';
import { clock } from './clinic.js';
import { addressed } from './steps.js';

export class Intake {
  /** Whether the runtime would not take the recording. */
  isRefused = false;

  /** @param {import('../rooms/clone.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
    this.studio = room.studio;
    this.status = need(room.root, '#vw-clone-status');
    this.span = need(room.root, '#vw-clone-span');
  }

  /**
   * Work with a file. What is no sound is said where it was chosen, and what was there before stays.
   *
   * @param {Blob} file @param {{name?: string, isNew?: boolean}} [options]
   */
  async upload(file, { name = file instanceof File ? file.name : this.studio.t('clone.reference'), isNew = true } = {}) {
    const { studio, status } = this;
    this.room.complain('ref_audio', '');
    status.textContent = studio.t('clone.reading_file');
    try {
      const pcm = await decoded(file);
      const limit = studio.limits.max_upload_bytes ?? 10 * 2 ** 20;
      if (!pcm && file.size > limit) {
        const sizes = { size: (file.size / 2 ** 20).toFixed(1), limit: Math.floor(limit / 2 ** 20) };
        throw new Error(studio.t('clone.too_large', sizes));
      }
      // The runtime reads more formats than a browser, and says what it cannot read.
      if (!pcm) await this.room.clinic.judged({ sound: file, transcript: null });
      this.take(new Reference({ pcm, file, name, source: 'upload', maxSeconds: this.room.microphone.maxSeconds }), isNew);
    } catch (error) {
      const why = error instanceof TooMuch ? this.tooMuch(error) : errorOf(error).message;
      this.room.complain('ref_audio', studio.t('clone.not_taken', { name, why }));
    } finally {
      status.textContent = '';
    }
  }

  /** Why a file is not opened, and what to do. @param {TooMuch} error */
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
   * Work with this reference from here on, also when the page is opened again.
   *
   * @param {Reference|null} reference @param {boolean} [isNew] nothing of it was chosen yet
   * @returns {boolean} whether something that is said in it was left out
   */
  take(reference, isNew = false) {
    const { room } = this;
    room.stored.awaited = '';
    this.work(reference);
    room.steps.open(1);
    if (this.studio.current === room && addressed()) room.steps.name();
    if (!reference) {
      room.left.forget();
      return false;
    }
    room.left.store(reference);
    return isNew && room.choosing.begin();
  }

  /** @param {Reference|null} reference */
  work(reference) {
    const { room } = this;
    room.complain('ref_audio', '');
    room.complain('ref_text', '');
    room.reference = reference;
    room.made = null;
    this.isRefused = false;
    room.trying.open = false;
    room.stored.value = '';
    room.words.clear();
    room.clinic.clear();
    room.keeping.forget();
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

  /** Put the recording away, with a way back. */
  drop() {
    const { room, studio } = this;
    const { reference } = room;
    if (!reference) return;
    const back = room.left.wayBack();
    room.xvector.checked = false; // The next recording is checked from the start.
    this.take(null);
    room.find('record').focus({ preventScroll: true });
    offerUndo(studio, studio.t('clone.put_away'), () => {
      if (room.reference) return;
      back();
      studio.drafts.touch();
    });
  }

  /** Another part is chosen, not by the handles. */
  moved() {
    this.room.trimmer.paint();
    this.changed();
  }

  /** Something of the reference is different: judge it anew. */
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
    room.clinic.consult(() => ({
      sound: reference.sent(),
      transcript: room.xvector.checked ? null : room.transcript.value.trim(),
    }));
  }

  /** @param {Error & {param?: string}} error */
  refused(error) {
    this.isRefused = error.param !== 'ref_text';
    this.room.complain(this.isRefused ? 'ref_audio' : 'ref_text', error.message);
    this.room.showing.paintUse();
  }

  /** Cut to what the clinic found to be speech. */
  tidy() {
    const { choosing, clinic, reference } = this.room;
    if (!clinic.said || !reference) return;
    const { start_s, end_s } = clinic.said.trim;
    const { start, end, cuts } = reference.choice;
    const behind = reference.length - end_s;
    choosing.undoable(this.studio.t('clone.tidied'), () => reference.choose({ start: start + start_s, end: end - behind, cuts }));
  }
}
