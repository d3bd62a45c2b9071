/** Selector for stored voices in the Clone room, and playback of recordings. */

import { SAMPLE_RATE } from '../common/audio.js';
import { getElements, getElement } from '../common/elements.js';
import { fillSelect } from '../common/fields.js';
import { recordingOf, sampleOf } from '../speak/voice_samples.js';

// --- Selection of a stored voice instead of a recording.

/** @typedef {import('../speak/voices.js').StoredVoice} StoredVoice */

/** Selector for a stored voice that the Clone room uses instead of a recording. */
export class StoredVoiceSelect {
  /** Id of a voice to select once the list of voices has been loaded, or ''. */
  awaitedId = '';

  /**
   * Create the selector from the elements of the Clone room.
   *
   * @param {HTMLElement} room panel of the room @param {import('../app/studio.js').Studio} studio @param {() => void}
   * onChange called when the selection or the list changes
   */
  constructor(room, studio, onChange) {
    this.studio = studio;
    this.onChange = onChange;
    this.select = getElement(room, '#vw-clone-voice', HTMLSelectElement);
    this.label = getElement(room, 'label[for=vw-clone-voice]');
    this.root = getElement(room, '#vw-clone-stored');
    this.about = getElement(room, '#vw-clone-stored-about');
    this.words = getElement(room, '#vw-clone-stored-words');
    this.select.onchange = () => onChange();
    studio.voices.addEventListener('change', () => this.listed());
  }

  /** Id of the selected voice, or '' if no voice is selected. */
  get value() {
    return this.select.value;
  }

  set value(id) {
    this.select.value = id;
  }

  /** Selected stored voice, or null if the room uses a recording. @returns {StoredVoice|null} */
  get chosen() {
    return this.value ? this.studio.voices.find(this.value) : null;
  }

  /** Update the options after a change of the stored voices. */
  listed() {
    const voice = this.awaitedId && this.studio.voices.find(this.awaitedId);
    this.awaitedId = '';
    if (voice) this.choose(voice);
    else this.onChange();
  }

  /** Select a stored voice. @param {{id: string}} voice */
  choose({ id }) {
    this.onChange(); // Update the options first, because a new voice is not among them yet.
    this.value = id;
    this.onChange();
  }

  paint() {
    const { studio, select } = this;
    fillSelect(select, [['', studio.t('clone.new')], ...studio.voices.list.map(({ id, name }) => [id, name])]);
    const { chosen } = this;
    select.hidden = this.label.hidden = studio.voices.list.length === 0;
    this.root.hidden = !chosen;
    if (chosen) this.describe(chosen);
  }

  /** Show the description, duration, tags and transcript of a stored voice. @param {StoredVoice} voice */
  describe({ description, transcript, seconds, tags }) {
    const about = [description, `${seconds.toFixed(1)} s`, ...tags.map((tag) => `#${tag}`)];
    this.about.textContent = about.filter(Boolean).join(' · ');
    this.words.textContent = transcript ?? this.studio.t('clone.by_xvector');
  }
}

// --- Playback of the selection, with a cursor in the waveform, and of a stored voice's recording.

/** Playback of the selected part of a recording, and of a stored voice's recording. */
export class ReferencePlayback {
  /** Player object for the recording that was played last, or null. @type {import('../player/take.js').Take|null} */
  playingTake = null;

  /**
   * Connect the play buttons of the Clone room.
   *
   * @param {HTMLElement} root panel of the room @param {import('./room.js').CloneRoom} room
   */
  constructor(root, room) {
    this.room = room;
    this.studio = room.studio;
    this.plays = getElements(root, '#vw-clone-play, #vw-clone-play-words, #vw-clone-play-original');
    for (const play of this.plays) play.onclick = () => this.play();
    getElement(root, '#vw-clone-stored-play').onclick = () => this.playStored();
  }

  /** Show or hide the play buttons. @param {boolean} isShown */
  showPlayButtons(isShown) {
    for (const play of this.plays) play.hidden = !isShown;
  }

  /** Play or pause the selected part of the recording. */
  play() {
    const { studio } = this;
    const { reference, trimmer } = this.room;
    if (!reference) return;
    if (studio.stage.isPlaying && studio.stage.take === this.playingTake) return studio.stage.pause();
    this.playingTake = sampleOf(reference.selectedPcm, reference.name);
    studio.stage.show(this.playingTake);
    studio.stage.play(this.playingTake);
    const kept = reference.keptSpans();
    const follow = () => {
      const on = studio.stage.isPlaying && studio.stage.take === this.playingTake && this.room.reference === reference;
      for (const play of this.plays) play.dataset.icon = on ? 'pause' : 'play';
      trimmer.follow(on ? wholeTime(kept, studio.stage.at / SAMPLE_RATE) : null);
      if (on) requestAnimationFrame(follow);
    };
    follow();
  }

  async playStored() {
    const { studio } = this;
    const { chosen } = this.room;
    const take = chosen && (await studio.toasts.guard(() => recordingOf(chosen, studio.t)));
    if (take) studio.stage.play(take);
  }
}

/**
 * Convert a time in the kept spans of a selection to a time in the whole recording.
 *
 * @param {{start: number, end: number}[]} parts
 * @param {number} at seconds in the selection, without the removed spans
 */
function wholeTime(parts, at) {
  for (const { start, end } of parts) {
    if (at <= end - start) return start + at;
    at -= end - start;
  }
  return parts.at(-1)?.end ?? 0;
}
