/** A voice's mark: five bars and one of six hues, drawn from its id, so that a voice looks the same everywhere. */

const HUES = 6; // --vw-h0 to --vw-h5
const START = 66; // Start value of the hash, chosen so that the embedded speakers get different hues.
const SIDE = 36; // Size of the drawing.
const BAR = { width: 2.4, pitch: 4, first: 8.6, least: 5 };
const SPANS = [6, 15, 15, 15, 6]; // Range added to the minimum height: the outer bars stay low.

/** @typedef {'preset'|'designed'|'recorded'} VoiceKind a speaker of a checkpoint, a described voice, a recorded one */

/** 32 bits of an id; letters' case makes no difference. @param {string} id */
export function hashed(id) {
  let hash = START;
  for (const letter of id.toLowerCase()) hash = Math.imul(hash ^ Number(letter.codePointAt(0)), 16777619) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0;
  return (hash ^ (hash >>> 12)) >>> 0;
}

/** Which of the hues is the voice's. @param {string} id a speaker's name or a stored voice's id */
export function hueOf(id) {
  return hashed(id) % HUES;
}

/** Heights of the bars. @param {string} id @returns {number[]} */
export function barsOf(id) {
  let state = hashed(id);
  return SPANS.map((span) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return BAR.least + (span * (state >>> 8)) / 2 ** 24;
  });
}

/** The mark as an element; readers pass it by, since the name stands beside it. @param {string} id @param {VoiceKind} kind */
export function markOf(id, kind) {
  const mark = document.createElement('span');
  mark.className = `vw-mark vw-hue-${hueOf(id)}`;
  mark.dataset.kind = kind;
  mark.setAttribute('aria-hidden', 'true');
  const bars = barsOf(id).map((height, at) => {
    const place = `x="${(BAR.first + at * BAR.pitch).toFixed(1)}" y="${((SIDE - height) / 2).toFixed(1)}"`;
    return `<rect ${place} width="${BAR.width}" height="${height.toFixed(1)}" rx="${BAR.width / 2}" />`;
  });
  mark.innerHTML = `<svg viewBox="0 0 ${SIDE} ${SIDE}">${bars.join('')}</svg>`;
  return mark;
}
