/** A text as it is sent, and how long it is there: what the page counts, and what it and the runtime check. Pure. */

/** White space around a text is not spoken (engine/text/rules.py), and must not make it too long. @param {string} text */
export function sentText(text) {
  return text.trim();
}

/** Characters of a text that is sent, as the runtime counts them. @param {string} text */
export function sentLength(text) {
  return [...sentText(text)].length;
}
