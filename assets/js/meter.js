/** The take's figures. Times run from the user's click; RTF and stop reason are the runtime's own. */

import { SAMPLE_RATE } from './outputs.js';

const FRAME_SAMPLES = 1920;
const REASONS = {
  eos: 'end of speech',
  max_tokens: 'frame limit',
  runaway: 'no end came',
  cancelled: 'stopped',
  error: 'error',
};

export class Meter {
  /** @param {ParentNode} page */
  constructor(page) {
    const cell = (name) => page.querySelector(`#vw-${name}`);
    this.cells = {
      ttfa: cell('ttfa'),
      audible: cell('audible'),
      rtf: cell('rtf'),
      frames: cell('frames'),
      underruns: cell('underruns'),
      reason: cell('reason'),
    };
  }

  /** @param {number} clicked performance.now() of the click */
  begin(clicked) {
    this.clicked = clicked;
    this.heard = false;
    this.audible = false;
    for (const cell of Object.values(this.cells)) cell.textContent = '–';
  }

  /** @param {number} samples received so far */
  received(samples) {
    this.cells.frames.textContent = Math.round(samples / FRAME_SAMPLES);
    if (this.heard) return;
    this.heard = true;
    this.cells.ttfa.textContent = milliseconds(performance.now() - this.clicked);
  }

  /** @param {import('./player.js').Player} player */
  follow(player) {
    if (!player.counters) return;
    this.cells.underruns.textContent = player.counters.underruns;
    const at = this.audible ? null : player.audibleAt();
    if (at === null) return;
    this.audible = true;
    this.cells.audible.textContent = milliseconds(at - this.clicked);
  }

  /** @param {Object} done the server's audio.done */
  done(done) {
    const rtf = done.metrics?.rtf;
    this.cells.rtf.textContent = rtf == null ? '–' : rtf.toFixed(2);
    this.cells.reason.textContent = REASONS[done.stop_reason] ?? done.stop_reason;
  }

  cancelled() {
    this.cells.reason.textContent = REASONS.cancelled;
  }

  failed() {
    this.cells.reason.textContent = REASONS.error;
  }
}

function milliseconds(value) {
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`;
}
