/**
 * The Design room: a described voice (VoiceDesign) in three takes, more of one that is liked, and the one that is kept.
 *
 * The three are asked for at once on the one socket, so that the engine makes them as one batch. What a take
 * sounds like follows from description, language, text and seed; each is stored with all four. More takes stand beside
 * them: spoken by Base after the liked one's sound, or, where no checkpoint serves Base, of the same description.
 */

import { TakeCard } from '../design/card.js';
import { DesignedVoices } from '../design/designed.js';
import { Keeping } from '../design/keeping.js';
import { matched } from '../design/loudness.js';
import { PresetPicker } from '../design/picker.js';
import { Kept } from '../design/kept.js';
import { drawn } from '../design/seeds.js';
import { SAMPLE_RATE } from '../outputs.js';
import { FieldError, fillLanguages, preselect, title } from './fields.js';

const LETTERS = [...'ABCDEFGHI'];
const FIRST = 3; // takes that are made at once
const MORE = 2; // takes that are added to one that is liked
const LOWEST = 0.3; // of the canvas: what is quieter is drawn small

export class DesignRoom {
  static id = 'design';
  id = 'design';
  mode = 'voice_design';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.t = studio.t;
    const find = (name) => root.querySelector(`#vw-design-${name}`);
    this.description = find('description');
    this.language = find('language');
    this.hint = find('hint');
    this.said = find('said');
    this.picker = new PresetPicker(root, studio.presets.designs, this.t);
    this.keeping = new Keeping(root, studio);
    this.designed = new DesignedVoices(root, studio, { again: (voice) => this.again(voice) });
    this.template = find('take');
    this.list = find('takes');
    /** @type {TakeCard[]} */
    this.cards = [];
    this.lay(FIRST);
    this.kept = new Kept(this);
    /** What this room last put on the stage. @type {TakeCard|null} */
    this.heard = null;
    this.programme = null;
    this.describe(studio.presets.designs[0].text);
    this.listen();
    this.refresh();
  }

  listen() {
    this.description.oninput = () => {
      this.hint.textContent = '';
      this.picker.mark(this.description.value);
    };
    this.picker.addEventListener('choose', ({ detail }) => this.choose(detail));
    this.keeping.addEventListener('kept', ({ detail }) => this.onKept(detail));
    this.keeping.addEventListener('longer', ({ detail }) => this.lengthen(detail.card));
    this.keeping.addEventListener('closed', ({ detail }) => detail.card.play.focus());
    this.studio.stage.addEventListener('change', () => this.onStage());
  }

  /** Have so many places for takes; who is over is only in the library from now on. @param {number} count */
  lay(count) {
    for (const card of this.cards.splice(count)) {
      this.keeping.forget(card);
      card.element.remove();
    }
    while (this.cards.length < count) this.cards.push(this.place(this.cards.length));
  }

  /** @param {number} index */
  place(index) {
    const card = new TakeCard(this.template, LETTERS[index], String(index + 1), this.t);
    this.studio.words.apply(card.element);
    card.closer = this.studio.cards.has('base');
    card.addEventListener('play', ({ detail }) => this.toggle(card, detail));
    card.addEventListener('act', ({ detail }) => this.attempt(() => this[detail.act](card, detail)));
    this.list.append(card.element);
    card.refresh();
    return card;
  }

  // --- the form

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (!card) return;
    fillLanguages(this.language, card, this.t);
    this.picker.offer(card);
    for (const place of this.cards) place.closer = this.studio.cards.has('base');
    this.refresh();
  }

  onLanguage() {
    this.picker.fill();
    this.refresh();
    this.keeping.refresh();
    this.designed.refresh();
  }

  /** @param {string} description */
  describe(description) {
    this.description.value = description;
    this.picker.mark(description);
  }

  /** Start from a preset; a text of the user's own stays. @param {import('../design/picker.js').Design} preset */
  choose(preset) {
    const { studio, t } = this;
    const card = studio.cards.get(this.mode);
    const spoken = !card || card.languages.includes(preset.language);
    const own = studio.text.trim() !== '' && !this.isSample(studio.text);
    studio.replacing(this, this.isOwn, () => {
      this.describe(preset.text);
      this.language.value = spoken && card ? preset.language : 'auto';
      if (!own) studio.text = preset.sample;
    });
    const unspoken = () => t('design.hint_not_spoken', { model: card.id, language: title(preset.language) });
    this.hint.textContent = [spoken ? '' : unspoken(), own ? t('design.hint_text_kept') : ''].filter(Boolean).join(' ');
  }

  /** Whether the description is the user's own words. */
  get isOwn() {
    const { value } = this.description;
    return value.trim() !== '' && !this.picker.find(value);
  }

  draft() {
    const { description, language, cards, kept } = this;
    const seeds = cards.map(({ seed, lock }) => (lock.checked ? seed.value : ''));
    return { description: description.value, language: language.value, seeds, takes: kept.draft() };
  }

  /** @param {{description: string, language: string, seeds: string[]}} draft */
  recall({ description, language, seeds }) {
    this.hint.textContent = '';
    this.describe(description);
    preselect(this.language, language);
    this.cards.forEach(({ seed, lock, take }, index) => {
      lock.checked = Boolean(seeds[index]);
      seed.value = seeds[index] || (take?.seed ?? '');
    });
  }

  /** Bring the takes back that stood here. @param {{takes: Object[]}} draft */
  reopen({ takes }) {
    return this.kept.reopen(takes);
  }

  /** Whether a text came from presets/ and not from the user. @param {string} text */
  isSample(text) {
    return Object.values(this.studio.presets.texts).includes(text) || this.picker.isSample(text);
  }

  /** The fields of session.config that are this room's. @throws {FieldError} */
  config() {
    const instructions = this.description.value.trim();
    if (!instructions) throw new FieldError('instructions', this.t('design.describe_first'));
    return { instructions, language: this.language.value || 'auto' };
  }

  /** Put a kept take's words and seed back. @param {{text: string, config: Object, seed: number}} take */
  restore({ text, config, seed }) {
    this.studio.text = text;
    this.fill(config.instructions ?? '', config.language ?? 'auto', seed);
  }

  /** Take up the description and the seed that a voice came from. @param {Object} voice */
  again({ provenance, transcript }) {
    const { studio } = this;
    const own = this.isOwn || (studio.text.trim() !== '' && !this.isSample(studio.text));
    studio.replacing(this, own, () => {
      if (transcript) studio.text = transcript;
      this.fill(provenance.description ?? '', provenance.language ?? 'auto', provenance.seed);
    });
    this.description.focus();
  }

  fill(description, language, seed) {
    this.describe(description);
    this.language.value = language;
    if (this.language.selectedIndex < 0) this.language.value = 'auto';
    const [first] = this.cards;
    first.seed.value = String(seed ?? '');
    first.lock.checked = first.seed.value !== '';
  }

  // --- making takes

  /** Three takes at once; the first one is heard as it comes. @param {{clicked: number}} now */
  /** Who speaks here, for a line of a script. */
  spokenBy() {
    return { voice: { mode: this.mode, description: this.description.value.trim(), language: this.language.value }, instruct: '' };
  }

  async speak({ clicked }) {
    const seeds = this.seeds();
    const asked = this.asked();
    this.lay(FIRST);
    this.cards.forEach((card, index) => this.begin(card, asked, seeds[index]));
    this.play(this.cards[0], { clicked });
  }

  asked() {
    return { room: this.id, mode: this.mode, config: this.config(), text: this.studio.text };
  }

  /** The seed of each card: locked or drawn, no two alike. @throws {FieldError} */
  seeds() {
    const locked = this.cards.slice(0, FIRST).map((card, index) => this.locked(card, index));
    const fresh = drawn(FIRST, locked.filter((seed) => seed !== null));
    return locked.map((seed, index) => seed ?? fresh[index]);
  }

  /** @param {TakeCard} card @param {number} [before] so many cards before it may not have its seed; all others, if absent */
  locked(card, before = this.cards.length) {
    const seed = card.locked();
    if (seed === undefined) throw new FieldError(card.place, this.t('design.seed_range'));
    const twin = this.cards.slice(0, before).find((other) => other !== card && seed !== null && other.locked() === seed);
    if (twin) throw new FieldError(card.place, this.t('design.seed_twice', { letter: twin.letter }));
    return seed;
  }

  /**
   * @param {TakeCard} card @param {Object} asked @param {number} seed
   * @param {{parent?: string|null, origin?: import('../design/card.js').Origin|null, description?: string}} [lineage]
   */
  begin(card, asked, seed, { parent = null, origin = null, description } = {}) {
    const take = this.studio.say({ ...asked, seed, parent, label: this.t('design.take', { letter: card.letter }) });
    card.take?.cancel();
    this.keeping.forget(card);
    this.watch(card, take, { origin, description });
    take.addEventListener('done', () => take.state === 'done' && this.tell(card, 'design.said_done', { s: take.seconds.toFixed(1) }));
    take.addEventListener('done', () => take.isShort && this.studio.complain(card.place, this.studio.shortness(take), this.id));
    take.addEventListener('error', () => this.tell(card, 'design.said_failed', { why: take.error.message }));
  }

  /** Have a card show a take, and the others draw on its axes. @param {TakeCard} card @param {import('../take.js').Take} take @param {Object} lineage */
  watch(card, take, lineage) {
    card.show(take, lineage);
    take.addEventListener('progress', () => this.align());
    for (const event of ['done', 'stored']) take.addEventListener(event, () => this.match());
    this.match();
  }

  /** Say what happened to those who do not see it. @param {TakeCard} card @param {string} key @param {Object} [values] */
  tell(card, key, values = {}) {
    this.said.textContent = this.t(key, { letter: card.letter, ...values });
  }

  // --- what can be done with a take

  /** Do it, and say at its place why it cannot be done. @param {() => void|Promise<void>} deed */
  async attempt(deed) {
    const { studio } = this;
    studio.clearComplaints();
    studio.stage.player.arm().catch(() => studio.complain('request', this.t('shell.no_output')));
    try {
      await deed();
    } catch (error) {
      if (!(error instanceof FieldError) && !('code' in error)) throw error;
      studio.complain(error.field ?? error.param ?? 'request', error, this.id);
    }
  }

  /** One new take in the place of this one; the others stay. @param {TakeCard} card @param {{clicked: number}} now */
  reroll(card, { clicked }) {
    const others = this.cards.filter((other) => other !== card && other.take).map(({ take }) => take.seed);
    const seed = this.locked(card) ?? drawn(1, [...others, card.take.seed])[0];
    const { take, origin, description } = card;
    // What was made after a sound is made after it again.
    if (take.mode === 'base') this.begin(card, this.after(take), seed, { parent: take.parent, origin, description });
    else this.begin(card, this.asked(), seed);
    this.play(card, { clicked });
  }

  /** What Base was asked for once, with what the text says now. @param {{config: Object, reference: Blob|null}} take */
  after({ config, reference }) {
    return { room: this.id, mode: 'base', config, reference, text: this.studio.text };
  }

  /** More takes beside those that are there: of this very voice by Base, else of the same description. @param {TakeCard} card @param {{clicked: number}} now */
  async more(card, { clicked }) {
    const { take, description, letter } = card;
    const first = this.cards.length;
    if (first === LETTERS.length) throw new FieldError(card.place, this.t('design.full', { n: LETTERS.length }));
    await take.stored();
    const asked = card.closer ? this.after({ config: this.like(take), reference: take.wav() }) : this.described(card);
    const seeds = drawn(MORE, this.cards.flatMap((other) => other.take?.seed ?? []));
    this.lay(Math.min(LETTERS.length, first + MORE));
    /** @type {import('../design/card.js').Origin} */
    const origin = { letter, by: card.closer ? 'sound' : 'description' };
    const places = this.cards.slice(first);
    places.forEach((place, index) => this.begin(place, asked, seeds[index], { parent: take.id, origin, description }));
    this.play(places[0], { clicked });
    places[0].element.scrollIntoView({ block: 'nearest' });
  }

  /** What makes Base speak as a take does. @param {import('../take.js').Take} take */
  like({ text, config }) {
    const { languages } = this.studio.cards.get('base');
    const language = languages.includes(config.language) ? config.language : 'auto';
    return { language, ref_text: text, x_vector_only_mode: false };
  }

  /** A card's description once more, with what the text says now. @param {TakeCard} card */
  described({ description, take }) {
    const config = { instructions: description, language: take.config.language };
    return { room: this.id, mode: this.mode, config, text: this.studio.text };
  }

  /** @param {TakeCard} card */
  async keep(card) {
    if (this.studio.cards.has('base')) {
      this.keeping.open(card, this.picker.find(card.description)?.name ?? '');
      return;
    }
    await card.take.stored();
    if (card.take.id) await this.studio.history.favourite(card.take.id, true);
    card.favourite = true;
    card.refresh();
    this.studio.complain('request', this.t('design.kept_favourite', { letter: card.letter }));
  }

  onKept({ card, voice }) {
    card.voice = voice;
    card.refresh();
    this.studio.toast(this.t('design.kept', { name: voice.name }), {
      action: this.t('design.use'),
      onAction: () => this.studio.go('clone', { voice: voice.id }),
    });
  }

  /** Make a take again with a text that is long enough for a reference. @param {TakeCard} card */
  lengthen(card) {
    const { studio, description } = this;
    const { config, seed } = card.take;
    const own = studio.text.trim() !== '' && !this.isSample(studio.text);
    studio.replacing(this, own || (this.isOwn && description.value !== card.description), () => {
      studio.text = this.picker.sample(config.language, card.description);
      this.describe(card.description);
      this.language.value = config.language;
      card.seed.value = String(seed);
      card.lock.checked = true;
    });
    this.attempt(() => this.reroll(card, { clicked: performance.now() })).then(() => this.tell(card, 'design.longer_done'));
  }

  /** @param {TakeCard} card */
  use({ voice }) {
    this.studio.go('clone', { voice: voice.id });
  }

  /** @param {TakeCard} card */
  async drop(card) {
    const { take } = card;
    take.cancel({ isKept: false });
    if (this.heard === card) this.studio.stage.stop();
    this.keeping.forget(card);
    card.dropped = true;
    this.match();
    this.tell(card, 'design.dropped');
    this.studio.toast(this.t('design.dropped', { letter: card.letter }), {
      action: this.t('shell.undo'),
      onAction: () => this.attempt(() => this.undrop(card, take)),
    });
    if (take.state !== 'failed') await take.stored();
    if (take.id) await this.studio.history.remove(take.id);
  }

  /** @param {TakeCard} card @param {import('../take.js').Take} take */
  async undrop(card, take) {
    if (card.take === take) {
      card.dropped = false;
      this.match();
    }
    if (take.id) await this.studio.history.restore(take.id);
  }

  // --- listening

  /** @param {KeyboardEvent} event */
  onKey({ code, shiftKey }) {
    const [, digit] = /^(?:Digit|Numpad)([1-9])$/.exec(code) ?? [];
    const card = this.cards[Number(digit) - 1];
    if (card) this.toggle(card, { shift: shiftKey });
    return Boolean(card);
  }

  /** @param {TakeCard} card @param {{shift: boolean}} how  shift: go on where the last one is */
  toggle(card, { shift }) {
    const { stage } = this.studio;
    if (!card.playable) return;
    if (card.playing) return stage.stop();
    this.attempt(() => this.play(card, { from: shift ? this.position() : 0 }));
  }

  /** Where the take that was heard last is, seconds. */
  position() {
    const { stage } = this.studio;
    return this.heard && stage.take === this.heard.take ? stage.at / SAMPLE_RATE : 0;
  }

  /** @param {TakeCard} card @param {{from?: number, clicked?: number}} options  clicked: of a take that was just asked for */
  play(card, { from = 0, clicked }) {
    const { stage } = this.studio;
    const { take, gainDb } = card;
    const over = !take.live && from >= take.seconds;
    this.heard = card;
    stage.play(take, { from: over ? 0 : from, gainDb, clicked });
    this.programme = stage.programme;
    this.onStage();
  }

  onStage() {
    const { stage } = this.studio;
    const sounding = stage.sounding && stage.programme === this.programme ? this.heard : null;
    for (const card of this.cards) card.sound(card === sounding);
    this.follow();
  }

  /** Move through the waveform of the take that is heard. */
  follow() {
    const { stage } = this.studio;
    cancelAnimationFrame(this.frame);
    if (this.heard && stage.take === this.heard.take) this.heard.wave.seek(stage.at);
    if (this.heard?.playing) this.frame = requestAnimationFrame(() => this.follow());
  }

  /** Turn all down to the quietest. */
  match() {
    const levels = this.cards.map(({ take, dropped }) => (dropped ? null : (take?.lufs ?? null)));
    const { level, gains } = matched(levels);
    this.cards.forEach((card, index) => card.level(gains[index], level !== null && levels[index] !== null));
    this.align();
  }

  /** Draw all on the same axes, at most once a frame. */
  align() {
    this.aligning ??= requestAnimationFrame(() => {
      this.aligning = null;
      const heard = this.cards.filter(({ take, dropped }) => take && !dropped);
      const longest = Math.max(0, ...heard.map(({ take }) => take.samples));
      const scale = 1 / Math.max(LOWEST, ...heard.map(({ height }) => height));
      for (const card of this.cards) card.stretch(longest, scale);
    });
  }

  refresh() {
    for (const card of this.cards) card.refresh();
  }
}
