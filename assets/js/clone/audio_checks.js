/**
 * Quality checks of a reference recording, which the runtime makes for the Clone room.
 *
 * They are requested shortly after the last change of the selection.
 */

import { api, errorOf } from '../common/api.js';
import { clock, SAMPLE_RATE } from '../common/audio.js';
import { createElement, getElement } from '../common/elements.js';

const REFUSED = 'transcript_mismatch'; // Code of the runtime's advice if a transcript cannot be saved.
/** Message key for a transcript that does not match the recording. */
export const MISMATCH = `server.error.${REFUSED}`;
const SETTLED_MS = 500;
const RETRY_MS = 2000; // Delay after a check without a response.
const MAX_FAULTS = 4; // Maximum number of faults of one kind that are shown.
const MIN_EDGE_SILENCE_S = 0.3; // Minimum duration of silence at an edge that the page reports.

/**
 * @typedef {import('./selection.js').Fault} Fault
 * @typedef {'leaveOut'|'shorten'|'pauses'|'best'|'trim'|'another'} AudioRemedy
 *
 * @typedef {{sound: Blob, transcript: string|null, surroundings?: Blob|null}} Inputs  recording to check
 *
 * @typedef {Object} CheckResult     result of the runtime's checks, in seconds and dBFS
 * @property {boolean} usable
 * @property {number} seconds
 * @property {number} speech_s
 * @property {{start_s: number, end_s: number}} trim  start and end of the speech
 * @property {{peak_db: number|null, speech_db: number|null, pauses_db: number|null, decay_db: number|null}} levels  null for a level that cannot be measured
 * @property {{code: string, sentence: string}[]} advice
 */

/** List of the quality checks of a reference recording, with buttons that repair it. */
export class AudioChecks {
  /**
   * Create the list of checks from the elements of the Clone room.
   *
   * @param {HTMLElement} root  panel of the Clone room
   * @param {import('../app/studio.js').Studio} studio
   * @param {Object} callbacks
   * @param {(error: Error) => void} callbacks.onRefused
   * @param {() => void} callbacks.onReport  called when the result of the checks has changed
   * @param {() => Fault[]} callbacks.faults  returns the faults that the page has detected
   * @param {Record<AudioRemedy, (faults: Fault[]) => void>} callbacks.remedies  actions that correct a fault
   * @param {() => boolean} callbacks.isLong  returns true if another part can be selected
   */
  constructor(root, studio, callbacks) {
    this.studio = studio;
    this.callbacks = callbacks;
    this.list = getElement(root, '#vw-clone-clinic');
    this.verdict = getElement(root, '#vw-clone-verdict');
    this.passedList = getElement(root, '#vw-clone-fit');
    this.asked = 0;
    /** Last result of the checks, or null. @type {CheckResult|null} */
    this.report = null;
  }

  /** Remove the result of the checks from the page. */
  clear() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.report = null;
    this.list.replaceChildren();
    this.passedList.replaceChildren();
    this.verdict.hidden = true;
    this.list.dataset.state = 'empty';
  }

  /**
   * Request the checks after a short delay, which restarts at each call.
   *
   * @param {() => Inputs} inputs
   */
  checkSoon(inputs) {
    clearTimeout(this.timer);
    const asked = ++this.asked;
    this.list.dataset.state = 'asking';
    this.timer = setTimeout(() => this.runCheck(asked, inputs()), SETTLED_MS);
  }

  /**
   * Send a recording to the runtime and return the result of its checks.
   *
   * @param {Inputs} given
   * @returns {Promise<CheckResult>}
   * @throws {Error} The runtime refuses the recording.
   */
  check({ sound, transcript }) {
    const form = new FormData();
    form.append('audio_sample', sound, 'reference.wav');
    if (transcript) form.append('ref_text', transcript);
    return api.form('v1/audio/voices/check', form);
  }

  /**
   * Measure the noise of the whole recording, and add it to the result.
   *
   * @param {CheckResult} report @param {Blob} audio
   */
  async measureNoise(report, audio) {
    const { levels, advice } = await this.check({ sound: audio, transcript: null }).catch(() => report);
    report.levels.pauses_db = levels.pauses_db;
    report.advice.push(...advice.filter(({ code }) => code === 'noise'));
  }

  /**
   * Request the checks of a recording and show the result, unless a newer check has started.
   *
   * @param {number} check @param {Inputs} inputs
   */
  async runCheck(check, inputs) {
    try {
      const report = await this.check(inputs);
      if (report.levels.pauses_db === null && inputs.surroundings) await this.measureNoise(report, inputs.surroundings);
      if (check === this.asked) this.show(report);
    } catch (error) {
      if (check !== this.asked) return;
      if (errorOf(error).unreachable) {
        this.studio.status.checkConnection(); // The status line shows that the studio is unreachable.
        this.timer = setTimeout(() => this.runCheck(check, inputs), RETRY_MS);
      } else {
        this.clear();
        this.callbacks.onRefused(errorOf(error));
      }
    }
  }

  /** Show the result of the checks. @param {CheckResult} report */
  show(report) {
    this.report = report;
    this.paint();
    this.callbacks.onReport();
  }

  /** True if the runtime would refuse to save a voice with this transcript. */
  get isTranscriptRefused() {
    return this.list.dataset.state !== 'asking' && this.transcriptAdvice.some(({ code }) => code === REFUSED);
  }

  /** The runtime's advice about the transcript. */
  get transcriptAdvice() {
    return this.report?.advice.filter(({ code }) => code.startsWith('transcript')) ?? [];
  }

  /** The runtime's advice about the audio. */
  get audioAdvice() {
    return this.report?.advice.filter(({ code }) => !code.startsWith('transcript')) ?? [];
  }

  /** True if the page or the runtime has found a fault in the audio. */
  get hasFaults() {
    return this.report !== null && (this.audioAdvice.length > 0 || this.callbacks.faults().length > 0);
  }

  /** True if the noise in the pauses and the echo of the room could be measured. */
  get isMeasured() {
    return this.verdictKey === 'clone.good';
  }

  /** Message key for a recording without faults, which depends on the measured levels. */
  get verdictKey() {
    const { pauses_db = null, decay_db = null } = this.report?.levels ?? {};
    if (pauses_db !== null) return decay_db === null ? 'clone.echo_unknown' : 'clone.good';
    return decay_db === null ? 'clone.unmeasured' : 'clone.noise_unknown';
  }

  /** Show the faults with buttons that correct them, and the passed checks. */
  paint() {
    const { report, studio } = this;
    if (!report) return;
    const codes = this.audioAdvice.map(({ code }) => code);
    // A cough is not reported for a clipped recording, because clipped speech is as noisy as a cough.
    const isClipped = codes.includes('clipping');
    const faults = this.callbacks.faults().filter(({ code }) => !isClipped || code !== 'cough').slice(0, MAX_FAULTS);
    // If the recording must be repeated, trimming it would not help.
    const isTooShort = codes.includes('short') || codes.includes('no_speech');
    const advice = this.audioAdvice.filter(({ code }) => code !== 'silence' || !isTooShort);
    const edges = !isTooShort && (report.trim.start_s >= MIN_EDGE_SILENCE_S || report.seconds - report.trim.end_s >= MIN_EDGE_SILENCE_S);
    const items = [
      ...faults.map((fault) => this.faultItem(fault)),
      ...advice.map(({ code, sentence }) => this.item(this.sentence(code, sentence), code, this.remedyOf(code, faults))),
      ...(edges ? [this.item(studio.t('clone.found.edges'), 'edges', 'trim')] : []),
    ];
    this.verdict.hidden = items.length > 0;
    if (this.isMeasured) this.verdict.dataset.icon = 'check';
    else delete this.verdict.dataset.icon;
    this.verdict.textContent = studio.t(this.verdictKey, { s: report.speech_s.toFixed(1) });
    this.list.replaceChildren(...this.passed(report, codes), ...items);
    this.passedList.replaceChildren(...this.transcriptAdvice.filter(({ code }) => code !== REFUSED).map(({ code, sentence }) => this.item(this.sentence(code, sentence), code)));
    this.list.dataset.state = report.usable ? 'said' : 'unusable';
  }

  /** Return a list item for a fault that the page itself has detected. @param {Fault} fault */
  faultItem(fault) {
    const places = { at: clock(fault.at * SAMPLE_RATE), s: fault.seconds.toFixed(1) };
    const remedy = fault.code === 'pause' ? 'shorten' : 'leaveOut';
    return this.item(this.studio.t(`clone.found.${fault.code}`, places), fault.code, remedy, [fault]);
  }

  /**
   * Return the action that corrects the fault with this code.
   *
   * @param {string} code @param {Fault[]} faults @returns {AudioRemedy}
   */
  remedyOf(code, faults) {
    if (code === 'silence' && faults.some((fault) => fault.code === 'pause')) return 'pauses';
    if (code === 'silence') return 'trim';
    return code === 'long' && this.callbacks.isLong() ? 'best' : 'another';
  }

  /**
   * Return list items for the passed checks, each with the measured level.
   *
   * @param {CheckResult} report
   * @param {string[]} codes codes of the faults
   */
  passed({ levels: { peak_db, speech_db, pauses_db, decay_db } }, codes) {
    const figures = [
      { name: 'loud', faults: ['quiet', 'no_speech'], db: speech_db },
      { name: 'unclipped', faults: ['clipping'], db: peak_db },
      { name: 'calm', faults: ['noise'], db: pauses_db },
      { name: 'dry', faults: ['echo', 'no_speech'], db: decay_db },
    ];
    return figures.flatMap(({ name, faults, db }) => (db === null || faults.some((code) => codes.includes(code)) ? [] : [this.passedItem(name, db)]));
  }

  /** Return a list item for a passed check, with its measured value in dB. @param {string} name @param {number} db */
  passedItem(name, db) {
    const item = this.item(this.studio.t(`clone.ok.${name}`), `ok.${name}`);
    item.className = '';
    item.dataset.icon = 'check';
    item.append(createElement('span', { textContent: this.studio.t(`clone.ok.${name}_figure`, { db: db.toFixed(0).replace('-', '−') }) }));
    return item;
  }

  /**
   * Return the text for a fault's code in the page's language.
   *
   * If the page is in English or has no text for the code, return the runtime's sentence.
   *
   * @param {string} code
   * @param {string} sentence
   */
  sentence(code, sentence) {
    if (code === REFUSED) return this.studio.t(MISMATCH);
    const key = `clone.advice.${code}`;
    const own = this.studio.t(key);
    return own === key || this.studio.words.language === 'en' ? sentence : own;
  }

  /**
   * Return a list item for a fault, with a button if an action can correct it.
   *
   * @param {string} text @param {string} code @param {AudioRemedy} [remedy] @param {Fault[]} [faults]
   */
  item(text, code, remedy, faults) {
    const item = createElement('li', { className: 'vw-care' }, [createElement('b', { textContent: text })]);
    Object.assign(item.dataset, { code, icon: 'care' });
    if (remedy) item.append(this.button(remedy, faults));
    return item;
  }

  /**
   * Return a button that runs an action that corrects a fault.
   *
   * @param {AudioRemedy} remedy @param {Fault[]} [faults]
   */
  button(remedy, faults = []) {
    const textContent = this.studio.t(`clone.remedy.${remedy}`);
    return createElement('button', { type: 'button', className: 'vw-link', textContent, onclick: () => this.callbacks.remedies[remedy](faults) });
  }
}
