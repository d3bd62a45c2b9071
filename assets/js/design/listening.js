/** How the takes of the Design room are heard: one at a time, equally loud, drawn on one axis, by hand or by their keys. */

import { SAMPLE_RATE } from '../wav.js';
import { seldom } from '../seldom.js';
import { matched } from './loudness.js';

/** @typedef {import('./card.js').TakeCard} TakeCard */

const LOWEST = 0.3; // Share of the canvas height; quieter audio is drawn small.

export class Listening {
  /** @param {import('../stage.js').Stage} stage @param {() => TakeCard[]} cards all that are shown */
  constructor(stage, cards) {
    this.stage = stage;
    this.cards = cards;
    /** What was put on the stage last. @type {TakeCard|null} */
    this.heard = null;
    /** @type {import('../programme.js').Programme|null} */
    this.programme = null;
    this.alignSoon = seldom(() => this.align());
    stage.addEventListener('change', () => this.onStage());
    stage.addEventListener('place', () => this.follow());
  }

  /** Follow a take that is shown from now on. @param {TakeCard} card */
  watch({ take }) {
    take.addEventListener('progress', () => this.alignSoon());
    for (const event of ['done', 'stored']) take.addEventListener(event, () => this.match());
  }

  /** Where the take that was heard last is, seconds. */
  get position() {
    return this.heard && this.stage.take === this.heard.take ? this.stage.at / SAMPLE_RATE : 0;
  }

  /** @param {TakeCard} card @param {{from?: number, clicked?: number}} options  clicked: of a take that was just asked for */
  play(card, { from = 0, clicked } = {}) {
    const { stage } = this;
    const { take, gainDb } = card;
    const over = !take.live && from >= take.seconds;
    this.heard = card;
    stage.play(take, { from: over ? 0 : from, gainDb, clicked });
    this.programme = stage.programme;
    this.onStage();
  }

  onStage() {
    const { stage, heard } = this;
    const sounding = stage.sounding && stage.programme === this.programme ? heard : null;
    for (const card of this.cards()) card.sound(card === sounding, card === heard);
    this.follow();
  }

  /** Move through the waveform of the take that is heard. */
  follow() {
    const { stage, heard } = this;
    if (heard && stage.take === heard.take) heard.wave.seek(stage.at);
  }

  /** Turn all down to the quietest. */
  match() {
    const cards = this.cards();
    const levels = cards.map(({ take }) => take.lufs);
    const { level, gains } = matched(levels);
    cards.forEach((card, index) => card.level(gains[index], level !== null && levels[index] !== null));
    this.align();
  }

  /** Draw all on the same axes. */
  align() {
    const cards = this.cards();
    const longest = Math.max(0, ...cards.map(({ take }) => take.samples));
    const scale = 1 / Math.max(LOWEST, ...cards.map(({ height }) => height));
    for (const card of cards) card.stretch(longest, scale);
  }
}
