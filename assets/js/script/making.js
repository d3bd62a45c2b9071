/**
 * Generation of the audio of script lines, with one take for each segment between pauses.
 *
 * A take is the audio of one request. Equal requests share a take.
 *
 * The key of a take consists of voice, text and seed. Therefore existing audio is reused if a change is undone or a line is
 * copied. In a long line, only the changed segments are generated again.
 *
 * Events: 'change' when the state of a line may have changed; 'kept' when the studio has stored a take.
 *
 * @typedef {import('./document.js').Line} Line
 *
 * @typedef {Object} Segment     segment of a line between pauses, or a pause
 * @property {number} [silence]  length of a pause in seconds
 * @property {string} [text]
 * @property {string|null} [key] key of the take, or null while the line has no voice or no seed
 * @property {import('../player/take.js').Mode} [mode]
 * @property {import('../player/take.js').Config} [config]
 *
 * @typedef {import('../player/take.js').TakeRecord} TakeRecord
 *
 * @typedef {Object} LineTake     stored take of a line
 * @property {number} seed
 * @property {TakeRecord[]} records  takes of its segments
 *
 * @typedef {Take|import('./document.js').StoredPart} SegmentTake  a take of this page, or a take that the studio stores
 *
 * @typedef {Object} LineState
 * @property {'empty'|'unmade'|'coming'|'made'|'failed'} state
 * @property {number} seconds    length of the available audio including pauses
 * @property {Error|null} error
 * @property {Take} [short]       take that is too short for its text
 */

import { errorOf } from '../common/api.js';
import { SAMPLE_RATE } from '../common/audio.js';
import { throttle } from '../common/elements.js';
import { FieldError } from '../common/fields.js';
import { configFor, hasTags, lastStyle } from '../common/text.js';
import { LOST } from '../player/reload.js';
import { Take } from '../player/take.js';
import { nameOfScript, readParts } from './line_text.js';
import { levelsOf } from './schedule.js';

const UPDATE_INTERVAL_MS = 250; // Interval between updates of a line during its generation.
const MAX_SEARCH_CHARS = 250; // Maximum number of characters of a search text that the studio uses.

/**
 * Return a key that is equal for requests with equal audio.
 *
 * @param {Pick<Segment, 'mode'|'config'|'text'> & {spoken?: string|null, seed: number|null}} asked
 */
function keyOf({ mode, config = {}, text, spoken, seed }) {
  return JSON.stringify([mode, Object.entries(config).sort(), spoken ?? text, seed]);
}

/** Generator of the audio of script lines, with one take for each segment. */
export class Maker extends EventTarget {
  /**
   * Create a generator that has no lines yet.
   *
   * @param {Pick<import('../app/studio.js').Studio, 'api'|'errorMessages'|'speech'|'voices'|'pronunciation'|'t'>} studio
   * @param {import('./voice_assignment.js').VoiceAssignment} voiceAssignment
   */
  constructor(studio, voiceAssignment) {
    super();
    this.studio = studio;
    this.voiceAssignment = voiceAssignment;
    /** Takes of this page by key. @type {Map<string, Take>} */
    this.takes = new Map();
    /** Takes that the studio stores by key. @type {Map<string, import('./document.js').StoredPart>} */
    this.storedTakes = new Map();
    /** Stored takes that are used again if they are restored. @type {Map<string, import('./document.js').StoredPart>} */
    this.missingTakes = new Map();
    /** @type {Map<string, Error>} */
    this.errors = new Map();
    /**
     * Segments of each line, the values from which they were computed, and replaced words.
     *
     * @type {WeakMap<Line, {source: unknown[], stretches: Segment[], replaced: number}>}
     */
    this.plans = new WeakMap();
    this.changedSoon = throttle(() => this.changed(), UPDATE_INTERVAL_MS);
  }

  /** Cancel the generation, and use another script. @param {import('./document.js').Script} script */
  open(script) {
    this.cancel();
    this.script = script;
    for (const known of [this.takes, this.storedTakes, this.missingTakes, this.errors]) known.clear();
    this.readTakes();
    this.forgetDeleted();
  }

  /**
   * Do not use takes of deleted voices that the studio does not find.
   *
   * The studio deletes all takes of a voice together, so the search ends at the first take that exists. The lines keep
   * the ids of the takes, because the user may restore takes from the bin.
   */
  async forgetDeleted() {
    const { script, takes, storedTakes, missingTakes, studio } = this;
    for (const [key, part] of missingTakes) if (!storedTakes.has(key)) storedTakes.set(key, part);
    missingTakes.clear();
    for (const one of script?.voices ?? []) {
      if (!this.voiceAssignment.isDeleted(one)) continue;
      for (const [key, part] of storedTakes) {
        if (!key.includes(JSON.stringify(one.voice))) continue;
        const isThere = await studio.api.get(`studio/takes/${part.take}`).then(() => true, ({ status }) => status !== 404);
        if (isThere || script !== this.script) break;
        takes.delete(key);
        storedTakes.delete(key);
        missingTakes.set(key, part);
        this.changed();
      }
    }
  }

  /** Collect the stored takes of the script's lines by key. */
  readTakes() {
    for (const part of this.script?.lines.flatMap(({ takes }) => takes) ?? []) this.storedTakes.set(part.key, part);
    this.changed();
  }

  /** Return the segments of a line, which are texts to speak and silences. @param {Line} line @returns {Segment[]} */
  segmentsOf(line) {
    return this.read(line).stretches;
  }

  /**
   * Return the segments of a line and the number of its pronunciation replacements.
   *
   * The result is cached until the line changes.
   *
   * @param {Line} line
   */
  read(line) {
    const { text, seed, voice, instruct } = line;
    const { pronunciation } = this.studio;
    const source = [text, seed, voice, instruct, this.voiceAssignment.takesInstruct(voice), pronunciation.words];
    const known = this.plans.get(line);
    if (known && source.every((one, at) => one === known.source[at])) return known;
    const plan = { source, stretches: this.segments(line), replaced: pronunciation.count(text) };
    this.plans.set(line, plan);
    return plan;
  }

  /** Return the segments of a line, with the request of each segment. @param {Line} line @returns {Segment[]} */
  segments(line) {
    const { text, seed, voice } = line;
    const request = voice && this.voiceAssignment.request(line);
    let style = ''; // Style that an earlier segment of the line has set.
    return readParts(text).parts.map((part) => {
      if (part.text === undefined) return part;
      if (!request) return { ...part, key: null };
      const { mode, config: own } = request;
      if (hasTags(style + part.text)) {
        part.text = `${style}${style && ' '}${part.text}`;
        style = lastStyle(part.text);
      }
      const config = configFor(own, part.text);
      const asked = { mode, config, text: part.text, spoken: this.studio.pronunciation.spokenText(part.text), seed };
      return { ...part, mode, config, key: seed === null ? null : keyOf(asked) };
    });
  }

  /**
   * Replace the error messages of lines whose generation failed because of the runtime.
   *
   * This is called when the runtime is ready again.
   *
   * @returns {Line|undefined} first line whose message was replaced
   */
  back() {
    const isLost = (/** @type {unknown} */ error) => LOST.includes(errorOf(error).code ?? '');
    const first = this.script?.lines.find((line) => isLost(this.state(line).error));
    for (const [key, error] of this.errors) if (isLost(error)) this.errors.set(key, new Error(this.studio.t('shell.runtime_back')));
    this.changed();
    return first;
  }

  /**
   * Return the stored takes of a line, oldest first.
   *
   * They differ only in the seed.
   *
   * @param {Line} line
   * @returns {Promise<LineTake[]>}
   */
  async takesOf(line) {
    const parts = this.segmentsOf(line).filter(({ config }) => config);
    const found = await Promise.all(parts.map((part) => this.stored(part)));
    const seeds = [...(found[0]?.keys() ?? [])].filter((seed) => found.every((records) => records.has(seed)));
    return seeds.map((seed) => ({ seed, records: found.map((records) => /** @type {TakeRecord} */ (records.get(seed))) }));
  }

  /** Return the stored takes of a segment by seed. @param {Segment} part @returns {Promise<Map<number, TakeRecord>>} */
  async stored({ mode, config, text = '' }) {
    const { api, pronunciation } = this.studio;
    const query = new URLSearchParams({ room: 'script', limit: '100', search: text.slice(0, MAX_SEARCH_CHARS) });
    const { takes } = await api.get(`studio/takes?${query}`);
    const asked = { mode, config, text, spoken: pronunciation.spokenText(text) };
    const same = takes.filter((/** @type {TakeRecord} */ one) => one.stop_reason !== 'cancelled' && keyOf(one) === keyOf({ ...asked, seed: one.seed }));
    return new Map(same.reverse().map((/** @type {TakeRecord} */ one) => [one.seed, one]));
  }

  /**
   * Use a stored take as the audio of a line, by using its seed.
   *
   * @param {Line} line
   * @param {LineTake} take
   * @returns {import('../app/studio.js').UndoFunction}
   */
  choose(line, { seed, records }) {
    const before = line.seed;
    for (const record of records) {
      const { id, samples } = record;
      const key = keyOf(record);
      if (!this.storedTakes.has(key)) this.storedTakes.set(key, { key, take: id, samples, levels: '' });
    }
    const use = (/** @type {number|null} */ chosen) => {
      line.seed = chosen;
      this.changed();
      this.dispatchEvent(new Event('kept'));
    };
    use(seed);
    return () => use(before);
  }

  /**
   * Return the state of a line's audio, such as 'made' or 'failed', with its length.
   *
   * @param {Line} line @returns {LineState}
   */
  state(line) {
    const plan = this.segmentsOf(line);
    const known = plan.filter(({ silence }) => !silence).map((part) => this.takeOf(part));
    const samples = known.reduce((sum, sound) => sum + (sound?.samples ?? 0), 0);
    const pauses = plan.reduce((sum, { silence }) => sum + (silence ?? 0), 0);
    const seconds = samples / SAMPLE_RATE + pauses;
    const error = plan.map(({ key }) => key && this.errors.get(key)).find((one) => one instanceof Error) ?? null;
    if (error) return { state: 'failed', seconds, error };
    if (plan.length === 0) return { state: 'empty', seconds, error };
    const here = known.filter((sound) => sound instanceof Take);
    if (here.some(({ isReceiving }) => isReceiving)) return { state: 'coming', seconds, error };
    const short = here.find(({ isShort }) => isShort);
    return { state: known.every(Boolean) ? 'made' : 'unmade', seconds, error, short };
  }

  /**
   * Return the take of a segment, or null if it has not been requested.
   *
   * @param {Segment} stretch
   * @returns {SegmentTake|null}
   */
  takeOf({ key }) {
    return (key && (this.takes.get(key) ?? this.storedTakes.get(key))) || null;
  }

  /** Return the encoded levels of a segment's audio, as far as it is generated. @param {Segment} stretch */
  levels({ key }) {
    const take = key && this.takes.get(key);
    return (key && this.storedTakes.get(key)?.levels) || (take ? levelsOf(take) : '');
  }

  /** Return the stored takes of a line's segments, in order. @param {Line} line */
  partsOf(line) {
    return this.segmentsOf(line).flatMap(({ key }) => (key && (this.storedTakes.get(key) ?? this.missingTakes.get(key))) || []);
  }

  /** Return true if audio of a line is missing and its voice was deleted. @param {Line} line */
  isLost(line) {
    return this.voiceAssignment.isDeleted(line.voice) && this.segmentsOf(line).some((part) => !part.silence && !this.takeOf(part));
  }

  /** Return the error for a line whose voice was deleted. @param {Line} line */
  deletedVoiceError({ id, voice }) {
    const { t } = this.studio;
    return new FieldError('request', t('script.voice_deleted', { n: (this.script?.indexOf(id) ?? 0) + 1, name: voice?.name ?? t('script.deleted_unnamed') }));
  }

  /** Set a random seed for a line that has no seed. @param {Line} line */
  assignSeed(line) {
    line.seed ??= crypto.getRandomValues(new Uint32Array(1))[0];
  }

  /**
   * Return the take (generated audio) of a segment of a line.
   *
   * It is an existing take, a stored take, or a new request.
   *
   * @param {Segment} segment @param {Line} line
   * @returns {Promise<Take>}
   */
  async take(segment, line) {
    const { key } = segment;
    if (key && !this.takes.has(key) && this.storedTakes.has(key)) await this.loadStored(key);
    return (key && this.takes.get(key)) || this.requestTake(segment, line);
  }

  /**
   * Load a stored take with its audio.
   *
   * If the take was deleted, it is removed from the index.
   *
   * @param {string} key
   */
  async loadStored(key) {
    const id = this.storedTakes.get(key)?.take;
    const { api } = this.studio;
    try {
      const [record, file] = await Promise.all([
        api.get(`studio/takes/${id}`),
        api.blob(`studio/takes/${id}/audio?format=pcm`),
      ]);
      const take = Take.fromRecord(record, new Int16Array(await file.arrayBuffer()));
      this.takes.set(key, take);
      this.recordTake(key, take);
    } catch (error) {
      if (errorOf(error).status !== 404) throw error;
      this.storedTakes.delete(key);
    }
  }

  /**
   * Send the request for a segment, and return its take.
   *
   * @param {Segment} stretch segment with a key @param {Line} line @returns {Take}
   */
  requestTake({ key, mode, config, text }, line) {
    const { script } = this;
    const { seed } = line;
    if (!key || !mode || !config || !text || seed === null) throw new Error('a pause, or a line without a voice, is not spoken');
    this.errors.delete(key);
    const label = script && `${nameOfScript(script) || this.studio.t('script.untitled')}, ${script.indexOf(line.id) + 1}`;
    const take = this.studio.speech.say({ room: 'script', mode, config, text, seed, label, isQuiet: true, keepsStopped: false });
    const forget = () => this.takes.get(key) === take && this.takes.delete(key);
    /** @param {string} event @param {() => void} listener */
    const on = (event, listener) =>
      take.addEventListener(event, () => {
        if (this.script !== script) return;
        listener();
        this.changed();
      });
    this.takes.set(key, take);
    on('state', () => {});
    take.addEventListener('progress', () => this.script === script && this.changedSoon());
    on('done', () => take.state === 'stopped' && forget());
    on('error', () => {
      forget();
      if (take.error) this.errors.set(key, take.error);
      // Another window may have deleted the voice.
      if (errorOf(take.error).code === 'unknown_voice') this.studio.voices.refresh().catch(() => {});
    });
    on('stored', () => this.recordTake(key, take));
    this.changed();
    return take;
  }

  /** Record that the studio has stored a take of the script. @param {string} key @param {Take} take */
  recordTake(key, take) {
    const { id, samples } = take;
    const levels = levelsOf(take);
    if (!id || this.storedTakes.get(key)?.levels === levels) return;
    this.storedTakes.set(key, { key, take: id, samples, levels });
    this.dispatchEvent(new Event('kept'));
  }

  /**
   * Generate the missing audio of a line, and wait until the studio has stored it.
   *
   * @param {Line} line
   * @returns {Promise<({take: string}|{silence_s: number})[]>} takes and silences of the line for an export
   * @throws {Error} if the generation failed or was stopped, or a take could not be stored
   */
  async make(line) {
    this.assignSeed(line);
    /** @type {({take: string}|{silence_s: number})[]} */
    const clips = [];
    for (const part of this.segmentsOf(line)) {
      if (part.silence) clips.push({ silence_s: part.silence });
      else clips.push({ take: await this.store(part, line) });
    }
    return clips;
  }

  /**
   * Return the id of a segment's stored take, after generating it if necessary.
   *
   * @param {Segment} segment
   * @param {Line} line
   * @returns {Promise<string>} id of the stored take
   */
  async store(segment, line) {
    const { key } = segment;
    const kept = key && this.storedTakes.get(key);
    if (kept) return kept.take;
    const take = (key && this.takes.get(key)) || this.requestTake(segment, line);
    await take.stored();
    if (take.id) return take.id;
    const { storing, refusedTakes } = this.studio.speech;
    // If the studio has not responded yet, the take is sent again, so a later attempt can succeed.
    const retryable = storing.has(take) && !refusedTakes.has(take);
    throw Object.assign(new Error(this.studio.t('script.not_stored')), { retryable });
  }

  /**
   * Remove the samples of a line's stored takes from memory.
   *
   * They are loaded again when the line is played.
   *
   * @param {Line} line
   */
  release(line) {
    for (const { key } of this.segmentsOf(line)) {
      const take = key && this.storedTakes.has(key) && this.takes.get(key);
      if (take && !take.isShort) this.takes.delete(/** @type {string} */ (key));
    }
  }

  /** Return an error whose message contains the number of a line. @param {Line} line @param {unknown} error */
  lineError(line, error) {
    const n = (this.script?.indexOf(line.id) ?? 0) + 1;
    return new Error(this.studio.t('script.line_failed', { n, why: errorOf(error).message }), { cause: error });
  }

  /**
   * Discard the audio of a line, so that the line will be generated again.
   *
   * The line gets a new seed, unless the user has locked its seed.
   *
   * @param {Line} line @returns {() => void} function that restores the seed and the audio
   */
  discard(line) {
    const { seed } = line;
    if (!line.locked) line.seed = null;
    this.assignSeed(line);
    const keys = this.segmentsOf(line).map((part) => part.key ?? '');
    const had = keys.map((key) => ({ key, take: this.takes.get(key), part: this.storedTakes.get(key) }));
    const drop = () => {
      for (const known of [this.takes, this.storedTakes, this.errors]) for (const key of keys) known.delete(key);
    };
    drop();
    this.changed();
    return () => {
      drop();
      for (const { key, take, part } of had) {
        if (take) this.takes.set(key, take);
        if (part) this.storedTakes.set(key, part);
      }
      line.seed = seed;
      this.changed();
    };
  }

  /** True while a take of the script is generated, or is sent to the studio's store. */
  get isGenerating() {
    return [...this.takes.values()].some((take) => take.isReceiving || take.isStoring);
  }

  /** Cancel all takes of the script that are in generation. */
  cancel() {
    for (const take of [...this.takes.values()]) take.cancel();
  }

  changed() {
    this.dispatchEvent(new Event('change'));
  }
}

// --- Repeated generation of a line. The old audio is kept until the new audio is complete, and if the generation fails.

/** Repeated generation of a line, which keeps the old audio until the new one is complete. */
export class Regeneration {
  /**
   * Line that is generated again, if it had audio before.
   *
   * @type {{id: string, back: () => void, dismiss: () => void}|null}
   */
  line = null;

  /** Create the repeated generation for a Script room. @param {import('./room.js').ScriptRoom} room */
  constructor(room) {
    this.room = room;
  }

  /** Generate the audio of a line again and play it, with undo. @param {string} id */
  begin(id) {
    const { studio, script, maker, voiceAssignment } = this.room;
    const line = script.line(id);
    if (!line || !studio.isReachable()) return;
    if (voiceAssignment.isDeleted(line.voice)) return studio.errorMessages.showMessage('request', maker.deletedVoiceError(line));
    studio.stop();
    const { seed, locked } = line;
    const isMade = maker.state(line).state === 'made';
    const back = maker.discard(line);
    script.notify(false);
    this.room.playFrom(id, { only: true });
    const undo = () => {
      studio.stop();
      script.change(id, { seed });
    };
    const notice = studio.t('script.remade', { n: script.indexOf(id) + 1 });
    const dismiss = locked ? () => {} : studio.toasts.show(notice, { action: studio.t('shell.undo'), onAction: undo });
    if (isMade) this.line = { id, back, dismiss };
  }

  /**
   * Check the line that is generated again.
   *
   * If the generation has failed, its previous audio is restored.
   */
  follow() {
    const { studio, script, maker } = this.room;
    const line = this.line && script.line(this.line.id);
    if (!line) return;
    const { state } = maker.state(line);
    if (state === 'made') this.line = null;
    if (state !== 'failed') return;
    this.line?.dismiss();
    this.restoreAudio();
    // The line itself shows the reason.
    studio.toasts.show(studio.t('script.not_remade', { n: script.indexOf(line.id) + 1 }));
  }

  /** Restore the previous audio of the line that is generated again. */
  restoreAudio() {
    const { line } = this;
    this.line = null;
    if (!line) return;
    line.back();
    this.room.recordTakes();
  }
}
