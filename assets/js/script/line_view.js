/**
 * View of one line of a script: voice, text and controls.
 *
 * The view reports user actions to `list`, the view of all lines (lines_view.js).
 *
 * @typedef {import('./document.js').Line} Line
 * @typedef {import('./document.js').Voice} Voice
 */

import { getElements, createElement, getElement, writeText } from '../common/elements.js';
import { fillLanguages } from '../common/fields.js';
import { tagsOf } from '../common/text.js';
import { reveal } from '../speak/sounding_text.js';
import { showVoice } from '../speak/voice_picker.js';
import { isHeading } from './document.js';
import { MAX_PAUSE_S, paceOf, readParts, withPace } from './line_text.js';
import { valueOf } from './voice_assignment.js';

/** Elements that have their own accessible names. */
const NAMED = /** @type {const} */ (['grip', 'description', 'instruct', 'text', 'language', 'seed', 'gap', 'play', 'remake', 'open', 'copy', 'up', 'down', 'remove']);

/** View of one line of a script: voice, text and controls. */
export class LineView {
  /**
   * Create the view of a line from a template.
   *
   * @param {Line} line @param {import('./lines_view.js').LinesView} list @param {HTMLTemplateElement} template
   */
  constructor(line, list, template) {
    this.line = line;
    this.list = list;
    this.element = list.studio.words.copyOf(template);
    this.element.dataset.line = line.id;
    this.parts = partsOf(this.element);
    this.offeredKey = ''; // Key of the voice that the button shows.
    this.shown = ''; // Values that the element shows, except those in its fields.
    /** Range of the text that is spoken now, or null. @type {import('../speak/sounding_text.js').TextRange|null} */
    this.range = null;
    this.listen();
  }

  listen() {
    const { line, list, parts } = this;
    const change = (/** @type {Partial<Line>} */ values) => list.script.change(line.id, values);
    parts.text.oninput = (event) => {
      change({ text: parts.text.value });
      const { inputType, isComposing } = /** @type {InputEvent} */ (event);
      if (!isComposing && !inputType?.startsWith('delete')) list.onTyped(this);
    };
    parts.text.addEventListener('compositionend', () => list.onTyped(this));
    parts.text.onscroll = () => (parts.paper.scrollTop = parts.text.scrollTop);
    parts.text.onkeydown = (event) => list.onTextKey(event, this);
    parts.text.onpaste = (event) => list.onPaste(event, this);
    parts.instruct.oninput = () => change({ instruct: parts.instruct.value });
    parts.description.oninput = () => this.changeVoice({ description: parts.description.value });
    for (const button of [parts.role, parts.voice, parts.recast]) {
      list.studio.voicePopover.attach(button, {
        chosen: () => (line.voice ? valueOf(line.voice) : ''),
        choose: (choice) => this.choose(choice),
        describe: () => this.describe(),
        speakers: () => list.otherSpeakers(line),
      });
    }
    parts.pace.onclick = ({ target }) => {
      const pace = parts.paces.find((button) => target instanceof Node && button.contains(target))?.dataset.pace;
      if (pace) change({ instruct: withPace(line.instruct, pace, this.paces()) });
    };
    parts.language.onchange = () => this.changeVoice({ language: parts.language.value });
    parts.seed.onchange = () => change(this.readSeed());
    parts.gap.onchange = () => parts.gap.reportValidity() && list.script.setGap(line.id, parts.gap.value === '' ? null : parts.gap.valueAsNumber);
    parts.lock.onchange = () => change({ locked: parts.lock.checked });
    parts.play.onclick = () => list.room.playFrom(line.id);
    parts.remake.onclick = () => list.room.regeneration.begin(line.id);
    parts.open.onclick = () => this.unfold(parts.more.hidden);
    parts.copy.onclick = () => list.duplicate(line.id);
    parts.up.onclick = () => list.move(line.id, -1, parts.up);
    parts.down.onclick = () => list.move(line.id, 1, parts.down);
    parts.remove.onclick = () => list.remove(line.id);
    this.element.onkeydown = (event) => list.onLineKey(event, this);
  }

  /** Use a voice or a speaker from the voice picker. @param {import('../speak/voices.js').Choice} choice */
  choose(choice) {
    const { mode, voice, speaker } = choice;
    if (speaker) return this.list.assignSpeaker(this.line, speaker);
    this.replaceVoice({ mode, voice, name: mode === 'base' ? choice.name : undefined, language: this.line.voice?.language });
    this.list.studio.catalogue.remember(choice);
    this.list.show();
  }

  /** Assign a new voice to this line, which the user then describes in words. */
  describe() {
    this.replaceVoice({ mode: 'voice_design', description: '', language: this.line.voice?.language });
    this.list.show();
    this.parts.description.focus();
  }

  /** Assign a voice, and offer undo if other lines or finished audio are affected. @param {Voice} voice */
  replaceVoice(voice) {
    const { id } = this.line;
    const { maker, room, script, studio } = this.list;
    const lines = script.linesOfRole(id);
    const made = lines.filter((line) => maker.state(line).state === 'made').length;
    const back = script.assignVoice(id, voice);
    const undo = () => {
      back();
      room.recordTakes();
    };
    if (made || lines.length > 1) studio.undo.offer(undo, studio.t(made ? 'script.recast_made' : 'script.recast_lines', { n: lines.length, made }));
  }

  /** Return the words of a style for each pace, in the page's language. */
  paces() {
    const { t } = this.list.studio;
    return { slow: t('script.pace.slow_words'), fast: t('script.pace.fast_words') };
  }

  /** Change properties of the line's voice. @param {Partial<Voice>} values */
  changeVoice(values) {
    if (this.line.voice) this.list.script.assignVoice(this.line.id, { ...this.line.voice, ...values });
  }

  /**
   * Return the seed that the user has entered, and true for `locked`.
   *
   * If the field is empty, the seed is null (random). If the seed is invalid, the result is empty.
   *
   * @returns {Partial<Line>}
   */
  readSeed() {
    const { seed } = this.parts;
    if (seed.value === '') return { seed: null, locked: false };
    if (!seed.reportValidity()) return {};
    return { seed: seed.valueAsNumber, locked: true };
  }

  /** Show or hide the additional controls of the line. @param {boolean} open */
  unfold(open) {
    this.parts.more.hidden = !open;
    this.parts.open.ariaExpanded = String(open);
    if (open) this.listTakes();
  }

  /** Show a button for each stored take of the line, if there are several. */
  async listTakes() {
    const { line, list } = this;
    const { takes: place } = this.parts;
    const { t } = list.studio;
    const takes = await list.maker.takesOf(line).catch(() => []); // If the store is unavailable, no take is offered.
    place.hidden = takes.length < 2;
    const offered = [list.studio.words.language, ...takes.map(({ seed }) => seed)].join();
    if (place.dataset.offered !== offered) {
      const chips = takes.map((take, index) => {
        const s = take.records.reduce((sum, { seconds: length }) => sum + length, 0).toFixed(1);
        return createElement('button', { type: 'button', value: String(take.seed), textContent: t('script.take', { n: index + 1, s }), onclick: () => list.chooseTake(line, take) });
      });
      place.replaceChildren(createElement('span', { textContent: t('script.takes'), ariaHidden: 'true' }), ...chips);
      place.dataset.offered = offered;
    }
    for (const chip of getElements(place, 'button', HTMLButtonElement)) chip.ariaPressed = String(chip.value === String(line.seed));
  }

  /** Show the voice of the line again after a change of the available voices. */
  offer() {
    const { parts, line, list } = this;
    const { t } = list.studio;
    this.offeredKey = line.voice ? valueOf(line.voice) : '';
    this.shown = '';
    showVoice(parts.voice, list.voiceAssignment.displayOf(line.voice));
    parts.voice.dataset.voice = this.offeredKey;
    const card = line.voice && list.studio.cards.get(line.voice.mode);
    if (card) fillLanguages(parts.language, card, t);
  }

  /**
   * Show the current content and state of the line.
   *
   * @param {{index: number, count: number, sounding: boolean}} place count: number of lines; sounding: true if the line is playing
   */
  show({ index, count, sounding }) {
    const { parts, line, list, element } = this;
    const { t } = list.studio;
    const n = index + 1;
    const { voice } = line;
    const state = list.maker.state(line);
    this.write(parts.text, line.text);
    this.write(parts.instruct, line.instruct);
    if (parts.gap !== document.activeElement) this.write(parts.gap, line.gap === undefined ? '' : String(line.gap));
    this.write(parts.description, voice?.description ?? '');
    this.write(parts.seed, line.seed === null ? '' : String(line.seed));
    if ((voice ? valueOf(voice) : '') !== this.offeredKey) this.offer();
    writeText(parts.length, state.state === 'made' || state.state === 'coming' ? seconds(state.seconds) : '');
    const values = { ...line, takes: parts.more.hidden ? 0 : line.takes.map(({ take }) => take), ...state, seconds: 0, error: state.error?.message, short: Boolean(state.short) };
    const shown = JSON.stringify([index, count, sounding, list.script.gap, values]);
    if (shown === this.shown) return; // Each write costs style and layout, so skip a line that has not changed.
    this.shown = shown;
    if (!parts.more.hidden) this.listTakes();
    const { fault } = readParts(line.text);
    element.dataset.state = state.state;
    element.toggleAttribute('data-sounding', sounding);
    element.ariaCurrent = String(sounding);
    parts.gap.placeholder = String(list.script.gap);
    parts.language.value = voice?.language ?? 'auto';
    parts.lock.checked = line.locked;
    parts.number.textContent = String(n);
    parts.chapter.hidden = !line.chapter;
    parts.chapter.textContent = line.chapter ?? '';
    // The title is not repeated, but is still a heading for screen readers.
    parts.chapter.classList.toggle('vw-offscreen', isHeading(line));
    parts.role.textContent = line.name ?? '';
    parts.describing.hidden = voice?.mode !== 'voice_design';
    parts.instruct.disabled = !list.voiceAssignment.takesInstruct(voice);
    this.showPace(parts.instruct.disabled);
    const name = list.voiceAssignment.nameOf(voice);
    parts.instruct.title = voice?.mode === 'base' && !parts.instruct.disabled ? t('speakers.styled', { name }) : '';
    const none = voice?.mode === 'base' ? 'script.no_instruct' : 'script.no_instruct_model';
    parts.instruct.placeholder = t(parts.instruct.disabled ? none : 'script.instruct_hint', { name });
    parts.instructing.dataset.grow = line.instruct || (parts.instruct.disabled ? parts.instruct.placeholder : '');
    parts.error.textContent = fault ? t('script.fault', { fault, most: MAX_PAUSE_S }) : (state.error?.message ?? this.note(state));
    parts.recast.hidden = !list.voiceAssignment.isDeleted(voice);
    this.paint();
    parts.play.disabled = parts.remake.disabled = state.state === 'empty';
    parts.up.disabled = index === 0;
    parts.down.disabled = n === count;
    parts.said.textContent = parts.state.title = t(`script.state.${sounding ? 'sounding' : state.state}`);
    parts.voice.ariaLabel = t('script.line.voice', { n, name });
    parts.pace.ariaLabel = t('script.line.pace', { n });
    parts.takes.ariaLabel = t('script.line.takes', { n });
    for (const name of NAMED) {
      parts[name].ariaLabel = t(`script.line.${name}`, { n });
    }
    element.ariaLabel = t('script.line.label', { n });
  }

  /** Highlight the part of the text that is spoken now, and scroll to it. @param {LineView['range']} range */
  mark(range) {
    if (range?.from === this.range?.from && range?.to === this.range?.to) return;
    this.range = range;
    this.paint();
    const spoken = this.parts.paper.querySelector('.vw-sounding');
    if (spoken instanceof HTMLElement) reveal(this.parts.text, spoken);
  }

  paint() {
    const { text } = this.line;
    const { from, to } = this.range ?? { from: 0, to: 0 };
    const spoken = createElement('mark', { className: 'vw-sounding' });
    spoken.append(...marked(text.slice(from, to)));
    this.parts.paper.replaceChildren(...marked(text.slice(0, from)), ...(this.range ? [spoken] : []), ...marked(`${text.slice(to)}\n`));
  }

  /**
   * Show the pace that the style of the line contains.
   *
   * The buttons are disabled if the voice does not support styles.
   *
   * @param {boolean} isOwn true if the voice does not support styles
   */
  showPace(isOwn) {
    const pace = paceOf(this.line.instruct, this.paces());
    for (const button of this.parts.paces) {
      button.disabled = isOwn;
      button.ariaPressed = String(button.dataset.pace === pace);
    }
    this.parts.pace.title = isOwn ? this.list.studio.t('script.pace.own') : '';
  }

  /** Return a warning about a line that can be spoken, or ''. @param {import('./making.js').LineState} state */
  note({ short, state }) {
    const { list, line } = this;
    if (short) return list.studio.speech.shortness(short);
    if (list.voiceAssignment.isDeleted(line.voice)) return list.studio.t(state === 'made' ? 'script.voice_deleted_here' : 'script.voice_deleted_unmade');
    const isLeftOut = line.voice && line.instruct.trim() && !list.voiceAssignment.takesInstruct(line.voice);
    return isLeftOut ? list.studio.t('script.left_out', { instruct: line.instruct.trim() }) : '';
  }

  /**
   * Set the value of a field only if it differs, because a new value moves the caret.
   *
   * @param {HTMLInputElement|HTMLTextAreaElement} field
   * @param {string} value
   */
  write(field, value) {
    if (field.value !== value) field.value = value;
    const mirror = field.parentElement?.dataset ?? {};
    if ('grow' in mirror && mirror.grow !== value) mirror.grow = value;
  }
}

/** Return the controls of a line's element by name. @param {HTMLElement} element */
function partsOf(element) {
  const part = (/** @type {string} */ name) => getElement(element, `.vw-line-${name}`);
  /** @template {HTMLElement} E @param {string} name @param {new () => E} kind */
  const control = (name, kind) => getElement(element, `.vw-line-${name}`, kind);
  return {
    grip: part('grip'),
    number: part('grip > span'),
    role: control('role', HTMLButtonElement),
    voice: control('voice', HTMLButtonElement),
    describing: getElement(element, '.vw-grow:has(> .vw-line-description)'),
    description: control('description', HTMLTextAreaElement),
    instructing: getElement(element, '.vw-grow:has(> .vw-line-instruct)'),
    instruct: control('instruct', HTMLTextAreaElement),
    text: control('text', HTMLTextAreaElement),
    paper: part('paper'),
    error: part('error'),
    chapter: part('chapter'),
    recast: control('recast', HTMLButtonElement),
    more: part('more'),
    language: control('language', HTMLSelectElement),
    seed: control('seed', HTMLInputElement),
    lock: control('lock', HTMLInputElement),
    gap: control('gap', HTMLInputElement),
    pace: part('pace'),
    paces: getElements(part('pace'), 'button', HTMLButtonElement),
    takes: part('takes'),
    state: part('state'),
    length: part('length'),
    said: part('said'),
    play: control('play', HTMLButtonElement),
    remake: control('remake', HTMLButtonElement),
    open: part('open'),
    copy: part('copy'),
    up: control('up', HTMLButtonElement),
    down: control('down', HTMLButtonElement),
    remove: part('remove'),
  };
}

/** Format a number of seconds, such as "2.5 s". @param {number} value */
export function seconds(value) {
  return `${value.toFixed(1)} s`;
}

/**
 * Return a text as nodes with highlighted tags, for the layer behind the text field.
 *
 * @param {string} text
 * @returns {(string|HTMLElement)[]}
 */
function marked(text) {
  /** @type {(string|HTMLElement)[]} */
  const nodes = [];
  let end = 0;
  for (const tag of tagsOf(text)) {
    nodes.push(text.slice(end, tag.index), createElement('mark', { textContent: tag[0] }));
    end = tag.index + tag[0].length;
  }
  return [...nodes, text.slice(end)];
}
