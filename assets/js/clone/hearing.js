/** Hearing what is chosen of the recording, with a mark that moves in the whole of it; and the recording of a stored voice. */

import { all, need } from '../elements.js';
import { errorOf } from '../errors.js';
import { SAMPLE_RATE } from '../wav.js';
import { heard, recordingOf } from '../voice_sound.js';

export class Hearing {
  /** What was heard last of the reference. @type {import('../take.js').Take|null} */
  sounding = null;

  /** @param {HTMLElement} root the room's panel @param {import('../rooms/clone.js').CloneRoom} room */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.plays = all(root, '#vw-clone-play, #vw-clone-play-words');
    for (const play of this.plays) play.onclick = () => this.hear();
    need(root, '#vw-clone-stored-play').onclick = () => this.hearStored();
  }

  /** Whether there is something to hear. @param {boolean} can */
  offer(can) {
    for (const play of this.plays) play.hidden = !can;
  }

  /** Play what is chosen of the reference. */
  hear() {
    const { studio } = this;
    const { reference, trimmer } = this.room;
    if (!reference) return;
    if (studio.stage.sounding && studio.stage.take === this.sounding) return studio.stage.pause();
    this.sounding = heard(reference.chosen, reference.name);
    studio.stage.show(this.sounding);
    studio.stage.play(this.sounding);
    const kept = reference.kept();
    const follow = () => {
      const on = studio.stage.sounding && studio.stage.take === this.sounding && this.room.reference === reference;
      for (const play of this.plays) play.dataset.icon = on ? 'pause' : 'play';
      trimmer.follow(on ? placed(kept, studio.stage.at / SAMPLE_RATE) : null);
      if (on) requestAnimationFrame(follow);
    };
    follow();
  }

  async hearStored() {
    const { studio } = this;
    const { chosen } = this.room;
    if (!chosen) return;
    try {
      studio.stage.play(await recordingOf(chosen, studio.t));
    } catch (error) {
      studio.toast(errorOf(error).message);
    }
  }
}

/** Where in the whole a second of what remains lies. @param {{start: number, end: number}[]} kept @param {number} at */
function placed(kept, at) {
  for (const { start, end } of kept) {
    if (at <= end - start) return start + at;
    at -= end - start;
  }
  return kept.at(-1)?.end ?? 0;
}
