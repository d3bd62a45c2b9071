/** What was left in the Clone room's steps: recording, words and choices, for a reload and for a way back. */

import { recordings } from '../recordings.js';
import { Reference } from '../reference.js';
import { preselect } from '../rooms/fields.js';
import { addressed } from './steps.js';

/** @typedef {{language: string, transcript: string, only: boolean, voice: string, name: string, step: number, recording?: number} & Partial<Reference['choice']>} Draft */

export class Left {
  /** When the recording was put where a reload finds it. @type {number|undefined} */
  recordedAt = undefined;
  /** What was left here, until it is brought back. @type {Draft|null} */
  reopening = null;

  /** @param {import('../rooms/clone.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** Put the recording where a reload finds it. @param {Reference} reference */
  store({ pcm, file, name, source }) {
    this.recordedAt = Date.now();
    recordings.put(this.room.id, { pcm, file, name, source, at: this.recordedAt });
  }

  /** There is none to be found, or none that is still to become a voice. */
  forget() {
    recordings.delete(this.room.id);
  }

  /** What was chosen and written; consent is given anew each time. @returns {Draft} */
  draft() {
    if (this.reopening) return this.reopening;
    const { language, transcript, xvector, reference, stored, keeping, made, steps } = this.room;
    const form = { language: language.value, transcript: transcript.value, only: xvector.checked };
    return { ...form, ...reference?.choice, recording: this.recordedAt, voice: stored.value, name: keeping.name.value, step: made ? 1 : steps.at };
  }

  /** Bring the recording back, and what was written of it. @param {Draft} draft */
  async reopen(draft) {
    const { room } = this;
    this.reopening = draft;
    preselect(room.language, draft.language);
    room.stored.awaited = draft.voice;
    const kept = await recordings.get(room.id);
    this.reopening = null;
    if (!kept || room.reference || kept.at !== draft.recording) return; // Another tab has stored its own recording there.
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
    room.keeping.name.value = name;
  }

  /** The way back to the recording that is here now, and to what was written of it. @returns {import('../studio.js').Back} */
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
