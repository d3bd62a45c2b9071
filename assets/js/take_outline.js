/** The outline of a kept take beside its words: drawn when it comes into view, from what the studio says of its sound. */

import { StudioError } from './api.js';
import { shown } from './waveform.js';

const SVG = 'http://www.w3.org/2000/svg';
const STEP = 3; // Pixels from bar to bar; a bar is two pixels wide.
const HIGH = 28; // Height in pixels.
const FULL = 255; // Maximum of the studio's values.

/** What waits to come into view, and what is done then. @type {WeakMap<Element, () => void>} */
const waiting = new WeakMap();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    waiting.get(target)?.();
  }
});

/** @param {HTMLElement} place @param {string} id of the take @param {import('./studio.js').Studio['api']} api */
export function outlineWhenSeen(place, id, api) {
  waiting.set(place, async () => {
    try {
      // A take's sound never changes: the browser keeps this, and the studio is asked once.
      const answer = await api.ask(`studio/takes/${id}/outline`, { cache: 'default' });
      const { outline } = await answer.json();
      place.replaceChildren(drawn(outline));
    } catch (error) {
      if (!(error instanceof StudioError)) throw error; // A take without audio shows its error when it is played.
    }
  });
  watcher.observe(place);
}

/** Bars about a middle line; their colour is the style's. @param {number[]} outline 0 to FULL each */
function drawn(outline) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${outline.length * STEP} ${HIGH}`);
  const path = document.createElementNS(SVG, 'path');
  const bars = outline.map((value, index) => {
    const half = Math.max(0.5, (shown(value / FULL) * HIGH) / 2);
    return `M${index * STEP + 1} ${HIGH / 2 - half}v${2 * half}`;
  });
  path.setAttribute('d', bars.join(''));
  svg.append(path);
  return svg;
}
