/**
 * Script room of the page: lines with voices, which are played in order and exported.
 *
 * The room connects the model (document.js), voices (voice_assignment.js), takes (making.js), full audio (full_audio.js,
 * schedule.js), timeline (timeline.js), lines (lines_view.js), storage (script_list.js) and export (export.js).
 */

import { errorOf } from '../common/api.js';
import { clock, SAMPLE_RATE } from '../common/audio.js';
import { getElement, throttle } from '../common/elements.js';
import { FieldError } from '../common/fields.js';
import { acceptFiles } from '../common/files.js';
import { isHeading, MAX_LINES, markChapters, newLine, Script } from './document.js';
import { ExportForm } from './export.js';
import { FullAudio } from './full_audio.js';
import { ACCEPTED } from './importing.js';
import { readParts, titleFromText } from './line_text.js';
import { LinesView } from './lines_view.js';
import { Maker, Regeneration } from './making.js';
import { readText } from './reading.js';
import { addressedScript, nameScript, ScriptList, ScriptListView } from './script_list.js';
import { Timeline } from './timeline.js';
import { TimelineGestures } from './timeline_hand.js';
import { VoiceAssignment } from './voice_assignment.js';

/**
 * @typedef {import('../app/studio.js').SpokenBy} SpokenBy
 */

// Maximum number of lines of a short script. In longer scripts, the timeline and the stored takes are updated only
// after a pause in editing and in generation.
const MAX_SHORT_LINES = 500;
const REST_MS = 400;

/** Script room of the page: lines with voices, which are played in order and exported. */
export class ScriptRoom {
  static id = 'script';
  id = 'script';

  /**
   * Create the Script room from its panel on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.parts = {
      add: getElement(root, '#vw-script-add'),
      file: getElement(root, '#vw-script-file', HTMLInputElement),
      gap: getElement(root, '#vw-script-gap', HTMLInputElement),
      total: getElement(root, '#vw-script-total'),
      words: getElement(root, '#vw-script-words'),
      live: getElement(root, '#vw-script-live'),
    };
    /** @type {Promise<void>|null} */
    this.beginning = null;
    /** Open script, or null. @type {Script|null} */
    this.opened = null;
    /** @type {(() => void)|null} */
    this.leaveScript = null;
    /** @type {number|undefined} */
    this.frame = undefined;
    /** Ids of the stored voices when they were last listed. @type {Set<string>} */
    this.knownVoices = new Set();
    this.voiceAssignment = new VoiceAssignment(studio);
    this.maker = new Maker(studio, this.voiceAssignment);
    this.regeneration = new Regeneration(this);
    this.lines = new LinesView(getElement(root, '#vw-script-lines'), getElement(root, '#vw-script-line', HTMLTemplateElement), this);
    this.exporting = new ExportForm(root, this);
    this.scriptList = new ScriptList(studio.api);
    this.scriptListView = new ScriptListView(root, this);
    this.fullAudio = new FullAudio(this.maker, {
      check: (ids) => this.check(ids),
      onError: (error) => this.onError(error),
      label: (fullAudio) => this.labelOf(fullAudio),
      download: (button) => this.openExport(button),
    });
    this.timeline = new Timeline(getElement(root, '#vw-script-timeline'), {
      nameOf: (line) => line.name || this.voiceAssignment.uniqueNameOf(line.voice),
      levels: (stretch) => this.maker.levels(stretch),
      onKey: (event) => this.onTimelineKey(event),
    });
    this.gestures = new TimelineGestures(this.timeline, {
      seek: (at) => this.seek(at),
      choose: (id) => this.lines.choose(id),
      move: (id, before) => this.onDragged(id, this.script.moveBefore(id, before)),
      gapOf: (id) => this.script.gapAfter(this.script.line(id) ?? {}),
      setGap: (id, seconds) => this.script.setGap(id, seconds),
      onGap: (id, before) => studio.undo.offer(() => this.script.setGap(id, before)),
    });
    root.inert = true; // The controls need an open script.
    this.listen();
  }

  listen() {
    const { parts, maker, scriptList, studio } = this;
    scriptList.addEventListener('open', () => scriptList.script && this.open(scriptList.script));
    scriptList.addEventListener('adopted', () => maker.readTakes());
    const soundSoon = throttle(() => this.showSoon());
    maker.addEventListener('change', () => {
      this.regeneration.follow();
      soundSoon();
    });
    const fileSoon = throttle(() => this.recordTakes(), REST_MS);
    maker.addEventListener('kept', () => (this.isLong ? fileSoon() : this.recordTakes()));
    studio.pronunciation.addEventListener('change', () => this.showSoon());
    studio.voices.addEventListener('change', () => this.opened && this.followVoices());
    studio.stage.addEventListener('change', () => this.followStage());
    studio.stage.addEventListener('place', () => this.followPlace());
    studio.stage.player.addEventListener('counters', () => this.opened && this.lines.markRange(this.playingRange()));
    this.fullAudio.addEventListener('state', () => {
      this.lines.mark(this.fullAudio.playingId);
      this.timeline.mark(this.fullAudio.playingId);
    });
    parts.add.onclick = () => this.lines.add();
    parts.gap.onchange = () => parts.gap.reportValidity() && this.script.set({ gap: parts.gap.valueAsNumber || 0 });
    parts.file.accept = ACCEPTED;
    acceptFiles(parts.file, ([file]) => this.importFile(file), this.root);
    getElement(this.root, '#vw-script-web').onclick = async () => this.use(await this.studio.importer.readAddress());
    this.root.addEventListener('input', () => this.clearMessages());
  }

  /** Update the room after a change of the loaded checkpoints or the voices. */
  offer() {
    this.beginning ??= this.begin();
    if (!this.opened) return;
    for (const line of this.script.lines) line.voice ??= this.voiceAssignment.unused([]);
    this.lines.refreshVoices();
    const lost = this.maker.back();
    if (lost) this.studio.interruptedRequests.propose(() => this.playFrom(lost.id));
  }

  async begin() {
    /** @type {Partial<ReturnType<ScriptRoom['savedState']>>} */
    const { id, unsaved } = this.studio.drafts.read(this.id) ?? {};
    const wanted = addressedScript();
    const own = wanted && unsaved?.id !== wanted ? null : unsaved;
    const first = () => (own ? new Script(own) : this.sample(this.studio.presets.scripts[0]));
    const known = (/** @type {{id: string}[]} */ list, /** @type {string|null|undefined} */ which) => list.find((one) => one.id === which);
    try {
      await this.scriptList.begin(first, (list) => known(list, wanted ?? id) ?? (own ? null : (known(list, id) ?? list[0])));
      if (wanted && wanted !== this.script.id) this.studio.toasts.show(this.studio.t('script.not_here'));
    } catch (thrown) {
      const error = errorOf(thrown);
      this.scriptList.open(first());
      if (!error.missing) this.studio.toasts.show(error.message);
    }
  }

  draft() {
    return this.opened ? this.savedState() : this.studio.drafts.read(this.id);
  }

  /**
   * Return the id of the open script.
   *
   * If the studio has not stored the script, its content is returned too.
   */
  savedState() {
    const { script } = this;
    return { id: script.id, unsaved: script.updatedAt ? null : script.toJSON() };
  }

  /**
   * Return a new script from a sample text, with a voice for each role.
   *
   * @param {{name: string, text: string}} preset
   */
  sample({ name, text }) {
    const lines = this.read(text).lines.map((line) => newLine(line));
    this.voiceAssignment.assign(lines, []);
    return new Script({ name, lines });
  }

  /** Return a new script with one empty line. */
  empty() {
    return new Script({ lines: [newLine({ voice: this.voiceAssignment.unused([]) })] });
  }

  /** Script that is open in the room. @throws {Error} if no script is open yet */
  get script() {
    if (this.scriptList.script) return this.scriptList.script;
    throw new Error('No script is open yet');
  }

  /** Show another script in the room. @param {Script} script */
  open(script) {
    const isNext = this.scriptList.list.some(({ id }) => id === this.opened?.id);
    if (this.studio.current === this && script.id !== this.opened?.id) this.studio.scroller.scrollTop = 0;
    this.leaveScript?.();
    this.opened = script;
    this.root.inert = false;
    this.regeneration.line = null;
    this.voiceAssignment.recordNames(script.lines);
    this.leaveScript = script.on('change', ({ lines }) => {
      this.voiceAssignment.recordNames(script.lines);
      if (lines) this.arrange();
      else this.showSoon();
    });
    const { stage } = this.studio;
    const isShown = stage.take === this.fullAudio || this.studio.lastTake.wasShown(script.id);
    if (stage.take === this.fullAudio) this.studio.stop();
    // Undo would change the previous script.
    if (this.studio.current === this) this.studio.undo.forget();
    this.clearMessages();
    this.parts.gap.value = String(script.gap);
    this.maker.open(script);
    this.lines.open(script);
    this.show();
    if (isShown) stage.show(this.fullAudio);
    nameScript(script.id, isNext);
  }

  /**
   * Open the room, optionally with a new script, a stored script, or a line to play.
   *
   * @param {import('../app/studio.js').RoomOptions} [given] script: id of the script to open; voice: stored voice for a new line;
   * text: text of a new script with `title`; isPlayed: true to play the script; line: id of the line to play from
   */
  async enter({ voice, text, lines, title, spokenBy = null, isPlayed = false, line, script = addressedScript() ?? undefined, ...document } = {}) {
    await this.beginning;
    if (text) {
      const isWritten = await this.createScript(lines ? { lines, leftOut: 0 } : this.read(text), spokenBy, title ?? titleFromText(text), document);
      if (isWritten && isPlayed) this.playFrom(this.script.lines[0].id);
      return;
    }
    if (!this.opened) return;
    if (script && script !== this.script.id) await this.openIfExists(script);
    nameScript(this.script.id, false);
    if (line && script === this.script.id) this.playFrom((this.script.line(line) ?? this.script.lines[0]).id);
    if (!voice) return;
    this.lines.add();
    const last = this.script.lines.at(-1);
    if (last) this.script.assignVoice(last.id, { mode: 'base', voice });
  }

  /** Report changes of other tabs and devices. @param {import('../app/studio.js').IsChanged} isChanged */
  catchUp(isChanged) {
    if (isChanged('scripts')) this.scriptList.checkOther();
  }

  /**
   * Delete a script.
   *
   * If it is the open script, another script is opened.
   *
   * @param {string} id @returns {Promise<() => Promise<void>>} function that undoes the deletion
   */
  discard(id) {
    return id === this.opened?.id ? this.scriptList.remove(() => this.empty()) : this.scriptList.discard(id);
  }

  /** Return the number of scripts with lines that use a stored voice. @param {string} voice id of the voice */
  async scriptCountOf(voice) {
    const speaks = (/** @type {Pick<import('../library/saved_scripts.js').ScriptSummary, 'voices'>} */ { voices = [] }) =>
      voices.some((one) => one.mode === 'base' && one.voice === voice);
    const { scripts } = await this.studio.api.get('studio/scripts');
    const others = scripts.filter((/** @type {import('../library/saved_scripts.js').ScriptSummary} */ one) => one.id !== this.opened?.id && speaks(one));
    return others.length + Number(this.opened !== null && speaks(this.opened));
  }

  /** Update the room after a change of the stored voices. */
  followVoices() {
    const { voiceAssignment, script, studio } = this;
    voiceAssignment.recordNames(script.lines);
    const went = script.lines.some(({ voice }) => voice?.voice && voiceAssignment.isDeleted(voice) && this.knownVoices.has(voice.voice));
    this.knownVoices = new Set(studio.voices.list.map(({ id }) => id));
    if (went) script.notify(false); // Save the script, because it contains the names of its voices.
    this.lines.refreshVoices();
    this.maker.forgetDeleted();
    this.showSoon();
  }

  /** Open a stored script, or show a message if it does not exist. @param {string} id */
  async openIfExists(id) {
    try {
      await this.scriptList.load(id);
    } catch (thrown) {
      const error = errorOf(thrown);
      this.studio.toasts.show(error.status === 404 ? this.studio.t('script.not_here') : error.message);
    }
  }

  /** Return true if a script may have this number of lines, otherwise show an error. @param {number} lines */
  hasRoom(lines) {
    if (lines <= MAX_LINES) return true;
    this.studio.toasts.show(this.studio.t('script.too_long', { n: lines, most: MAX_LINES }));
    return false;
  }

  /**
   * Parse a text as lines of speakers.
   *
   * The names of voices, and of the roles of `lines`, are names of speakers.
   *
   * @param {string} text @param {import('./document.js').Line[]} [lines]
   */
  read(text, lines = []) {
    const roles = new Set(lines.map(({ name }) => name?.toLowerCase()));
    return readText(text, (word) => roles.has(word.toLowerCase()) || this.voiceAssignment.findVoice(word) !== null);
  }

  /**
   * Create a script from parsed lines and open it.
   *
   * If the open script has the same lines, it stays open.
   *
   * @param {import('./reading.js').ParsedText} read
   * @param {SpokenBy|null} spokenBy  voice for lines without a name @param {string} title
   * @param {Pick<import('./importing.js').ImportedText, 'chapters'|'book'>} [document] the imported document
   * @returns {Promise<boolean>} false if there are too many lines
   */
  async createScript({ lines: read, leftOut }, spokenBy, title, { chapters = [], book } = {}) {
    if (!this.hasRoom(read.length)) return false;
    const lines = read.map((line) => newLine(line));
    if (chapters.length > 1) markChapters(lines, chapters);
    for (const line of lines) if (isHeading(line)) line.name = null; // The narrator reads headings.
    const nameless = lines.filter(({ name }) => !name);
    this.voiceAssignment.assign(lines, []);
    if (spokenBy) for (const line of nameless) Object.assign(line, structuredClone(spokenBy));
    const requests = (/** @type {import('./document.js').Line[]} */ all) => JSON.stringify(all.map(({ name, text, voice, instruct }) => [name, text, voice?.voice, instruct]));
    if (this.opened && requests(lines) === requests(this.opened.lines)) {
      nameScript(this.opened.id, false);
      return true;
    }
    await this.scriptList.flush().catch(() => {}); // The list of scripts shows an error of saving.
    const script = new Script({ name: title, lines, ...book });
    this.scriptList.open(script, 'unsaved');
    script.notify(true);
    this.studio.toasts.show(this.summary('script.written', lines, leftOut));
    return true;
  }

  /**
   * Return a message about the result of an import.
   *
   * @param {string} key message key
   * @param {import('./document.js').Line[]} lines imported lines
   * @param {number} leftOut number of skipped chat messages
   */
  summary(key, lines, leftOut) {
    const { t } = this.studio;
    const heading = lines.find(isHeading);
    const isApart = heading && lines.some(({ voice }) => JSON.stringify(voice) !== JSON.stringify(heading.voice));
    const narrator = isApart && t('script.headings', { name: this.voiceAssignment.nameOf(heading.voice) });
    return [t(key, { n: lines.length }), narrator, leftOut > 0 && t('script.left_out_of_chat', { n: leftOut })].filter(Boolean).join(' ');
  }

  /** Update the texts of the room after a change of the page's language. */
  onLanguage() {
    if (!this.opened) return;
    this.lines.refreshVoices();
    this.show();
    this.scriptListView.offerSamples();
    this.scriptListView.show();
  }

  // --- Playback

  /** Script and line that are playing, with their name and number, or null. */
  get reading() {
    const { playingId: line } = this.fullAudio;
    if (!line) return null;
    const name = this.scriptListView.nameOf(this.script);
    return { script: this.script.id, line, name, n: String(this.script.indexOf(line) + 1) };
  }

  /** Play the script from the line that has the focus, or else from the first line. */
  async speak() {
    const [first] = this.script.lines;
    this.perform(this.lines.focused() ?? first.id);
  }

  /**
   * Stop other playback, and play the script from a line or show an error.
   *
   * @param {string} id @param {{only?: boolean}} [options] only: stop after this line
   */
  playFrom(id, options) {
    const { studio } = this;
    if (!studio.isReachable()) return;
    studio.stop();
    studio.stage.player.start().catch(() => studio.errorMessages.showMessage('request', studio.t('shell.no_output')));
    studio.errorMessages.guard(() => this.perform(id, options));
  }

  /**
   * Play the script from a line.
   *
   * @param {string} id
   * @param {{only?: boolean}} [options]
   * @throws {FieldError} if a line cannot be spoken
   */
  perform(id, { only = false } = {}) {
    const { studio, script, fullAudio } = this;
    studio.interruptedRequests.forget();
    const at = script.indexOf(id);
    this.check(script.lines.slice(at, only ? at + 1 : undefined).map((line) => line.id));
    fullAudio.updateClips();
    studio.stage.playScript(fullAudio, fullAudio.clipFrom(id)?.start, { only });
  }

  /** Show an error that occurred during playback. @param {Error} error */
  onError(error) {
    if (error instanceof FieldError) this.studio.errorMessages.showMessage(error.field, error, this.id);
    else this.studio.toasts.show(error.message);
  }

  /** Return the caption for the player: the line that is playing, or the script's name. @param {FullAudio} audio */
  labelOf({ playingId }) {
    const { script, studio, voiceAssignment } = this;
    const line = playingId && script.line(playingId);
    if (!line) return this.scriptListView.nameOf(script);
    const name = line.name || voiceAssignment.uniqueNameOf(line.voice);
    const text = readParts(line.text).parts.map((part) => part.text ?? '').join(' ').trim();
    return studio.t('script.sounding', { n: script.indexOf(line.id) + 1, of: script.lines.length, name, text });
  }

  /**
   * Move the playback position in the audio of the script.
   *
   * If the script is playing, playback continues there.
   *
   * @param {number} at position in samples
   */
  seek(at) {
    this.showInPlayer();
    this.studio.stage.seek(at);
  }

  /** Show the script in the player, and let the player handle the key. @param {KeyboardEvent} event */
  onTimelineKey(event) {
    this.showInPlayer();
    this.studio.stage.onKey(event);
  }

  /** Show the audio of the script in the player. */
  showInPlayer() {
    const { stage } = this.studio;
    if (stage.take !== this.fullAudio) stage.show(this.fullAudio);
  }

  /**
   * Throw an error for the first line that cannot be spoken.
   *
   * Playback may start before a line that is unmade and whose voice was deleted. It ends at this line.
   *
   * @param {string[]} ids @param {boolean} [isPlayed] false if the audio of all lines is needed
   */
  check(ids, isPlayed = true) {
    const wanted = new Set(ids);
    const lines = this.script.lines.filter(({ id }) => wanted.has(id));
    const wrong = lines.find(({ text }) => readParts(text).fault);
    if (wrong) {
      this.lines.focus(wrong.id);
      throw new FieldError('request', this.studio.t('script.check_line', { n: this.script.indexOf(wrong.id) + 1 }));
    }
    const mute = lines.find((line) => !line.voice && this.maker.segmentsOf(line).length);
    if (mute) throw new FieldError('request', this.studio.t('script.no_voice', { n: this.script.indexOf(mute.id) + 1 }));
    const deleted = (isPlayed ? lines.slice(0, 1) : lines).find((line) => this.maker.isLost(line));
    if (deleted) throw this.maker.deletedVoiceError(deleted);
    if (!lines.some((line) => this.maker.segmentsOf(line).length)) {
      throw new FieldError('request', this.studio.t('shell.text_first'));
    }
  }

  /**
   * Mark no line as playing, and restore a line that is being generated again.
   *
   * This is called when the page stops all playback and generation.
   */
  stop() {
    this.fullAudio.setPlaying(null);
    this.regeneration.restoreAudio();
  }

  followStage() {
    const { stage } = this.studio;
    if (!stage.isPlaying || stage.take !== this.fullAudio) {
      this.fullAudio.setPlaying(null);
      this.lines.markRange(null);
    }
    this.followPlace();
  }

  followPlace() {
    const { stage } = this.studio;
    const isShown = stage.take === this.fullAudio;
    this.timeline.follow(isShown ? stage.at : null);
    if (isShown && stage.isPlaying) this.timeline.scrollToTime(stage.at);
  }

  /**
   * Return the character range of the sentence that is spoken in the playing line.
   *
   * The result is null in a pause, or if the line has changed.
   */
  playingRange() {
    const { fullAudio, studio } = this;
    const { clips, playingId, take } = fullAudio;
    const clip = clips.find(({ line }) => line.id === playingId);
    if (!clip || !take || !studio.stage.isPlaying) return null;
    const { text } = clip.line;
    const { parts } = readParts(text);
    const at = clip.parts.findLastIndex(({ start }) => start <= studio.stage.at);
    let from = 0;
    for (const { text: before } of parts.slice(0, at)) if (before) from = Math.max(from, text.indexOf(before, from) + before.length);
    const own = parts[at]?.text ?? '';
    from = text.indexOf(own, from);
    if (!own || from < 0 || clip.parts[at].text !== take.text) return null;
    const sentence = studio.sentenceHighlight.rangeAt(take, (studio.stage.at - clip.parts[at].start) / SAMPLE_RATE);
    // Length of the style tag that is repeated before this segment.
    const style = take.text.length - own.length;
    const range = { from: from + Math.max(0, sentence.from - style), to: from + sentence.to - style };
    return { ...range, to: range.from + text.slice(range.from, range.to).trimEnd().length };
  }

  // --- Rendering and saving

  arrange() {
    this.isRearranged = true;
    this.lines.arrange();
    this.showAll();
  }

  showSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.lines.show();
      this.showAll();
    });
  }

  get isLong() {
    return this.script.lines.length > MAX_SHORT_LINES;
  }

  /**
   * Update everything that depends on the audio of the script.
   *
   * In a long script, this is delayed until a pause in editing, and in generation unless lines were added, moved or removed.
   */
  showAll() {
    clearTimeout(this.layoutTimer);
    if (!this.isLong) this.show();
    else this.layoutTimer = setTimeout(() => (this.maker.isGenerating && !this.isRearranged ? this.showAll() : this.show()), REST_MS);
  }

  show() {
    const { fullAudio, studio } = this;
    this.isRearranged = false;
    fullAudio.updateClips();
    this.script.seconds = fullAudio.seconds;
    this.timeline.show(fullAudio.clips);
    this.timeline.choose(this.lines.chosen);
    this.followPlace();
    this.parts.total.textContent = this.line();
    const count = this.script.lines.reduce((sum, line) => sum + this.maker.read(line).replaced, 0);
    this.parts.words.textContent = studio.facts.pronunciationLabel(count);
    studio.dock.showText();
  }

  /** Return a text with the number of lines, the length, and the number of missing lines. */
  line() {
    if (!this.opened) return '';
    const { clips, samples } = this.fullAudio;
    const left = clips.filter(({ state }) => state !== 'made').length;
    // Count only lines with text, as the message about an import does.
    const written = this.script.lines.filter(({ text }) => text.trim()).length;
    return this.studio.t(left ? 'script.count' : 'script.total', { n: written, s: clock(samples), left });
  }

  /** Return the request of the line that was focused last, or of the first line. */
  presentRequest() {
    const { opened, lines, voiceAssignment } = this;
    const line = opened?.line(lines.chosen ?? '') ?? opened?.lines.find(({ text }) => text.trim());
    return line?.voice ? { ...voiceAssignment.request(line), text: line.text } : null;
  }

  /** Write the ids of the stored takes into the lines, so that the script is saved. */
  recordTakes() {
    for (const line of this.script.lines) line.takes = this.maker.partsOf(line);
    this.script.notify(false);
  }

  /**
   * Announce the new position of a line that was dragged, and offer undo.
   *
   * @param {string} id @param {(() => void)|null} undo function that undoes the move, or null if the line has not moved
   */
  onDragged(id, undo) {
    const sentence = this.studio.t('script.moved', { n: this.script.indexOf(id) + 1 });
    if (undo) this.studio.undo.offer(undo, sentence);
    this.announce(sentence);
  }

  /** Announce a message to screen readers. @param {string} sentence */
  announce(sentence) {
    this.parts.live.textContent = sentence;
  }

  /** Clear the errors and the messages of an earlier export. */
  clearMessages() {
    this.exporting.clearMessages();
    if (this.studio.current === this) this.studio.errorMessages.clear();
  }

  // --- Files

  /** Show the room, and open its export form. @param {HTMLElement} button button that was pressed */
  openExport(button) {
    this.studio.go(this.id);
    this.exporting.show(button);
  }

  /** Import a file into this script, or a document as a new script. @param {File} [file] */
  async importFile(file) {
    this.use(await this.studio.importer.readFile(file, this.script.gap));
  }

  /**
   * Insert an imported text into this script, or create a new script from it.
   *
   * A document or several chapters always become a new script. Subtitles do so if the open script is an unchanged sample.
   *
   * @param {import('./importing.js').ImportedText|null} imported
   */
  async use(imported) {
    if (!imported) return;
    const read = imported.lines ? { lines: imported.lines, leftOut: 0 } : this.read(imported.text);
    const isScript = imported.isDocument || (imported.lines && this.scriptList.state === 'new');
    if (isScript) await this.createScript(read, null, imported.title, imported);
    else this.lines.insertParsed({ ...read, title: imported.title });
  }

  /**
   * Add a new line with the request of a stored take at the end of the script.
   *
   * @param {import('../app/studio.js').RestoredTake} take
   * @returns {import('../app/studio.js').UndoFunction}
   */
  restore({ mode, text, config, seed }) {
    const { voice, language, instructions = '' } = config;
    const designed = mode === 'voice_design';
    // Search by name, because a stored voice with a style has the mode `custom_voice` instead of `base`.
    const known = designed || !voice ? null : this.studio.catalogue.findByName(voice);
    const who = designed ? { mode, description: instructions, language } : { mode: known?.mode ?? mode, voice, language };
    const line = newLine({ text, voice: who, instruct: designed ? '' : instructions, seed, locked: true });
    const back = this.script.insert([line]);
    this.lines.focus(line.id);
    return back;
  }
}
