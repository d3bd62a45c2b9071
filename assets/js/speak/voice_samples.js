/** Audio samples of voices, and recordings of stored voices, for the player. */

import { decoded } from '../clone/reference.js';
import { api } from '../common/api.js';
import { Take } from '../player/take.js';

// --- Takes for audio that the runtime has not generated, such as a reference recording.

/**
 * Wrap audio that was not generated in a `Take`, so that the player can play it.
 *
 * @param {Int16Array} pcm mono, 24 kHz @param {string} label
 */
export function sampleOf(pcm, label) {
  const take = new Take({ room: 'clone', mode: 'base', config: {}, text: '', seed: 0, label });
  take.append(pcm);
  take.state = 'done';
  return take;
}

/**
 * Load the recording of a stored voice for the player.
 *
 * @param {{id: string, name: string}} voice @param {import('../common/words.js').Words['t']} t
 * @returns {Promise<Take>}
 * @throws {Error} if the recording cannot be loaded or played
 */
export async function recordingOf({ id, name }, t) {
  const pcm = await decoded(await api.blob(`v1/audio/voices/${id}/audio`));
  if (pcm) return sampleOf(pcm, name);
  throw new Error(t('voices.unplayable', { name }));
}

// --- Voice samples: a cached take of a speaker, or the recording of a stored voice. Event: 'change'.

/** @typedef {import('./voices.js').Choice} Choice */

const SAMPLE_SEED = 7; // Constant seed, so that a sample always sounds the same.

/** Playback of the audio samples of voices and of the recordings of stored voices. */
export class VoiceSamples extends EventTarget {
  /** Samples that were played, by checkpoint and voice. @type {Map<string, Take>} */
  takes = new Map();
  /** Key of the voice whose sample is playing, or '' if no sample is playing. */
  playingKey = '';

  /** Create the samples of a page. @param {import('../app/studio.js').Studio} studio */
  constructor(studio) {
    super();
    this.studio = studio;
    studio.stage.addEventListener('change', () => this.follow());
  }

  /** Return the key of a voice's sample in the map of samples. @param {Choice} choice */
  sampleKey({ key, mode }) {
    return mode === 'base' ? key : `${this.studio.cards.get(mode)?.id} ${key}`;
  }

  /** Play the sample of a voice, or pause it if it is playing. @param {Choice} choice */
  async togglePlayback(choice) {
    const { studio } = this;
    if (this.playingKey === choice.key) return studio.stage.pause();
    const known = this.takes.get(this.sampleKey(choice));
    if (choice.mode === 'base') {
      const take = known ?? (await studio.toasts.guard(() => recordingOf({ id: choice.voice, name: choice.name }, studio.t)));
      if (take) this.play(choice, take);
      return;
    }
    if (known?.state === 'done') {
      studio.stop();
      studio.errorMessages.clear();
      return this.play(choice, known);
    }
    if (studio.isReachable()) this.speak(choice);
  }

  /** Generate and play a sample sentence with a speaker of the checkpoint. @param {Choice} choice */
  speak(choice) {
    const { studio } = this;
    const { mode, voice, name, language, sample } = choice;
    studio.stop();
    studio.errorMessages.clear();
    const knows = language && studio.cards.get(mode)?.languages.includes(language);
    const config = { voice, language: knows ? language : 'auto' };
    const label = studio.t('picker.sample_of', { name });
    const take = studio.speech.say({ room: studio.current?.id ?? 'speakers', mode, config, text: sample ?? '', seed: SAMPLE_SEED, label, isSample: true });
    this.play(choice, take, { clicked: performance.now() });
  }

  /**
   * Play the sample of a voice.
   *
   * @param {Choice} choice @param {Take} take @param {{clicked?: number}} [options]
   */
  play(choice, take, options) {
    this.takes.set(this.sampleKey(choice), take);
    this.playing = { key: choice.key, take };
    this.studio.stage.play(take, options);
  }

  follow() {
    const { stage } = this.studio;
    const sounding = stage.isPlaying && this.playing && stage.take === this.playing.take ? this.playing.key : '';
    if (sounding === this.playingKey) return;
    this.playingKey = sounding;
    this.dispatchEvent(new Event('change'));
  }
}
