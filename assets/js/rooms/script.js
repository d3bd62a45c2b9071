/**
 * The Script room: several lines, each with a voice, read aloud one after another, and made into files.
 *
 * The parts lie in ../script: the script as a value (document.js), who speaks (casting.js), takes (making.js), reading
 * aloud (performance.js), the lines on the page (lines_view.js), saving (shelf.js), files (exporting.js). Here they meet.
 */

import { Casting } from '../script/casting.js';
import { newLine, Script } from '../script/document.js';
import { collectClips, exportClips, saveFile } from '../script/exporting.js';
import { seconds } from '../script/line_view.js';
import { LinesView } from '../script/lines_view.js';
import { Maker } from '../script/making.js';
import { readParts } from '../script/parts.js';
import { Performance } from '../script/performance.js';
import { readText } from '../script/reading.js';
import { Shelf } from '../script/shelf.js';
import { ShelfView } from '../script/shelf_view.js';
import { areSubtitles, subtitlesToText } from '../script/subtitles.js';
import { FieldError } from './fields.js';

const LONGEST_NAME = 40; // of a script that is named after its text

export class ScriptRoom {
  static id = 'script';
  id = 'script';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    const part = (name) => root.querySelector(`#vw-script-${name}`);
    this.parts = Object.fromEntries(
      ['add', 'file', 'gap', 'total', 'export', 'shape', 'format', 'loudness', 'go', 'progress', 'told', 'export-error', 'live']
        .map((name) => [name, part(name)]),
    );
    /** @type {Promise<void>|null} */
    this.begun = null;
    this.casting = new Casting(studio);
    this.maker = new Maker(studio, this.casting);
    this.lines = new LinesView(part('lines'), part('line'), this);
    this.shelf = new Shelf(studio.api);
    this.shelfView = new ShelfView(root, this);
    /** @type {Performance|null} */
    this.performance = null;
    this.listen();
  }

  listen() {
    const { parts, maker, shelf, studio } = this;
    shelf.addEventListener('open', () => this.open(shelf.script));
    maker.addEventListener('change', () => this.showSoon());
    maker.addEventListener('kept', () => this.file());
    studio.voices.addEventListener('change', () => this.script && this.lines.offer());
    studio.stage.addEventListener('change', () => this.followStage());
    parts.add.onclick = () => this.lines.add();
    parts.gap.onchange = () => parts.gap.reportValidity() && this.script.set({ gap: parts.gap.valueAsNumber || 0 });
    parts.file.onchange = () => this.importFile();
    parts.export.onsubmit = (event) => {
      event.preventDefault();
      this.exportScript();
    };
    parts.shape.onchange = () => {
      for (const field of [parts.format, parts.loudness]) field.disabled = parts.shape.value === 'srt';
    };
    this.root.addEventListener('input', () => this.forgetTold());
    /** @param {any} event */
    this.onScriptChange = ({ detail }) => (detail.lines ? this.arrange() : this.showSoon());
  }

  /** What can be spoken is known, or has changed. */
  offer() {
    this.begun ??= this.begin();
    if (!this.script) return;
    for (const line of this.script.lines) line.voice ??= this.casting.unused([]);
    this.lines.offer();
  }

  async begin() {
    const { id, unsaved } = this.studio.drafts.read(this.id) ?? {};
    const first = () => (unsaved ? new Script(unsaved) : this.sample(this.studio.presets.scripts[0]));
    try {
      await this.shelf.begin(first, (list) => list.find((one) => one.id === id) ?? (unsaved ? null : list[0]));
    } catch (error) {
      this.shelf.open(first());
      if (!error.missing) this.studio.toast(error.message);
    }
  }

  /** Which script is open; the whole of it where the studio may not have it. */
  draft() {
    const { script, state } = this.shelf;
    if (!script) return this.studio.drafts.read(this.id);
    return { id: script.id, unsaved: state === 'saved' ? null : script.toJSON() };
  }

  /** A script of presets/scripts.toml, with voices. @param {{name: string, text: string}} preset */
  sample({ name, text }) {
    const lines = readText(text, (word) => this.casting.named(word) !== null).map((line) => newLine(line));
    this.casting.assign(lines, []);
    return new Script({ name, lines });
  }

  /** A script with one empty line. */
  empty() {
    return new Script({ lines: [newLine({ voice: this.casting.unused([]) })] });
  }

  get script() {
    return this.shelf.script;
  }

  /** @param {Script} script */
  open(script) {
    this.opened?.removeEventListener('change', this.onScriptChange);
    this.opened = script;
    script.addEventListener('change', this.onScriptChange);
    if (this.performance) this.studio.stop();
    this.performance = null;
    this.forgetTold();
    this.parts.gap.value = script.gap;
    this.maker.open(script);
    this.lines.open(script);
    this.show();
  }

  /** @param {{voice?: string, text?: string, spokenBy?: Object}} [given] voice: of the library, for a new line; text: for a new script */
  async enter({ voice, text, spokenBy } = {}) {
    await this.begun;
    if (text) return this.write(text, spokenBy);
    if (!voice) return;
    this.lines.add();
    this.script.cast(this.script.lines.at(-1).id, { mode: 'base', voice });
  }

  /**
   * A new script of a text.
   *
   * @param {string} text
   * @param {{voice: import('../script/document.js').Voice, instruct: string}|null} spokenBy  who speaks what names nobody
   */
  async write(text, spokenBy) {
    const lines = readText(text, (word) => this.casting.named(word) !== null).map((line) => newLine(line));
    const nameless = lines.filter(({ name }) => !name);
    this.casting.assign(lines, []);
    if (spokenBy) for (const line of nameless) Object.assign(line, structuredClone(spokenBy));
    await this.shelf.flush().catch(() => {}); // what could not be saved says so itself
    this.shelf.open(new Script({ name: titleOf(text), lines }), 'unsaved');
    this.shelf.script.tell(true);
    this.studio.toast(this.studio.t('script.written', { n: lines.length }));
  }

  /** The page speaks another language. */
  onLanguage() {
    if (!this.script) return;
    this.lines.offer();
    this.show();
    this.shelfView.offerSamples();
    this.shelfView.show();
  }

  // --- reading aloud

  /** From the line that the cursor is in, or from the beginning. */
  async speak() {
    this.perform(this.lines.focused() ?? this.script.lines[0].id);
  }

  /** @param {string} id @param {{only?: boolean}} [options] */
  playFrom(id, options) {
    const { studio } = this;
    if (!studio.reached()) return;
    studio.stop();
    studio.stage.player.arm().catch(() => studio.complain('request', studio.t('shell.no_output')));
    try {
      this.perform(id, options);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      studio.complain(error.field, error);
    }
  }

  /** @param {string} id @param {{only?: boolean}} [options] @throws {FieldError} */
  perform(id, { only = false } = {}) {
    const { studio, script } = this;
    const at = script.at(id);
    const ids = script.lines.slice(at, only ? at + 1 : undefined).map((line) => line.id);
    this.check(ids);
    const performance = new Performance(this.maker, ids);
    this.performance = performance;
    const told = studio.stage.sequence(performance.items(), {
      onItem: (index) => performance === this.performance && this.lines.mark(performance.reach(index)),
    });
    told?.catch((error) => studio.toast(error.message));
  }

  /** Say what is wrong before anything sounds. @param {string[]} ids */
  check(ids) {
    const lines = ids.map((id) => this.script.line(id));
    const wrong = lines.find(({ text }) => readParts(text).fault);
    if (wrong) {
      this.lines.focus(wrong.id);
      throw new FieldError('request', this.studio.t('script.check_line', { n: this.script.at(wrong.id) + 1 }));
    }
    const mute = lines.find((line) => !line.voice && this.maker.plan(line).length);
    if (mute) throw new FieldError('request', this.studio.t('script.no_voice', { n: this.script.at(mute.id) + 1 }));
    if (!lines.some((line) => this.maker.plan(line).length)) {
      throw new FieldError('request', this.studio.t('shell.text_first'));
    }
  }

  /** Make one line again; the others stay. @param {string} id */
  remake(id) {
    const { studio, script, maker } = this;
    const line = script.line(id);
    const { seed, locked } = line;
    maker.forget(line);
    script.tell(false);
    this.playFrom(id, { only: true });
    if (locked) return;
    const back = () => {
      studio.stop();
      script.change(id, { seed });
    };
    studio.toast(studio.t('script.remade', { n: script.at(id) + 1 }), { action: studio.t('shell.undo'), onAction: back });
  }

  /** Everything was told to be silent; the stage may still play again what it has. */
  stop() {
    if (this.script) this.lines.mark(null);
  }

  followStage() {
    const { stage } = this.studio;
    if (!this.performance) return;
    const ours = stage.sounding && (!stage.take || this.performance.has(stage.take));
    if (!ours) this.lines.mark(null);
  }

  // --- what is shown and kept

  arrange() {
    this.lines.arrange();
    this.show();
  }

  showSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.lines.show();
      this.show();
    });
  }

  show() {
    const { t } = this.studio;
    const states = this.script.lines.map((line) => this.maker.state(line));
    const count = states.filter(({ state }) => state !== 'empty').length;
    const sum = states.reduce((total, state) => total + state.seconds, Math.max(0, count - 1) * this.script.gap);
    const whole = count > 0 && states.every(({ state }) => state === 'made' || state === 'empty');
    this.parts.total.textContent = whole ? t('script.total', { n: count, s: seconds(sum) }) : t('script.count', { n: count });
  }

  /** The studio has stored a take: the script shall know which. */
  file() {
    for (const line of this.script.lines) line.takes = this.maker.partsOf(line);
    this.script.tell(false);
  }

  /** Tell those who do not see. @param {string} sentence */
  tell(sentence) {
    this.parts.live.textContent = sentence;
  }

  /** What was said of the script as it was before. */
  forgetTold() {
    const { parts, studio } = this;
    parts['export-error'].textContent = '';
    if (!parts.go.disabled) parts.told.textContent = '';
    if (studio.current === this) studio.clearComplaints();
  }

  // --- files

  async importFile() {
    const [file] = this.parts.file.files;
    this.parts.file.value = '';
    if (!file) return;
    const text = await file.text();
    const read = readText(
      areSubtitles(text) ? subtitlesToText(text, this.script.gap) : text,
      (name) => this.casting.named(name) !== null,
    );
    if (read.length === 0) return this.studio.toast(this.studio.t('script.nothing_in', { name: file.name }));
    this.lines.take(read);
  }

  async exportScript() {
    const { parts, studio, script } = this;
    const { t } = studio;
    const told = (value, sentence) => {
      parts.progress.value = value;
      parts.told.textContent = sentence;
    };
    parts['export-error'].textContent = '';
    parts.go.disabled = true;
    parts.progress.hidden = false;
    try {
      this.check(script.lines.map(({ id }) => id));
      const clips = await collectClips(this.maker, (made, of) =>
        told(made / (of + 1), made < of ? t('script.making', { n: made + 1, of }) : t('script.joining')),
      );
      const loudness = parts.loudness.value ? Number(parts.loudness.value) : null;
      const wanted = { shape: parts.shape.value, format: parts.format.value, loudness };
      const { file, name } = await exportClips(studio.api, script, clips, wanted);
      saveFile(file, name);
      told(1, t('script.exported', { name }));
    } catch (error) {
      told(0, '');
      studio.complain(parts['export-error'], error);
    } finally {
      parts.go.disabled = false;
      parts.progress.hidden = true;
    }
  }

  /** Put a kept take's line at the end. @param {import('../take.js').Take} take */
  restore({ mode, text, config, seed }) {
    const { voice, language, instructions = '' } = config;
    const designed = mode === 'voice_design';
    const who = designed ? { mode, description: instructions, language } : { mode, voice, language };
    this.script.insert([newLine({ text, voice: who, instruct: designed ? '' : instructions, seed, locked: true })]);
    this.lines.focus(this.script.lines.at(-1).id);
  }
}

/** A script's name from its text. @param {string} text */
function titleOf(text) {
  const [first] = text.trim().split('\n');
  return first.length <= LONGEST_NAME ? first : `${first.slice(0, LONGEST_NAME).replace(/\s+\S*$/u, '')} …`;
}
