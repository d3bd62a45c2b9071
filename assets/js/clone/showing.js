/** How the Clone room looks: what of it is shown, what its first button says, and what was settled in each step. */

import { need } from '../elements.js';
import { clock } from './clinic.js';

export class Showing {
  /** @param {import('../rooms/clone.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
    this.recording = need(room.root, '#vw-clone-recording');
  }

  /** What is offered to be read aloud. */
  get readingText() {
    const { room } = this;
    const { readings } = room.studio.presets;
    const own = room.studio.words.language === 'zh' ? readings.chinese : null;
    return readings[room.language.value.toLowerCase()] ?? own ?? readings.auto;
  }

  paint() {
    const { room } = this;
    const { studio, reference, made } = room;
    room.stored.paint();
    const { chosen } = room;
    room.find('new').hidden = Boolean(chosen);
    this.furnish(Boolean(chosen));
    const isLive = room.microphone.state !== 'idle';
    room.find('ways').hidden = room.find('care').hidden = Boolean(reference) || isLive;
    this.recording.hidden = !reference || isLive;
    room.find('read').textContent = this.readingText;
    const isDecoded = Boolean(reference?.pcm);
    room.trimmer.root.hidden = !isDecoded;
    room.hearing.offer(isDecoded);
    const best = room.find('best');
    best.hidden = !room.choosing.isLong;
    best.textContent = studio.t('clone.best', { s: Math.round(room.choosing.bestSeconds) });
    room.find('done').hidden = !made;
    room.steps.paint(this.summaries(), Boolean(made));
    room.words.paint(); // Shows the host's hint once it is visible.
    this.paintUse();
    if (reference) room.trimmer.paint();
    room.compare();
    if (studio.current === room) studio.refresh();
  }

  paintUse() {
    const { room } = this;
    const { reference, studio } = room;
    const s = reference?.length.toFixed(1) ?? '';
    room.use.textContent = studio.t(reference?.pcm ? 'clone.use' : 'clone.use_file', { s });
    room.use.disabled = room.intake.isRefused || (reference?.pcm ? reference.length === 0 : false);
  }

  /** Put the text where it is wanted: with a stored voice, or in the steps. @param {boolean} isStored */
  furnish(isStored) {
    const { room } = this;
    const home = isStored ? room.stored.root : room.trying;
    if (room.say.parentElement !== home) home.append(room.say);
  }

  /** What was settled in each step. */
  summaries() {
    const { room } = this;
    const { reference, studio } = room;
    if (!reference) return ['', '', ''];
    const lengths = { name: reference.name, s: reference.length.toFixed(1), all: clock(reference.seconds) };
    const chosen = reference.pcm ? studio.t(reference.whole ? 'clone.sum.whole' : 'clone.sum.chosen', lengths) : reference.name;
    return [chosen, room.xvector.checked ? studio.t('clone.xvector') : room.words.summary(), room.made?.name ?? ''];
  }
}
