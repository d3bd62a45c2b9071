/** Writes lengths of time as people say them, in the page's language. Pure. */

/** @typedef {(key: string, values?: Object<string, unknown>) => string} Translate */

const MINUTE_S = 60;
const HOUR_S = 3600;
const FEW_MINUTES_S = 600; // Seconds are shown below this length.

/**
 * A length: "12 s", "2 min 5 s", "27 min", "1 h 27 min".
 *
 * @param {number} seconds what is begun of one counts @param {Translate} t
 */
export function span(seconds, t) {
  const whole = Math.max(1, Math.ceil(seconds));
  if (whole < MINUTE_S) return t('shell.seconds', { s: whole });
  if (whole < FEW_MINUTES_S) return t('shell.minutes', { m: Math.floor(whole / MINUTE_S), s: whole % MINUTE_S });
  const minutes = Math.ceil(whole / MINUTE_S);
  if (whole <= HOUR_S - MINUTE_S) return t('shell.whole_minutes', { m: minutes });
  return t('shell.hours', { h: Math.floor(minutes / MINUTE_S), m: minutes % MINUTE_S });
}
