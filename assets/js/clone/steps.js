/** The three steps of the Clone room, and the content of each step. */

import { clock, SAMPLE_RATE } from '../common/audio.js';
import { getElements, getElement, writeText } from '../common/elements.js';
import { MISMATCH } from './audio_checks.js';

// --- The three steps of the Clone room. One step is open, and the address has its number.

/** Return the number of the step in the page's URL, or null. @returns {number|null} */
export function addressed() {
  const [, step] = /^#\/clone\/([1-3])$/.exec(location.hash) ?? [];
  return step ? Number(step) : null;
}

/**
 * @typedef {{summary: string, verdict: 'good'|'unchecked'|'care'}} Outcome  good: the step was checked; care: it may have a problem
 */

/** The three steps of the Clone room, of which one is open at a time. */
export class Steps {
  /**
   * Create the steps from the elements of the Clone room.
   *
   * @param {HTMLElement} root  panel of the room
   * @param {Object} callbacks
   * @param {import('../common/words.js').Words} callbacks.words
   * @param {() => number} callbacks.furthest  returns the last step that can be opened
   * @param {() => void} callbacks.onOpen
   */
  constructor(root, { words, furthest, onOpen }) {
    this.words = words;
    this.furthest = furthest;
    this.onOpen = onOpen;
    this.at = 1;
    const head = getElement(root, '#vw-clone-step-head', HTMLTemplateElement).content;
    const items = getElements(root, '.vw-step');
    items.forEach((item, index) => item.prepend(this.addHeading(head, item, index + 1)));
    this.items = items.map((item) => ({
      item,
      heading: getElement(item, 'h3'),
      body: getElement(item, '.vw-step-body'),
      sum: getElement(item, '.vw-step-sum'),
      change: getElement(item, '.vw-step-change'),
    }));
    this.items.forEach(({ change }, index) => (change.onclick = () => this.go(index + 1)));
  }

  /**
   * Build the heading of a step with its number, title and Change button.
   *
   * @param {DocumentFragment} head
   * @param {HTMLElement} item
   * @param {number} step
   */
  addHeading(head, { dataset }, step) {
    const own = document.importNode(head, true);
    getElement(own, '.vw-step-no').textContent = String(step);
    getElement(own, 'h3').dataset.i18n = dataset.title;
    this.words.apply(own);
    return own;
  }

  /** Open a step, or the last step before it that can be opened. @param {number} step */
  open(step) {
    this.at = Math.max(1, Math.min(step, this.furthest()));
    this.onOpen();
  }

  /** Open a step, focus its heading and put the step into the URL. @param {number} step */
  go(step) {
    this.open(step);
    this.name();
    const { heading } = this.items[this.at - 1];
    heading.focus({ preventScroll: true });
    heading.scrollIntoView({ block: 'nearest' });
  }

  /** Put the number of the open step into the URL, without an entry in the history. */
  name() {
    if (!/^#\/clone(\/|$)/.test(location.hash)) return;
    const there = new URL(location.href);
    there.hash = `/clone/${this.at}`;
    history.replaceState(history.state, '', there);
  }

  /**
   * Show which step is open, and the outcomes of the completed steps.
   *
   * @param {Outcome[]} outcomes outcomes of the completed steps @param {boolean} isOver true if all steps are completed and cannot be
   * changed
   */
  paint(outcomes, isOver) {
    this.items.forEach(({ item, heading, body, sum, change }, index) => {
      const step = index + 1;
      const isDone = isOver || step < this.at;
      const isOpen = !isOver && step === this.at;
      const { summary, verdict } = outcomes[index];
      item.dataset.state = isOpen ? 'open' : isDone ? 'done' : 'to-come';
      item.dataset.verdict = isDone ? verdict : '';
      if (isOpen) item.setAttribute('aria-current', 'step');
      else item.removeAttribute('aria-current');
      body.hidden = !isOpen;
      sum.textContent = isDone ? summary : '';
      change.hidden = !isDone || isOver;
      change.ariaLabel = `${this.words.t('clone.change')}: ${heading.textContent}`;
      heading.ariaLabel = isDone ? `${heading.textContent} (${this.words.t('clone.step.done')})` : null;
    });
  }
}

// --- Rendering of the Clone room: visible parts, label of the primary button, and the outcome of each step.

/** Rendering of the Clone room: visible parts, primary button, and outcomes of the steps. */
export class CloneView {
  /** Find the elements of the Clone room that this view updates. @param {import('./room.js').CloneRoom} room */
  constructor(room) {
    this.room = room;
    this.recording = getElement(room.root, '#vw-clone-recording');
  }

  /** Suggested text that the user can read aloud for a recording. */
  get readingText() {
    const { room } = this;
    const { readings } = room.studio.presets;
    const own = room.studio.words.language === 'zh' ? readings.chinese : null;
    return readings[room.language.value.toLowerCase()] ?? own ?? readings.auto;
  }

  paint() {
    const { room } = this;
    const { studio, reference, currentVoice } = room;
    room.storedVoice.paint();
    const { chosen } = room;
    room.find('new').hidden = Boolean(chosen);
    this.moveTextField(Boolean(chosen));
    const isLive = room.microphone.state !== 'idle';
    room.find('ways').hidden = room.find('care').hidden = Boolean(reference) || isLive;
    this.recording.hidden = !reference || isLive;
    room.find('read').textContent = this.readingText;
    const isDecoded = Boolean(reference?.pcm);
    room.trimmer.root.hidden = !isDecoded;
    room.playback.showPlayButtons(isDecoded);
    const best = room.find('best');
    best.hidden = !room.partSelector.isLong;
    best.textContent = studio.t('clone.best', { s: Math.round(room.partSelector.bestSeconds) });
    room.find('done').hidden = !currentVoice;
    this.paintSteps();
    room.words.paint(); // The method `paint` updates the installation hint, which only the host sees.
    this.paintUseButton();
    if (reference) room.trimmer.paint();
    room.compare();
    if (studio.current === room) studio.refresh();
  }

  paintSteps() {
    const { steps, currentVoice } = this.room;
    steps.paint(this.outcomes(), Boolean(currentVoice));
    this.paintRefusal();
  }

  paintUseButton() {
    const { room } = this;
    const { reference, studio } = room;
    const s = reference?.length.toFixed(1) ?? '';
    room.use.textContent = studio.t(reference?.pcm ? 'clone.use' : 'clone.use_file', { s });
    room.use.disabled = room.intake.isRefused || (reference?.pcm ? reference.length === 0 : false);
  }

  /** Move the text field below the stored voice or into the last step. @param {boolean} isStored */
  moveTextField(isStored) {
    const { room } = this;
    const home = isStored ? room.storedVoice.root : room.trying;
    if (room.say.parentElement !== home) home.append(room.say);
  }

  /** Return a summary and a verdict for each of the three steps. @returns {Outcome[]} */
  outcomes() {
    const { room } = this;
    const { reference, studio, audioChecks } = room;
    const name = { summary: room.currentVoice?.name ?? '', verdict: /** @type {const} */ ('good') };
    if (!reference) return [name, name, name];
    const lengths = { name: reference.name, s: reference.length.toFixed(1), all: clock(reference.seconds * SAMPLE_RATE) };
    const chosen = reference.pcm ? studio.t(reference.isWhole ? 'clone.sum.whole' : 'clone.sum.chosen', lengths) : reference.name;
    const verdict = audioChecks.hasFaults ? 'care' : audioChecks.isMeasured ? 'good' : 'unchecked';
    return [{ summary: chosen, verdict }, this.transcriptOutcome(), name];
  }

  /**
   * Show an error at the transcript if a voice with this transcript cannot be saved.
   *
   * The summary of the closed step and the comparison with the recording contain the same sentence.
   */
  paintRefusal() {
    const { root, steps, studio, audioChecks, words } = this.room;
    const isCompared = words.isTranscribed && !words.matches;
    const place = getElement(root, '[data-error-for=ref_text]');
    const sentence = studio.t(MISMATCH);
    if (steps.at === 2 && audioChecks.isTranscriptRefused && !isCompared) writeText(place, sentence);
    else if (place.textContent === sentence) writeText(place, '');
  }

  /**
   * Return a summary and a verdict for the transcript.
   *
   * The verdict is good if speech recognition has confirmed the transcript.
   *
   * @returns {Outcome}
   */
  transcriptOutcome() {
    const { words, xvector, studio, audioChecks } = this.room;
    if (xvector.checked) return { summary: studio.t('clone.xvector'), verdict: 'good' };
    const [advice] = audioChecks.transcriptAdvice;
    if (advice) return { summary: audioChecks.sentence(advice.code, advice.sentence), verdict: 'care' };
    if (words.isTranscribed) return { summary: words.summary(), verdict: words.matches ? 'good' : 'care' };
    return { summary: studio.t('clone.sum.unchecked', { transcript: words.summary() }), verdict: 'unchecked' };
  }
}
