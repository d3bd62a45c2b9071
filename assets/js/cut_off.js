/** Speech that a reload cut off: what was asked for outlives it, and is offered once more, with the seed that it had. */

const KEY = 'voicewright.cut_off';

export class CutOff {
  /** What was cut off when this tab was loaded. @type {import('./take.js').Asked|null} */
  asked = null;

  /** @param {import('./studio.js').Studio} studio */
  constructor(studio) {
    this.studio = studio;
    this.asked = taken();
    addEventListener('pagehide', () => this.keep());
    addEventListener('pageshow', () => taken()); // the page was only away, and all that it has is here
  }

  /** A request that is being spoken as one text; lines of a script and takes of a design stand in their rooms. */
  keep() {
    const take = [...this.studio.speech.live].find(({ room, reference, isSample, isQuiet }) => room === 'speakers' && !reference && !isSample && !isQuiet);
    if (!take) return;
    const { room, mode, config, text, spoken, seed, label } = take;
    try {
      sessionStorage.setItem(KEY, JSON.stringify({ room, mode, config, text, spoken, seed, label }));
    } catch {
      // A browser that gives the page no place: there is nothing to offer then.
    }
  }

  /** Something can be spoken now. */
  offer() {
    const { asked, studio } = this;
    if (!asked) return;
    this.asked = null;
    const again = () => studio.stage.play(studio.say(asked), { clicked: performance.now() });
    studio.toast(studio.t('shell.cut_off'), { action: studio.t('shell.speak_again'), onAction: again, isOfPage: true });
  }
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
