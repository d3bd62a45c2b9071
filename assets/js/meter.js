/** A take's figures: times from the click as this page saw them, the rest as the runtime says. */

import { need, write } from './elements.js';

/** @typedef {import('./stage.js').Shown} Shown */

const FRAME_SAMPLES = 1920;
const NONE = '–';
const FIGURES = ['queue', 'prefill', 'ttfa', 'audible', 'rtf', 'frames', 'underruns', 'reason'];

export class Meter {
  /** @param {ParentNode} page @param {(key: string, values?: Object<string, any>) => string} t */
  constructor(page, t) {
    this.t = t;
    this.chip = need(page, '#vw-to-sound');
    this.cells = FIGURES.map((name) => ({ name, cell: need(page, `#vw-${name}`) }));
  }

  /** @param {Shown|null} take */
  show(take) {
    /** @type {Object<string, string|undefined>} */
    const figures = take ? this.figures(take) : {};
    for (const { name, cell } of this.cells) write(cell, figures[name] ?? NONE);
    const ms = take && (take.timing.audible ?? take.timing.ttfa ?? take.metrics?.heard?.audible_ms ?? take.metrics?.heard?.ttfa_ms);
    this.chip.hidden = ms == null;
    if (ms != null) write(this.chip, this.t('shell.to_sound', { s: (ms / 1000).toFixed(ms < 100 ? 2 : 1) }));
  }

  /** @param {Shown} take */
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
