/**
 * Speech that a reload cut off, before it was whole or before the studio had it: what was asked for outlives it, and is
 * offered once more, with the seed that it had. Where the studio's store has it all the same, it stands in the dock.
 */

/** @typedef {import('./take.js').Asked} Asked @typedef {import('./take.js').TakeRecord} TakeRecord */

const KEY = 'voicewright.cut_off';
const NEWEST = 5; // kept takes that are looked through: another tab may have spoken meanwhile

export class CutOff {
  /** What was cut off when this tab was loaded. @type {Asked|null} */
  asked = null;

  /** @param {import('./studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.asked = taken();
    addEventListener('pagehide', () => this.keep());
    addEventListener('pageshow', () => taken()); // the page was only away, and all that it has is here
  }

  /** A request that is being spoken, or kept, as one text; lines of a script and takes of a design stand in their rooms. */
  keep() {
    const { keeping, live } = this.studio.speech;
    const take = [...keeping, ...live].findLast(
      ({ room, reference, isSample, isQuiet, state }) => room === 'speakers' && !reference && !isSample && !isQuiet && state !== 'stopped',
    );
    if (!take) return;
    const { room, mode, config, text, spoken, seed, label } = take;
    try {
      sessionStorage.setItem(KEY, JSON.stringify({ room, mode, config, text, spoken, seed, label }));
    } catch {
      // A browser that gives the page no place: there is nothing to offer then.
    }
  }

  /** Something can be spoken now. */
  async offer() {
    const { asked, studio } = this;
    if (!asked) return;
    this.asked = null;
    const record = await this.kept(asked);
    if (record) return studio.isBusy ? undefined : studio.lastHeard.show(record);
    const again = () => studio.stage.play(studio.say(asked), { clicked: performance.now() });
    studio.toast(studio.t('shell.cut_off'), { action: studio.t('shell.speak_again'), onAction: again, isOfPage: true });
  }

  /** The take of this request that the studio keeps: of the same words and seed it has the same sound. @param {Asked} asked @returns {Promise<TakeRecord|undefined>} */
  async kept(asked) {
    const { takes } = await this.studio.api.get(`studio/takes?room=${asked.room}&limit=${NEWEST}`).catch(() => ({ takes: [] }));
    return takes.find((/** @type {TakeRecord} */ record) => record.stop_reason !== 'cancelled' && sameRequest(record, asked));
  }
}

/** @param {TakeRecord} record @param {Asked} asked */
function sameRequest(record, asked) {
  const { mode, text, spoken = null, seed, config } = asked;
  const names = new Set([...Object.keys(record.config), ...Object.keys(config)]);
  const isSame = [...names].every((name) => (record.config[name] ?? null) === (config[name] ?? null));
  return isSame && record.mode === mode && record.text === text && (record.spoken ?? null) === spoken && record.seed === seed;
}

/** What was kept, which is there no more. @returns {any} */
function taken() {
  try {
    const text = sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
