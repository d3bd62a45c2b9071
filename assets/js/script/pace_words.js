/**
 * Pace as words in a line's style: the models have no other way to it. Pure.
 *
 *     withPace('Softly.', 'slow', { slow: 'Speak slowly.', fast: 'Speak quickly.' })  // 'Softly. Speak slowly.'
 *
 * @typedef {Object<string, string>} Paces  the words for each pace
 */

/** Which pace a style asks for. @param {string} style @param {Paces} paces @returns {string|null} */
export function paceOf(style, paces) {
  return Object.keys(paces).find((pace) => style.includes(paces[pace])) ?? null;
}

/** A style with the words for a pace, and without those for another; without any where it had them. @param {string} style @param {string} pace @param {Paces} paces */
export function withPace(style, pace, paces) {
  const before = paceOf(style, paces);
  let rest = style;
  for (const words of Object.values(paces)) rest = rest.replace(words, '');
  rest = rest.replace(/\s+/g, ' ').trim();
  return before === pace ? rest : `${rest} ${paces[pace]}`.trim();
}
