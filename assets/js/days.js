/** Days as people name them, in the page's language, and the time within one. Pure. */

const DAY_MS = 86_400_000;

/** The day that a moment lies in, here: its midnight. @param {number} at ms since 1970 @returns {number} ms since 1970 */
export function dayOf(at) {
  return new Date(at).setHours(0, 0, 0, 0);
}

/**
 * "Today", "Yesterday", "Monday, November 9"; of another year with the year.
 *
 * @param {number} day as dayOf gives it @param {number} now ms since 1970 @param {string} language
 */
export function nameOfDay(day, now, language) {
  const ago = Math.round((dayOf(now) - day) / DAY_MS); // A day may have 23 or 25 hours.
  if (ago === 0 || ago === 1) return capital(new Intl.RelativeTimeFormat(language, { numeric: 'auto' }).format(-ago, 'day'), language);
  const isThisYear = new Date(day).getFullYear() === new Date(now).getFullYear();
  /** @type {Intl.DateTimeFormatOptions} */
  const style = isThisYear ? { weekday: 'long', day: 'numeric', month: 'long' } : { dateStyle: 'long' };
  return capital(new Intl.DateTimeFormat(language, style).format(day), language);
}

/** The time of day. @param {number} at ms since 1970 @param {string} language */
export function timeOfDay(at, language) {
  return new Intl.DateTimeFormat(language, { timeStyle: 'short' }).format(at).replaceAll(' ', '\u00a0'); // No line break inside a time.
}

/** @param {string} words @param {string} language */
function capital(words, language) {
  return words.slice(0, 1).toLocaleUpperCase(language) + words.slice(1);
}
