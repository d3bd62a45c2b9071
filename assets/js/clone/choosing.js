/** What is chosen of a recording: the best part by itself, what is left out by one button each, and the way back from both. */

import { bestPart, faultsOf, LONG_S } from './best_part.js';
import { FRAME_S, listen } from './listening.js';

const READ_S = 20; // Length kept of a recording made here, enough for a slow reader.
const WORTH_S = 0.3; // Minimum silence that is reported.
const AT_EDGE_S = 0.6; // A fault this close to an edge is removed by moving the edge.

/** @typedef {ReturnType<typeof faultsOf>[number]} Fault @typedef {import('../reference.js').Reference} Reference */

export class Choosing {
  /** @param {import('../studio.js').Studio} studio @param {() => void} onChanged the choice is another one */
  constructor(studio, onChanged) {
    this.studio = studio;
    this.onChanged = onChanged;
    this.take(null);
  }

  /** Listen to another recording. @param {Reference|null} reference */
  take(reference) {
    this.reference = reference;
    this.heard = reference?.pcm?.length ? listen(reference.pcm) : null;
    this.best = this.heard && bestPart(this.heard, reference?.source === 'recording' ? READ_S : LONG_S);
  }

  /** Whether there is more than the best part. */
  get isLong() {
    return Boolean(this.best && this.reference && this.reference.seconds > LONG_S);
  }

  get bestSeconds() {
    return this.best ? this.best.end - this.best.start : 0;
  }

  /** Choose for who has not looked yet. @returns {boolean} whether words were left out */
  begin() {
    const { best, reference, studio } = this;
    if (!best || !reference || reference.seconds - this.bestSeconds < WORTH_S) return false;
    const isPart = this.isPart(best);
    const sentence = isPart
      ? studio.t('clone.chosen', { all: Math.round(reference.seconds), s: Math.round(this.bestSeconds) })
      : studio.t('clone.trimmed', { s: (reference.seconds - this.bestSeconds).toFixed(1) });
    this.undoable(sentence, () => reference.choose(best));
    return isPart;
  }

  /** Whether something is said that is not in it. @param {{start: number, end: number}} part */
  isPart({ start, end }) {
    const isOutside = (/** @type {number} */ at) => at < start || at >= end;
    return Boolean(this.heard?.speech.some((is, frame) => is === 1 && isOutside(frame * FRAME_S)));
  }

  chooseBest() {
    const { best, reference, studio } = this;
    if (!best || !reference) return;
    this.undoable(studio.t('clone.best_chosen', { s: Math.round(this.bestSeconds) }), () => reference.choose(best));
  }

  /** What could be better in what is chosen. @returns {Fault[]} */
  faults() {
    return this.heard && this.reference ? faultsOf(this.heard, this.reference.choice) : [];
  }

  /** Leave things out. @param {Fault[]} faults @param {string} sentence */
  leaveOut(faults, sentence) {
    this.undoable(sentence, () => {
      for (const { out } of faults) this.without(out);
    });
  }

  /** @param {import('./listening.js').Stretch} out */
  without(out) {
    const { reference } = this;
    if (!reference) return;
    const { start, end, cuts } = reference.choice;
    if (out.start - start < AT_EDGE_S && end - out.end > 1) reference.choose({ start: out.end, end, cuts });
    else if (end - out.end < AT_EDGE_S && out.start - start > 1) reference.choose({ start, end: out.start, cuts });
    else reference.leaveOut(out);
  }

  /** Choose otherwise, with a way back: on the toast, and by Ctrl+Z. @param {string} sentence @param {() => void} deed */
  undoable(sentence, deed) {
    const { reference, studio } = this;
    if (!reference) return;
    const before = reference.choice;
    deed();
    this.onChanged();
    offerUndo(studio, sentence, () => {
      if (this.reference !== reference) return;
      reference.choose(before);
      this.onChanged();
      studio.drafts.touch();
    });
  }
}

/** Say what was done, with the way back. @param {import('../studio.js').Studio} studio @param {string} sentence @param {() => void} back */
export function offerUndo(studio, sentence, back) {
  studio.dismiss?.();
  const undo = () => {
    if (studio.undo === undo) studio.undo = null;
    dismiss();
    back();
  };
  const dismiss = studio.toast(sentence, { action: studio.t('shell.undo'), onAction: undo });
  studio.dismiss = dismiss;
  studio.undo = undo;
}
