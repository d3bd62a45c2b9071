/** A take's figures: times from the click as this page saw them, the rest as the runtime says. */

import { SAMPLE_RATE } from './outputs.js';

const FRAME_SAMPLES = 1920;
const NONE = '–';

export class Meter {
  /** @param {ParentNode} page @param {(key: string, values?: Object<string, any>) => string} t */
  constructor(page, t) {
    this.t = t;
    const names = ['queue', 'prefill', 'ttfa', 'audible', 'rtf', 'frames', 'underruns', 'reason'];
    this.chip = page.querySelector('#vw-to-sound');
    this.cells = Object.fromEntries(names.map((name) => [name, page.querySelector(`#vw-${name}`)]));
  }

  /** @param {import('./take.js').Take|null} take */
  show(take) {
    /** @type {Object<string, string|undefined>} */
    const figures = take ? this.figures(take) : {};
    for (const [name, cell] of Object.entries(this.cells)) {
      const text = figures[name] ?? NONE;
      if (cell.textContent !== text) cell.textContent = text;
    }
    const ms = take && (take.timing.audible ?? take.timing.ttfa ?? take.metrics?.heard?.audible_ms ?? take.metrics?.heard?.ttfa_ms);
    this.chip.hidden = ms == null;
    if (ms != null) this.chip.textContent = this.t('shell.to_sound', { s: (ms / 1000).toFixed(ms < 100 ? 2 : 1) });
  }

  /** @param {Object<string, any>} take */
  figures({ queue, metrics, samples, stopReason, timing }) {
    return {
      queue: queue ? `${queue.position + 1}.` : milliseconds(metrics?.queue_ms),
      prefill: milliseconds(metrics?.prefill_ms),
      ttfa: milliseconds(timing.ttfa ?? metrics?.heard?.ttfa_ms),
      audible: milliseconds(timing.audible ?? metrics?.heard?.audible_ms),
      rtf: metrics?.rtf?.toFixed(2),
      frames: samples ? String(Math.round(samples / FRAME_SAMPLES)) : undefined,
      underruns: (timing.underruns ?? metrics?.heard?.underruns)?.toString(),
      reason: stopReason ? this.t(`shell.reason.${stopReason}`) : undefined,
    };
  }
}

/** @param {number|null|undefined} value */
function milliseconds(value) {
  if (value == null) return undefined;
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`;
}

/** Write a length as people read it. @param {number} samples */
export function clock(samples) {
  const seconds = samples / SAMPLE_RATE;
  return `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, '0')}`;
}
