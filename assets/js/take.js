/** One take: the PCM as it was received, and the file that it can be saved as. */

import { SAMPLE_RATE } from './outputs.js';
import { wavBlob } from './wav.js';

export class Take {
  /** @param {string} mode @param {number} seed */
  constructor(mode, seed) {
    this.mode = mode;
    this.seed = seed;
    /** @type {Int16Array[]} */
    this.chunks = [];
    this.samples = 0;
  }

  /** @param {Int16Array} pcm */
  append(pcm) {
    this.chunks.push(pcm);
    this.samples += pcm.length;
  }

  /** Put the file behind a link. @param {HTMLAnchorElement} link */
  offer(link) {
    if (link.take === this && link.hasAttribute('href')) return;
    URL.revokeObjectURL(link.href);
    link.href = URL.createObjectURL(wavBlob(this.chunks, SAMPLE_RATE));
    link.download = `voicewright-${this.mode}-${this.seed}.wav`;
    link.take = this;
  }
}
