/** Playback of the Design room's takes (voice samples) at equal loudness. */

import { SAMPLE_RATE } from '../common/audio.js';
import { throttle } from '../common/elements.js';

// --- Equal loudness, so that users do not prefer a voice because it is louder. All takes are attenuated to the level of
// the quietest take because a gain above 0 dB could clip.

/** Number of LU below the loudest take at which a take has failed and is ignored. */
const FAILED_BELOW = 20;

/**
 * Return the gains that give all takes the loudness of the quietest take.
 *
 * @param {(number|null)[]} levels  integrated loudness in LUFS, or null if it was not measured
 * @returns {{level: number|null, gains: number[]}}  common level in LUFS, and the gain of each take in dB
 */
export function matchLoudness(levels) {
  /** @param {number|null} level @returns {level is number} */
  const isKnown = (level) => Number.isFinite(level);
  const known = levels.filter(isKnown);
  if (known.length < 2) return { level: null, gains: levels.map(() => 0) };
  const loudest = Math.max(...known);
  const level = Math.min(...known.filter((one) => one > loudest - FAILED_BELOW));
  return { level, gains: levels.map((one) => (isKnown(one) ? Math.min(0, level - one) : 0)) };
}

// --- Playback of one take at a time, by buttons or keys, with waveforms on common axes.

/** @typedef {import('./card.js').TakeCard} TakeCard */

// Minimum height of the largest peak that is scaled up to full height. Lower peaks are scaled by the same factor.
const MIN_PEAK_HEIGHT = 0.3;

/** Playback of the Design room's takes (voice samples) at equal loudness. */
export class TakePlayback {
  /**
   * Create the playback for the cards of the Design room.
   *
   * @param {import('../player/stage.js').Stage} stage @param {() => TakeCard[]} cards returns all shown cards
   */
  constructor(stage, cards) {
    this.stage = stage;
    this.cards = cards;
    /** Card of the take that was played last, or null. @type {TakeCard|null} */
    this.current = null;
    /** @type {import('../player/playlist.js').Playlist|null} */
    this.playlist = null;
    this.alignSoon = throttle(() => this.align());
    stage.addEventListener('change', () => this.onStage());
    stage.addEventListener('place', () => this.follow());
  }

  /** Update the loudness and the time axes of all cards while a take is received. @param {TakeCard} card */
  watch({ take }) {
    take.addEventListener('progress', () => this.alignSoon());
    for (const event of ['done', 'stored']) take.addEventListener(event, () => this.match());
  }

  /** Playback position in seconds of the take that was played last. */
  get position() {
    return this.current && this.stage.take === this.current.take ? this.stage.at / SAMPLE_RATE : 0;
  }

  /**
   * Play the voice sample (take) of a card.
   *
   * @param {TakeCard} card @param {{from?: number, clicked?: number}} options from: start in seconds; clicked: time of the click
   * that requested the take
   */
  play(card, { from = 0, clicked } = {}) {
    const { stage } = this;
    const { take, gainDb } = card;
    const over = !take.isReceiving && from >= take.seconds;
    this.current = card;
    stage.play(take, { from: over ? 0 : from, gainDb, clicked });
    this.playlist = stage.playlist;
    this.onStage();
  }

  onStage() {
    const { stage, current } = this;
    const sounding = stage.isPlaying && stage.playlist === this.playlist ? current : null;
    for (const card of this.cards()) card.showPlaying(card === sounding, card === current);
    this.follow();
  }

  /** Show the playback position in the waveform of the take that was played last. */
  follow() {
    const { stage, current } = this;
    if (current && stage.take === current.take) current.wave.seek(stage.at);
  }

  /** Set the gains of all takes so that they have the loudness of the quietest take. */
  match() {
    const cards = this.cards();
    const levels = cards.map(({ take }) => take.lufs);
    const { level, gains } = matchLoudness(levels);
    cards.forEach((card, index) => card.level(gains[index], level !== null && levels[index] !== null));
    this.align();
  }

  /** Draw the waveforms of all takes with the same scales. */
  align() {
    const cards = this.cards();
    const longest = Math.max(0, ...cards.map(({ take }) => take.samples));
    const scale = 1 / Math.max(MIN_PEAK_HEIGHT, ...cards.map(({ height }) => height));
    for (const card of cards) card.drawOn(longest, scale);
  }
}
