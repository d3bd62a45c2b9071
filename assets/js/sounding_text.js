/** Marks the sentence that sounds in the shared text: under the field lies the same text, unseen but for its mark. */

import { SAMPLE_RATE } from './wav.js';
import { Peaks } from './peaks.js';
import { beginningsOf, clausesOf, pausesOf, sentencesOf } from './sentence_times.js';
import { expectedSeconds } from './speech_rate.js';
import { Take } from './take.js';
import { untagged } from './tags.js';

const SAME = /** @type {const} */ (['font', 'letterSpacing', 'wordSpacing', 'textAlign', 'direction', 'tabSize', 'paddingBlock', 'paddingInline']);
const CALM = matchMedia('(prefers-reduced-motion: reduce)');
const FAR_S = 1; // A larger step is a jump.
const ABOVE = 40; // Pixels between the field's edge and a mark after scrolling.

export class SoundingText {
  /** The sentence that is marked; -1: none. */
  index = -1;
  /**
   * What is known of a take's text: its sentences, and of each clause the sentence and the time it takes.
   *
   * @type {{take: import('./take.js').Take, sentences: import('./sentence_times.js').Stretch[], clauses: {index: number, length: number}[]}|null}
   */
  read = null;
  at = 0; // Last known position in the take, in seconds.

  /** @param {HTMLElement} page @param {import('./studio.js').Studio} studio */
  constructor(page, studio) {
    this.studio = studio;
    this.field = /** @type {HTMLTextAreaElement} */ (page.querySelector('#vw-text'));
    this.mirror = /** @type {HTMLElement} */ (page.querySelector('#vw-text-mirror'));
    this.mark = document.createElement('mark');
    studio.stage.player.addEventListener('counters', () => this.follow());
    studio.stage.addEventListener('change', () => this.follow());
    this.field.addEventListener('input', () => this.follow());
    this.field.addEventListener('scroll', () => (this.mirror.scrollTop = this.field.scrollTop));
    new ResizeObserver(() => this.place()).observe(this.field);
  }

  follow() {
    const { stage } = this.studio;
    const { take } = stage;
    const isHere = take instanceof Take && stage.sounding && take.room !== 'script' && take.text === this.field.value;
    if (isHere) this.show(this.sounding(take, stage.at / SAMPLE_RATE));
    else this.show(-1);
  }

  /** Which sentence of a take sounds at a time. @param {import('./take.js').Take} take @param {number} at seconds */
  sounding(take, at) {
    const { sentences, clauses } = this.textOf(take);
    const lengths = clauses.map(({ length }) => length);
    const whole = take.state === 'done' ? take.seconds : null;
    const beginnings = beginningsOf(lengths, pausesOf(Peaks.of(take)), whole, this.studio.paces.of(take));
    const found = clauses[beginnings.findLastIndex((begun) => begun <= at)]?.index ?? sentences.length - 1;
    // What has come since may tell better; but nothing goes back while the sound goes on.
    const index = at >= this.at && at - this.at < FAR_S ? Math.max(found, this.index) : found;
    this.at = at;
    return index;
  }

  /** @param {import('./take.js').Take} take */
  textOf(take) {
    if (this.read?.take === take) return this.read;
    const sentences = sentencesOf(take.text);
    const clauses = sentences.flatMap(({ from, to }, index) =>
      clausesOf(take.text.slice(from, to)).map((text) => ({ index, length: expectedSeconds(untagged(this.studio.pronunciation.spoken(text) ?? text)) })),
    );
    this.index = -1;
    this.read = { take, sentences, clauses };
    return this.read;
  }

  /** @param {number} index */
  show(index) {
    const isNew = index !== this.index;
    this.index = index;
    if (!isNew || !this.read) return;
    if (index < 0) return this.mirror.replaceChildren();
    const { value } = this.field;
    const { from, to } = this.read.sentences[index];
    const words = value.slice(from, to);
    const end = from + words.trimEnd().length;
    this.mark.textContent = value.slice(from, end);
    this.mirror.replaceChildren(value.slice(0, from), this.mark, `${value.slice(end)}\n`);
    this.place();
    this.reveal();
  }

  /** Have the same words at the same places as the field. */
  place() {
    if (this.index < 0) return;
    const { field, mirror } = this;
    const style = getComputedStyle(field);
    for (const name of SAME) mirror.style[name] = style[name];
    const { offsetTop, offsetLeft, clientWidth, clientHeight } = field;
    for (const [name, value] of Object.entries({ top: offsetTop, left: offsetLeft, width: clientWidth, height: clientHeight })) {
      mirror.style.setProperty(name, `${value}px`);
    }
    mirror.scrollTop = field.scrollTop;
  }

  /** Scroll to the mark, unless somebody writes. */
  reveal() {
    const { field, mark } = this;
    if (document.activeElement === field) return;
    const isSeen = mark.offsetTop >= field.scrollTop && mark.offsetTop + mark.offsetHeight <= field.scrollTop + field.clientHeight;
    if (!isSeen) field.scrollTo({ top: mark.offsetTop - ABOVE, behavior: CALM.matches ? 'auto' : 'smooth' });
  }
}
