/**
 * View of all lines of a script, with typing, pasting, and moving by keys or dragging.
 *
 * @typedef {import('./document.js').Line} Line
 */

import { getElements, arrangeChildren, createElement } from '../common/elements.js';
import { chapterTitle, newLine, Script } from './document.js';
import { LineView } from './line_view.js';
import { textOfHtml } from './reading.js';
import { valueOf } from './voice_assignment.js';

const MIN_LAZY_LINES = 200; // Minimum number of lines of a script in which only the lines near the window are rendered.
const NEAR_PX = 1000;

/** View of all lines of a script, which the user can edit and move. */
export class LinesView {
  /**
   * Create the view from the elements of the Script room.
   *
   * @param {HTMLElement} list <ol> element for the lines
   * @param {HTMLTemplateElement} template template of a line
   * @param {import('./room.js').ScriptRoom} room
   */
  constructor(list, template, room) {
    this.list = list;
    this.template = template;
    this.room = room;
    this.studio = room.studio;
    this.voiceAssignment = room.voiceAssignment;
    this.maker = room.maker;
    /** Views of the rendered lines. @type {Map<string, LineView>} */
    this.views = new Map();
    /** List element of each line: its view, or a placeholder with the same height. @type {Map<string, HTMLElement>} */
    this.elements = new Map();
    addEventListener('scroll', () => this.renderSoon(), { capture: true, passive: true });
    new ResizeObserver(() => this.renderSoon()).observe(list);
    /** The list is empty until a script is opened. */
    this.script = new Script();
    /** Id of the line that is playing. @type {string|null} */
    this.playingId = null;
    /** Id of the line that had the focus last. @type {string|null} */
    this.chosen = null;
    /** @type {string|null} */
    this.dragged = null;
    /** @type {number|undefined} */
    this.rendering = undefined;
    list.addEventListener('focusin', () => this.onChosen(this.focused()));
    list.ondragstart = (event) => this.onDragStart(event);
    list.ondragover = (event) => this.onDragOver(event);
    list.ondrop = (event) => this.onDrop(event);
    list.ondragend = () => this.endDrag();
  }

  /** Show the lines of another script. @param {import('./document.js').Script} script */
  open(script) {
    this.script = script;
    this.views.clear();
    this.elements.clear();
    this.arrange();
  }

  /** Update all lines after a change of the voices or of the page's language. */
  refreshVoices() {
    for (const view of this.views.values()) view.offer();
    this.show();
  }

  /** Update the list of elements after lines were added, removed or moved. */
  arrange() {
    const { activeElement } = document;
    const focused = activeElement instanceof HTMLElement && this.list.contains(activeElement) ? activeElement : null;
    const { lines } = this.script;
    const before = this.elements;
    this.elements = new Map(lines.map((line) => [line.id, before.get(line.id) ?? this.addElement(line)]));
    for (const [id, element] of before) {
      if (this.elements.has(id)) continue;
      this.views.delete(id);
      element.remove();
    }
    arrangeChildren(this.list, [...this.elements.values()]);
    this.show();
    if (focused?.isConnected) focused.focus();
  }

  /** Return a new list element for a line, which is a placeholder in a long script. @param {Line} line */
  addElement(line) {
    return this.isLazy ? emptyLine(line.id) : this.build(line).element;
  }

  get isLazy() {
    return this.script.lines.length > MIN_LAZY_LINES;
  }

  renderSoon() {
    this.rendering ??= requestAnimationFrame(() => {
      this.rendering = undefined;
      if (this.list.clientHeight > 0 && (this.isLazy || this.views.size < this.elements.size)) this.renderNear();
    });
  }

  /** Render the lines near the visible part, and replace distant lines by placeholders. */
  renderNear() {
    const rows = [...this.elements];
    const place = (/** @type {number} */ at) => rows[at][1].getBoundingClientRect();
    let first = 0;
    for (let last = rows.length; first < last; ) {
      const middle = Math.floor((first + last) / 2);
      if (place(middle).bottom < -NEAR_PX) first = middle + 1;
      else last = middle;
    }
    const near = new Set();
    for (; first < rows.length && place(first).top < innerHeight + NEAR_PX; first++) near.add(rows[first][0]);
    const { activeElement } = document;
    const distant = [...this.views].filter(([id, { element }]) => !near.has(id) && !element.contains(activeElement));
    // Read all heights before changing the DOM: alternating reads and writes would force one layout per line.
    const placeholders = distant.map(([id, { element }]) => emptyLine(id, element.offsetHeight));
    for (const [at, [id]] of distant.entries()) {
      this.views.delete(id);
      this.replaceElement(placeholders[at]);
    }
    for (const id of near) this.viewOf(id);
  }

  /**
   * Return the view of a line, and render the line first if necessary.
   *
   * @param {string} id @returns {LineView|undefined} undefined if there is no such line
   */
  viewOf(id) {
    const line = this.views.has(id) ? undefined : this.script.line(id);
    if (line) this.replaceElement(this.build(line).element);
    return this.views.get(id);
  }

  /** Replace the list element of a line by another element for the same line. @param {HTMLElement} element */
  replaceElement(element) {
    const { line: id = '' } = element.dataset;
    this.elements.get(id)?.replaceWith(element);
    this.elements.set(id, element);
  }

  /** Render a line, and return its view. @param {Line} line */
  build(line) {
    const view = new LineView(line, this, this.template);
    this.views.set(line.id, view);
    view.offer();
    const place = { index: this.script.indexOf(line.id), count: this.script.lines.length, sounding: line.id === this.playingId };
    view.show(place);
    return view;
  }

  show() {
    const count = this.script.lines.length;
    this.script.lines.forEach((line, index) => {
      const view = this.views.get(line.id);
      if (view) view.show({ index, count, sounding: line.id === this.playingId });
    });
  }

  /** Highlight the line that is playing. @param {string|null} id */
  mark(id) {
    if (this.playingId === id) return;
    this.playingId = id;
    this.show();
    const typing = this.list.contains(document.activeElement);
    if (id && !typing) this.viewOf(id)?.element.scrollIntoView({ block: 'nearest' });
  }

  /** Highlight the text that is spoken now in the line that is playing. @param {LineView['range']} range */
  markRange(range) {
    for (const [id, view] of this.views) view.mark(id === this.playingId ? range : null);
  }

  /**
   * Focus a line but not its text field, so that keys can move the line.
   *
   * Focus in the text field would open the keyboard of a phone.
   *
   * @param {string} id
   */
  choose(id) {
    const view = this.viewOf(id);
    view?.parts.grip.focus({ preventScroll: true });
    view?.element.scrollIntoView({ block: 'nearest' });
  }

  /**
   * Select a line in the timeline.
   *
   * The id is null if no line is selected.
   *
   * @param {string|null} id
   */
  onChosen(id) {
    this.chosen = id;
    this.room.timeline.choose(id);
  }

  /** Return the id of the line that has the focus, or null. @returns {string|null} */
  focused() {
    return lineAt(document.activeElement)?.dataset.line ?? null;
  }

  /** Focus the text field of a line. @param {string} id @param {number} [caret] position of the caret in the text */
  focus(id, caret = 0) {
    const field = this.viewOf(id)?.parts.text;
    field?.focus();
    field?.setSelectionRange(caret, caret);
  }

  // --- Actions of a line

  /**
   * Use a stored take as the audio of a line, and play it.
   *
   * @param {Line} line @param {import('./making.js').LineTake} take
   */
  chooseTake(line, take) {
    this.studio.undo.offer(this.maker.choose(line, take));
    this.room.playFrom(line.id, { only: true });
  }

  /** Insert a copy of a line, and focus it. @param {string} id */
  duplicate(id) {
    this.focus(this.script.duplicate(id).id);
  }

  /** Remove a line, and offer undo. @param {string} id */
  remove(id) {
    const at = this.script.indexOf(id);
    const undo = this.script.remove(id);
    if (this.script.lines.length === 0) this.add();
    this.focus(this.script.lines[Math.min(at, this.script.lines.length - 1)].id);
    this.studio.undo.offer(undo, this.studio.t('script.removed', { n: at + 1 }));
  }

  /**
   * Move a line up or down in the script.
   *
   * @param {string} id
   * @param {number} distance number of positions, negative to move up
   * @param {Element|null} [focus] element that keeps the focus
   */
  move(id, distance, focus = document.activeElement) {
    const undo = this.script.move(id, this.script.indexOf(id) + distance);
    if (undo) this.studio.undo.offer(undo);
    if (focus instanceof HTMLElement) focus.focus();
    this.room.announce(this.studio.t('script.moved', { n: this.script.indexOf(id) + 1 }));
  }

  /**
   * Add a line after another line or at the end, and focus it.
   *
   * @param {string} [after] id of the other line
   * @param {string} [text]
   */
  add(after, text = '') {
    const { lines } = this.script;
    const at = after ? this.script.indexOf(after) + 1 : lines.length;
    const above = lines[at - 1];
    const voice = above?.voice ?? this.voiceAssignment.unused([]);
    const line = newLine({ text, voice, name: above?.name ?? null, instruct: '' });
    this.script.insert([line], at);
    this.focus(line.id);
  }

  /** Move a line if Alt with an arrow key was pressed. @param {KeyboardEvent} event @param {LineView} view */
  onLineKey(event, { line }) {
    const by = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0;
    if (by === 0 || !event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.move(line.id, by);
  }

  /**
   * Handle Enter, Backspace and the vertical arrow keys in the text of a line.
   *
   * @param {KeyboardEvent} event @param {LineView} view
   */
  onTextKey(event, { line, parts: { text } }) {
    const { key, altKey, ctrlKey, metaKey, shiftKey } = event;
    if (event.isComposing || altKey || ctrlKey || metaKey || shiftKey) return;
    const { selectionStart: start, selectionEnd: end, value } = text;
    const { lines } = this.script;
    const at = this.script.indexOf(line.id);
    if (key === 'Enter') {
      this.script.change(line.id, { text: value.slice(0, start).trimEnd() });
      this.add(line.id, value.slice(end).trimStart());
    } else if (key === 'Backspace' && value === '' && lines.length > 1) {
      const before = lines[Math.max(0, at - 1)];
      this.script.remove(line.id);
      this.focus(before.id, before.text.length);
    } else if (key === 'ArrowUp' && end === 0 && at > 0) {
      this.focus(lines[at - 1].id, lines[at - 1].text.length);
    } else if (key === 'ArrowDown' && start === value.length && at < lines.length - 1) {
      this.focus(lines[at + 1].id);
    } else {
      return;
    }
    event.preventDefault();
  }

  /**
   * Choose the speaker of a line if `NAME: ` was typed before its text.
   *
   * After `# `, the line becomes a heading.
   *
   * @param {LineView} view
   */
  onTyped({ line, parts: { text } }) {
    const { script, studio, voiceAssignment } = this;
    const at = text.selectionStart;
    const head = text.value.slice(0, at);
    const [parsed] = /[:#]\s$|：$/u.test(head) ? this.room.read(`${head}…`, script.lines).lines : [];
    if (parsed?.text !== '…') return;
    const { name: oldName, voice: oldVoice, instruct, chapter } = line;
    const rest = text.value.slice(at);
    const spoken = newLine(parsed);
    if (parsed.name) voiceAssignment.assign([spoken], script.lines);
    const isNew = spoken.name && !script.lines.some(({ name }) => name === spoken.name);
    const { name, voice } = parsed.name ? spoken : line;
    script.change(line.id, { name, voice, instruct: parsed.instruct || instruct, text: rest, ...(parsed.chapter && { chapter: chapterTitle(rest) }) });
    text.value = rest;
    text.setSelectionRange(0, 0);
    const sentence = studio.t('script.line.voice', { n: script.indexOf(line.id) + 1, name: [spoken.name, voiceAssignment.nameOf(voice)].filter(Boolean).join(', ') });
    // Undo is offered after this input event has been handled, because the event makes the page forget earlier actions.
    const undo = () => script.change(line.id, { name: oldName, voice: oldVoice, instruct, chapter, text: head + line.text });
    setTimeout(() => studio.undo.offer(undo, isNew ? sentence : ''));
    this.room.announce(sentence);
  }

  /** Return a choice for each speaker of the script, except the speaker of a line. @param {Line} line */
  otherSpeakers(line) {
    const keyOf = (/** @type {Line} */ { name, voice }) => `${name ?? ''} ${voice && valueOf(voice)}`;
    const speakers = new Map(this.script.lines.map((one) => [keyOf(one), one]));
    speakers.delete(keyOf(line));
    return [...speakers].flatMap(([key, speaker]) => {
      const choice = speaker.voice && this.studio.catalogue.find(valueOf(speaker.voice));
      return choice ? [{ ...choice, key, speaker, ...(speaker.name && { name: speaker.name, about: choice.name }) }] : [];
    });
  }

  /** Let another speaker of the script speak a line. @param {Line} line @param {Line} speaker line of this speaker */
  assignSpeaker({ id, name, voice }, speaker) {
    this.script.change(id, { name: speaker.name, voice: speaker.voice && { ...speaker.voice } });
    this.studio.undo.offer(() => {
      this.script.change(id, { name, voice });
      this.room.recordTakes();
    });
    this.show();
  }

  /**
   * Insert pasted text with several paragraphs as several lines.
   *
   * Other pasted text is handled by the browser. The HTML of the clipboard is used if it has headings, lists or tables.
   *
   * @param {ClipboardEvent} event @param {LineView} view
   */
  onPaste(event, { line }) {
    const [html, text] = ['text/html', 'text/plain'].map((type) => event.clipboardData?.getData(type) ?? '');
    const structured = this.room.read(textOfHtml(html), this.script.lines);
    const read = structured.lines.length > 1 ? structured : this.room.read(text, this.script.lines);
    if (read.lines.length < 2 && !read.lines[0]?.name && !read.lines[0]?.chapter) return;
    event.preventDefault();
    this.insertParsed(read, line);
  }

  /**
   * Insert parsed lines after a line, or replace the line if it has no text.
   *
   * @param {import('./reading.js').ParsedText & {title?: string}} read  title: name for a script without a name
   * @param {Line} [after] line that was pasted into, or undefined to add the lines at the end. The voice of this line speaks
   * lines without a name.
   */
  insertParsed({ lines: parsed, leftOut, title = '' }, after) {
    const { script } = this;
    if (!this.room.hasRoom(script.lines.length + parsed.length)) return;
    const before = script.lines.slice();
    const lines = parsed.map((values) => newLine(values));
    this.voiceAssignment.assign(lines, before, after?.voice ?? undefined);
    const at = after ? script.indexOf(after.id) : script.lines.length - 1;
    const replaced = at >= 0 && !script.lines[at].text.trim() ? [script.lines[at]] : [];
    const isNamed = title !== '' && !script.name.trim();
    if (isNamed) script.name = title;
    script.insert(lines, at + 1);
    script.filterLines((line) => !replaced.includes(line));
    const undo = () => {
      if (isNamed && script.name === title) script.name = '';
      script.filterLines((line) => !lines.includes(line));
      script.insert(replaced, Math.max(0, at));
    };
    this.studio.undo.offer(undo, this.room.summary('script.added', lines, leftOut));
    const last = lines.at(-1);
    if (last) this.focus(last.id, last.text.length);
  }

  // --- Dragging

  /** Start to drag a line by its handle. @param {DragEvent} event */
  onDragStart(event) {
    const { target, dataTransfer } = event;
    const element = target instanceof Element && target.closest('.vw-line-grip') ? lineAt(target) : null;
    const line = this.script.line(element?.dataset.line ?? '');
    if (!element || !line || !dataTransfer) return event.preventDefault();
    this.dragged = line.id;
    dataTransfer.effectAllowed = 'move';
    dataTransfer.setData('text/plain', line.text);
    dataTransfer.setDragImage(element, 0, 0);
  }

  /** Show where the dragged line would be inserted. @param {DragEvent} event */
  onDragOver(event) {
    const over = lineAt(event.target);
    if (!this.dragged || !over) return;
    event.preventDefault();
    const { top, height } = over.getBoundingClientRect();
    const below = event.clientY > top + height / 2;
    this.clearDrop();
    over.dataset.drop = below ? 'below' : 'above';
  }

  /** Insert the dragged line at the position of the pointer. @param {DragEvent} event */
  onDrop(event) {
    const over = lineAt(event.target);
    if (!this.dragged || !over) return;
    event.preventDefault();
    const from = this.script.indexOf(this.dragged);
    const to = this.script.indexOf(over.dataset.line ?? '') + (over.dataset.drop === 'below' ? 1 : 0);
    this.room.onDragged(this.dragged, this.script.move(this.dragged, to > from ? to - 1 : to));
    this.endDrag();
  }

  endDrag() {
    this.dragged = null;
    this.clearDrop();
  }

  clearDrop() {
    for (const element of getElements(this.list, '[data-drop]')) delete element.dataset.drop;
  }
}

/**
 * Return a list element that takes the space of a line that is not rendered.
 *
 * @param {string} id @param {number} [height] height in pixels
 */
function emptyLine(id, height) {
  const element = createElement('li', { className: 'vw-line-empty' });
  element.dataset.line = id;
  if (height) element.style.minHeight = `${height}px`;
  return element;
}

/** Return the element of the line that contains a node. @param {EventTarget|null} target */
function lineAt(target) {
  const line = target instanceof Element ? target.closest('[data-line]') : null;
  return line instanceof HTMLElement ? line : null;
}
