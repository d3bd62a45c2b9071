/** Pure functions that return dates and durations as texts in the page's language. */

// --- Names of days and times of day in the page's language.

const DAY_MS = 86_400_000;

/**
 * Return the start of the day (local midnight) of a point in time.
 *
 * @param {number} at ms since 1970 @returns {number} ms since 1970
 */
export function dayOf(at) {
  return new Date(at).setHours(0, 0, 0, 0);
}

/**
 * Return the name of a day: "Today", "Yesterday" or "Monday, November 9".
 *
 * The year is included if it is not the current year.
 *
 * @param {number} day result of dayOf @param {number} now ms since 1970 @param {string} language
 */
export function nameOfDay(day, now, language) {
  const ago = Math.round((dayOf(now) - day) / DAY_MS); // Round, because a day may have 23 or 25 hours.
  if (ago === 0 || ago === 1) return capitalised(new Intl.RelativeTimeFormat(language, { numeric: 'auto' }).format(-ago, 'day'), language);
  const isThisYear = new Date(day).getFullYear() === new Date(now).getFullYear();
  /** @type {Intl.DateTimeFormatOptions} */
  const style = isThisYear ? { weekday: 'long', day: 'numeric', month: 'long' } : { dateStyle: 'long' };
  return capitalised(new Intl.DateTimeFormat(language, style).format(day), language);
}

/**
 * Return the time of day in hours and minutes, in the format of a language.
 *
 * @param {number} at ms since 1970 @param {string} language
 */
export function timeOfDay(at, language) {
  // Non-breaking spaces keep the time on one line.
  return new Intl.DateTimeFormat(language, { timeStyle: 'short' }).format(at).replaceAll(' ', '\u00a0');
}

/** Return a text with a capital first letter. @param {string} words @param {string} language */
function capitalised(words, language) {
  return words.slice(0, 1).toLocaleUpperCase(language) + words.slice(1);
}

// --- Durations in the page's language.

/** @typedef {(key: string, values?: Object<string, unknown>) => string} Translate */

const MINUTE_S = 60;
const HOUR_S = 3600;
const MAX_SECONDS_SHOWN_S = 600; // Maximum duration that is shown with seconds.

/**
 * Return a duration such as "12 s", "2 min 5 s", "27 min" or "1 h 27 min".
 *
 * @param {number} seconds duration, which is rounded up @param {Translate} t
 */
export function formatDuration(seconds, t) {
  const total = Math.max(1, Math.ceil(seconds));
  if (total < MINUTE_S) return t('shell.seconds', { s: total });
  if (total < MAX_SECONDS_SHOWN_S) return t('shell.minutes', { m: Math.floor(total / MINUTE_S), s: total % MINUTE_S });
  const minutes = Math.ceil(total / MINUTE_S);
  if (total <= HOUR_S - MINUTE_S) return t('shell.whole_minutes', { m: minutes });
  if (minutes % MINUTE_S === 0) return t('shell.whole_hours', { h: minutes / MINUTE_S });
  return t('shell.hours', { h: Math.floor(minutes / MINUTE_S), m: minutes % MINUTE_S });
}
