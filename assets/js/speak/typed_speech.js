/**
 * Speech that is generated while the user types in the Speak room.
 *
 * A clause is sent when it is complete: after a punctuation mark, or after a pause in typing. All clauses belong to one
 * request with streamed text. Text that was sent cannot be withdrawn. If the user changes the end of the sent text, this
 * part is spoken again as a correction. Changes before it are not spoken.
 */

import { getElement } from '../common/elements.js';
import { FieldError } from '../common/fields.js';
import { endsShort, expectedSeconds, isSyllabic, sentLength, untagged } from '../common/text.js';

const WORD_END_PAUSE_MS = 700; // Pause in typing after a complete word that ends a clause.
// Pause in typing after a letter that ends a clause. It is longer, because the word may be incomplete.
const IN_WORD_PAUSE_MS = 1500;
// Time without typing after which the request ends, because it occupies a slot of the runtime.
const IDLE_TIMEOUT_MS = 120_000;
// Maximum number of characters per message. Longer texts, such as pasted ones, are sent in parts.
const MAX_SENT_CHARS = 1000;
const CLAUSE_TIMEOUT_MS = 250; // Time without audio after which all audio of a clause is assumed to have arrived.
// Time without audio after which the pace of the last clauses is known. It is longer, because a slow runtime has longer
// gaps in its audio.
const SPOKEN_TIMEOUT_MS = 1000;

// Pattern of the end of a clause. Marks that occur in numbers, addresses and abbreviations need a space after them.
const CLAUSE_END = /(?<=(?:^|\s)["'“‘«(]*[\p{L}\p{M}'’-]+)[,;!?]|[.,;:!?]["'”’»)]*\s|[。！？｡，；：、…—\n]|\s[-–]\s/gu;
const OPEN_TAG = /\[[^\]\n]*$|<break[^>\n]*$/iu;
const WORD = /[\p{L}\p{N}]/u;

/** @typedef {{text: string, from: number, to: number, begun: number|null}} Clause  from, to: range in the field; begun: start in seconds, or null */
/** @typedef {{start: number, removed: number, added: number}} Edit  change of a text in characters */

/** Return the number of characters of the complete clauses at the start of a text. @param {string} text */
export function finishedLength(text) {
  const sure = text.slice(0, text.length - (OPEN_TAG.exec(text)?.[0].length ?? 0));
  const ends = [...sure.matchAll(CLAUSE_END)].map(({ index, 0: mark }) => index + mark.length);
  return ends.findLast((end) => !endsShort(sure.slice(0, end), '')) ?? 0;
}

/**
 * Return the edit that changed one value of a text field into another.
 *
 * @param {string} before @param {string} after @param {number} [caret] start of the selection before the edit
 * @returns {Edit}
 */
export function editOf(before, after, caret = Infinity) {
  const most = Math.min(before.length, after.length);
  const first = Math.min(most, caret);
  let start = 0;
  while (start < first && before[start] === after[start]) start++;
  let same = 0;
  while (same < most - start && before.at(-1 - same) === after.at(-1 - same)) same++;
  return { start, removed: before.length - start - same, added: after.length - start - same };
}

/**
 * Return the new position of a character in a text after an edit of the text.
 *
 * @param {number} position index of the character before the edit @param {Edit} edit
 */
export function positionAfterEdit(position, { start, removed, added }) {
  if (position <= start) return position;
  return position >= start + removed ? position + added - removed : start;
}

/** Return true if a position is inside a word. @param {string} text @param {number} at index of a character */
function isInWord(text, at) {
  const [before = '', after = ''] = [text[at - 1], text[at]];
  return WORD.test(before) && WORD.test(after) && !isSyllabic(before + after);
}

/** Speech that is generated while the user types in the Speak room. */
export class TypedSpeech {
  isOn = false;
  /** Last take of typed text, or null. @type {import('../player/take.js').Take|null} */
  take = null;
  /** Text of the field after the last edit. */
  lastText = '';
  /** Number of characters of `lastText` that were sent, or that the field had at the start. */
  sentLength = 0;
  /** True if sent text was deleted and nothing was typed since then. */
  wasSentTextDeleted = false;
  caret = Infinity; // Start of the selection before the last edit.
  /** Clauses of the last take. @type {Clause[]} */
  clauses = [];
  sentAt = 0;

  /**
   * Create the generation for the text field of a Speak room.
   *
   * @param {import('./room.js').SpeakersRoom} room @param {HTMLElement} page
   */
  constructor(room, page) {
    this.room = room;
    this.studio = room.studio;
    this.button = getElement(page, '#vw-typed', HTMLButtonElement);
    this.hint = getElement(page, '#vw-typed-hint');
    const field = room.studio.textField;
    this.button.onclick = () => (this.isOn ? this.finish() : this.start());
    // If the page itself has set the text of the field, the text is not spoken.
    field.addEventListener('beforeinput', ({ isComposing }) => {
      if (this.isOn && !isComposing && field.value !== this.lastText) this.accept();
      this.caret = field.selectionStart;
    });
    field.addEventListener('input', (event) => /** @type {InputEvent} */ (event).isComposing || this.onInput());
    field.addEventListener('compositionstart', () => clearTimeout(this.timer));
    field.addEventListener('compositionend', () => this.onInput());
    room.studio.stage.addEventListener('change', () => this.onStage());
  }

  /** Start to speak the text that the user types from now on. */
  start() {
    const { studio } = this;
    const { textField } = studio;
    if (!studio.isReachable()) return;
    studio.stop();
    studio.stage.player.start().catch(() => studio.errorMessages.showMessage('request', studio.t('shell.no_output')));
    this.isOn = true;
    this.take = null;
    this.accept();
    textField.focus();
    if (studio.isOwnText) textField.setSelectionRange(this.lastText.length, this.lastText.length);
    else textField.select(); // Select the sample text, so that typing replaces it.
    this.paint('speakers.typed_on');
  }

  /** Treat the current text of the field as sent, so that it is not spoken. */
  accept() {
    this.lastText = this.studio.text;
    this.sentLength = this.lastText.length;
    this.clauses = [];
    this.wasSentTextDeleted = false;
  }

  /**
   * Speak the text that was not sent yet, and end the session.
   *
   * The result is false if nothing was typed.
   */
  finish() {
    this.onInput(); // Accept the text of an input method whose composition has not ended.
    this.advance(this.lastText.length);
    this.end();
    return this.take !== null;
  }

  /** End the session, without speaking the text that was not sent yet. */
  end() {
    if (!this.isOn) return;
    this.isOn = false;
    this.close();
    this.paint('');
  }

  /** End the request, so that the next clause starts another request. */
  close() {
    clearTimeout(this.timer);
    clearTimeout(this.idleTimer);
    if (this.take?.isReceiving && !this.take.utterance?.finished) this.take.utterance?.finish();
  }

  /** True if more text can be added to the current request. */
  get isOpen() {
    return Boolean(this.take?.isReceiving && !this.take.utterance?.finished);
  }

  /** Show if the session is active, and a hint. @param {string} hint message key, or '' for no hint */
  paint(hint) {
    this.button.ariaPressed = String(this.isOn);
    this.hint.hidden = !hint;
    if (hint) Object.assign(this.hint, { textContent: this.studio.t(hint) }).dataset.i18n = hint;
    this.studio.refresh();
  }

  /**
   * End the session if other audio is played.
   *
   * If the current take has been played, send the next complete clauses.
   */
  onStage() {
    const { stage } = this.studio;
    if (this.isOpen && stage.isPlaying && stage.take !== this.take) this.end();
    else if (this.isOn && this.take && !stage.isPlaying) this.advance();
  }

  onInput() {
    const { value } = this.studio.textField;
    if (!this.isOn) return;
    const edit = editOf(this.lastText, value, this.caret);
    this.caret = Infinity;
    this.follow(edit, value);
    clearTimeout(this.timer);
    this.advance();
    const rest = value.slice(this.sentLength);
    if (this.wasSentTextDeleted || !WORD.test(untagged(rest))) return;
    const last = rest.slice(-1);
    const mayGrow = edit.added === 0 || (WORD.test(last) && !isSyllabic(last));
    this.timer = setTimeout(() => this.advance(this.lastText.length), mayGrow ? IN_WORD_PAUSE_MS : WORD_END_PAUSE_MS);
  }

  /**
   * Adjust the positions of the sent clauses after an edit.
   *
   * If the end of the sent text has changed, it counts as not sent.
   *
   * @param {Edit} edit
   * @param {string} value new text of the field
   */
  follow(edit, value) {
    const { lastText: before, sentLength, clauses } = this;
    const last = clauses.findLast(({ from, to }) => from < Math.min(sentLength, edit.start) && edit.start < to);
    const isAtEnd = edit.start + edit.removed >= sentLength;
    const isSaid = edit.start < sentLength && !isAtEnd;
    this.lastText = value;
    this.sentLength = positionAfterEdit(sentLength, edit);
    if (edit.added > 0) this.wasSentTextDeleted = false;
    for (const clause of clauses) Object.assign(clause, { from: positionAfterEdit(clause.from, edit), to: positionAfterEdit(clause.to, edit) });
    if (edit.start < sentLength && isAtEnd) {
      this.sentLength = edit.start;
      this.wasSentTextDeleted = edit.added === 0;
      if (last && WORD.test(before.slice(edit.start, sentLength))) this.sentLength = last.from;
    }
    // If more letters are added to a sent word, the word and its clause are spoken again.
    if (isInWord(value, this.sentLength)) this.sentLength = clauses.findLast(({ from, to }) => from < to && to === this.sentLength)?.from ?? value.slice(0, this.sentLength).search(/\S*$/u);
    for (const clause of clauses) if (clause.to > this.sentLength) clause.to = clause.from;
    if (isSaid) this.paint('speakers.typed_said');
  }

  /** Send the complete clauses, or all text up to a position. @param {number} [until] */
  advance(until) {
    const { studio, lastText } = this;
    if (!this.isOn) return;
    const rest = lastText.slice(this.sentLength);
    const length = until === undefined ? finishedLength(rest) : until - this.sentLength;
    const text = rest.slice(0, Math.min(length, this.cutOf(rest, length)));
    if (!WORD.test(untagged(text))) return;
    const most = studio.facts.maxChars;
    if (this.isOpen && sentLength(`${this.take?.sent}${text}`) > most) this.close();
    // Start the next take only when the current one has been played.
    if (this.take && !this.isOpen && studio.stage.isPlaying) return;
    try {
      this.speak(text);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.end();
      studio.errorMessages.showMessage(error.field, error);
      return;
    }
    if (text.length < length) this.advance(until);
  }

  /**
   * Return the number of characters to send at once.
   *
   * Long text is cut between words.
   *
   * @param {string} rest text that was not sent @param {number} length number of characters that should be sent
   */
  cutOf(rest, length) {
    const most = Math.min(MAX_SENT_CHARS, this.studio.facts.maxChars);
    if (length <= most) return length;
    const space = rest.lastIndexOf(' ', most) + 1;
    return space > 0 ? space : most;
  }

  /** Add a text to the current request, or start another request with it. @param {string} text */
  speak(text) {
    const { studio, room } = this;
    // Separate a correction from the previous word with a space.
    const gap = this.isOpen && WORD.test(text[0]) && !isSyllabic(text[0]) && !/\s$/u.test(this.take?.text ?? '') ? ' ' : '';
    const spoken = studio.pronunciation.spokenText(gap + text);
    const [from, now] = [this.sentLength, performance.now()];
    const isNew = !this.isOpen;
    let begun = null;
    if (isNew) {
      const present = room.presentRequest();
      if (!room.chosen || !present) throw new FieldError('voice', studio.t('picker.nobody'));
      const take = studio.speech.say({ room: room.id, ...present, text, spoken, seed: studio.variation.nextSeed(), label: room.chosen.name, isTyped: true });
      this.clauses = [];
      this.take = take;
      begun = 0;
      take.addEventListener('error', () => this.take === take && this.end());
      studio.catalogue.remember(room.chosen);
    } else if (this.take) {
      begun = this.endAfter(CLAUSE_TIMEOUT_MS);
      studio.stage.player.expectPause();
      this.take.extend(gap + text, spoken);
    }
    this.sentAt = now;
    this.sentLength = from + text.length;
    this.clauses.push({ text, from, to: this.sentLength, begun });
    if (isNew && this.take) studio.stage.play(this.take, { clicked: now });
    clearTimeout(this.idleTimer);
    this.idleTimer = setTimeout(() => this.close(), IDLE_TIMEOUT_MS);
    if (!this.hint.hidden) this.hint.hidden = true;
  }

  /**
   * Return the end of the sent clauses in seconds, or null if more audio may arrive.
   *
   * @param {number} timeoutMs all audio has arrived if nothing arrives for this time
   */
  endAfter(timeoutMs) {
    const { take, sentAt } = this;
    const last = take?.arrivals.at(-1)?.arrivedAt ?? Infinity;
    const isWhole = take?.state === 'done' || (last > sentAt && performance.now() - last > timeoutMs);
    return take && isWhole ? take.seconds : null;
  }

  /**
   * Return the character range of the clause that is spoken, or null if it has changed.
   *
   * @param {(lengths: number[], from: number, total: number|null) => number[]} beginnings estimates the start times of clauses
   * after a known time, whose total duration may be known
   * @param {number} at position in the take in seconds
   */
  rangeAt(beginnings, at) {
    const { clauses } = this;
    const first = Math.max(0, clauses.findLastIndex(({ begun }) => begun !== null && begun <= at));
    const next = clauses.findIndex(({ begun }, index) => index > first && begun !== null);
    const here = clauses.slice(first, next < 0 ? undefined : next);
    const from = clauses[first]?.begun ?? 0;
    const end = clauses[next]?.begun ?? this.endAfter(SPOKEN_TIMEOUT_MS);
    const starts = beginnings(here.map(({ text }) => expectedSeconds(untagged(text))), from, end && end > from ? end - from : null);
    const found = here[Math.max(0, starts.findLastIndex((start) => from + start <= at))];
    if (!found || found.to <= found.from) return null;
    return { from: found.from + found.text.search(/\S/u), to: found.to };
  }
}
