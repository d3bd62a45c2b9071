/**
 * The Design room: a described voice (VoiceDesign) in three takes, more of what is liked, and the one that is kept.
 *
 * The three are asked for at once on the one socket, so that the engine makes them as one batch. What a take
 * sounds like follows from description, language, text and seed; each is stored with all four. Whatever is asked for
 * next becomes a set of its own above the others: spoken by Base after a take's sound, or of a description that was
 * changed, with the seeds that it had. Nothing is overwritten.
 */

import { TakeCard } from '../design/card.js';
import { changed } from '../design/changes.js';
import { DesignedVoices } from '../design/designed.js';
import { Keeping } from '../design/keeping.js';
import { Kept } from '../design/kept.js';
import { Listening } from '../design/listening.js';
import { called } from '../design/names.js';
import { PresetPicker } from '../design/picker.js';
import { anySeed, series } from '../design/seeds.js';
import { TakeMenu } from '../design/take_menu.js';
import { TakeSet } from '../design/take_set.js';
import { need } from '../elements.js';
import { errorOf } from '../errors.js';
import { SAMPLE_RATE } from '../outputs.js';
import { wavBlob } from '../wav.js';
import { FieldError, fillLanguages, preselect, title } from './fields.js';

/**
 * @typedef {import('../design/take_set.js').Origin} Origin
 * @typedef {import('../take.js').Asked} Asked
 * @typedef {import('../take.js').Config} Config
 * @typedef {import('../design/card.js').Asks} Asks
 * @typedef {{description: string, language: string, count?: number, sets?: import('../design/kept.js').KeptSet[]}} Draft
 */

const LETTERS = [...'ABC'];
const MORE = 2; // takes that are added to a set
const LABEL = 200; // characters of a take's label
const SHOWN = 6; // sets; older ones are in the library only
/** How Base is to vary a take beside its seed: the word for it, and what the temperature is multiplied by. */
const VARIED = [
  { note: null, by: 1 },
  { note: 'design.note.steadier', by: 0.75 },
  { note: 'design.note.livelier', by: 1.2 },
];

export class DesignRoom {
  static id = 'design';
  id = 'design';
  /** @type {'voice_design'} */
  mode = 'voice_design';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.t = studio.t;
    this.description = need(root, '#vw-design-description', HTMLTextAreaElement);
    this.language = need(root, '#vw-design-language', HTMLSelectElement);
    this.hint = need(root, '#vw-design-hint');
    this.said = need(root, '#vw-design-said');
    this.empty = need(root, '#vw-design-empty');
    this.holder = need(root, '#vw-design-sets');
    this.templates = { set: need(root, '#vw-design-set', HTMLTemplateElement), take: need(root, '#vw-design-take', HTMLTemplateElement) };
    /** Newest first. @type {TakeSet[]} */
    this.sets = [];
    this.count = 0; // of sets that were ever made here
    this.picker = new PresetPicker(root, studio.presets.designs, this.t);
    this.keeping = new Keeping(root, studio);
    this.menu = new TakeMenu(need(root, '#vw-design-menu'), this.t, {
      again: (card) => this.fromTake(card),
      drop: (card) => this.attempt(() => this.drop(card)),
    });
    this.designed = new DesignedVoices(root, studio, { again: (voice) => this.again(voice) });
    this.listening = new Listening(studio.stage, () => this.cards);
    this.kept = new Kept(this);
    this.describe(studio.presets.designs[0].text);
    this.listen();
    this.refresh();
  }

  listen() {
    this.description.oninput = () => {
      this.hint.textContent = '';
      this.picker.mark(this.description.value);
    };
    this.picker.on('choose', (preset) => this.choose(preset));
    this.keeping.on('kept', (kept) => this.onKept(kept));
    this.keeping.on('longer', ({ card }) => this.lengthen(card));
    this.keeping.on('closed', ({ card }) => this.focus(card));
  }

  /** All that are shown, of the newest set first. */
  get cards() {
    return this.sets.flatMap(({ cards }) => cards);
  }

  // --- the form

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (!card) return;
    fillLanguages(this.language, card, this.t);
    this.picker.offer(card);
    for (const shown of this.cards) shown.closer = this.clones;
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
    const own = this.isOwnText;
    studio.replacing(this, this.isOwn, () => {
      this.describe(preset.text);
      this.language.value = spoken && card ? preset.language : 'auto';
      if (!own) studio.text = preset.sample;
    });
    const unspoken = spoken ? '' : t('design.hint_not_spoken', { model: studio.modelName(card), language: title(preset.language) });
    this.hint.textContent = [unspoken, own ? t('design.hint_text_kept') : ''].filter(Boolean).join(' ');
  }

  /** Whether the description is the user's own words. */
  get isOwn() {
    const { value } = this.description;
    return value.trim() !== '' && !this.picker.find(value);
  }

  /** The name of the preset that a description still is, or ''. @param {string} description */
  presetOf(description) {
    return this.picker.find(description)?.name ?? '';
  }

  /** Whether the text is the user's own. */
  get isOwnText() {
    return this.studio.text.trim() !== '' && !this.isSample(this.studio.text);
  }

  draft() {
    const { description, language, count, kept } = this;
    return { description: description.value, language: language.value, count, sets: kept.draft() };
  }

  /** @param {Draft} draft */
  recall({ description, language, count = 0 }) {
    this.hint.textContent = '';
    this.describe(description);
    preselect(this.language, language);
    this.count = Math.max(this.count, count);
  }

  /** Bring the takes back that stood here. @param {Draft} draft */
  reopen({ sets }) {
    return this.kept.reopen(sets);
  }

  /** @param {import('../take.js').Take} take */
  placeOf(take) {
    return this.kept.placeOf(take);
  }

  /** @param {import('../take.js').Take} take @param {import('../design/kept.js').Place} place */
  regain(take, place) {
    return this.kept.regain(take, place);
  }

  /** Hear a take that stands here. @param {import('../take.js').Take} take @param {{clicked: number}} now */
  hear(take, { clicked }) {
    const card = this.cards.find((one) => one.take === take);
    if (card) this.listening.play(card, { clicked });
  }

  /** What was made after a sound was made after that of the take that it comes from. @param {Asked} asked */
  async referenceOf({ parent }) {
    return parent ? wavBlob([await this.studio.history.sound(parent)], SAMPLE_RATE) : null;
  }

  /** Sets come back: what stands below them has its place once they are there. @param {boolean} coming */
  awaits(coming) {
    this.root.toggleAttribute('data-coming', coming);
  }

  /** Whether a text came from presets/ and not from the user. @param {string} text */
  isSample(text) {
    return Object.values(this.studio.presets.texts).includes(text) || this.picker.isSample(text);
  }

  leave() {
    this.keeping.letGo();
  }

  /** The fields of session.config that are this room's. @throws {FieldError} */
  config() {
    const instructions = this.description.value.trim();
    if (!instructions) throw new FieldError('instructions', this.t('design.describe_first'));
    return { instructions, language: this.language.value || 'auto', ...this.studio.variation.sampling };
  }

  /** Put a kept take's words back. @param {import('../studio.js').Restored} take */
  restore({ config }) {
    this.fill(config.instructions ?? '', config.language ?? 'auto');
  }

  /** Put what a take came from into the form: its seed with it, unless it was made after a sound. @param {TakeCard} card */
  fromTake({ take, description }) {
    const { text, config, seed, mode } = take;
    if (mode === this.mode) this.takeUp({ text, config, seed });
    else this.takeUp({ text, config: { instructions: description, language: config.language }, seed: null });
  }

  /** @param {{text: string, config: Config, seed: number|null}} request that is to be made again */
  takeUp({ text, config, seed }) {
    const { studio } = this;
    studio.replacing(this, this.isOwn || this.isOwnText, () => {
      studio.text = text;
      if (config.instructions) this.fill(config.instructions, config.language ?? 'auto');
      studio.variation.restore({ seed, config });
    });
    this.description.focus();
  }

  /** Take up the description and the seed that a voice came from. @param {import('../voices.js').StoredVoice} voice */
  again({ provenance, transcript }) {
    const { description = '', language = 'auto', seed } = provenance;
    const known = seed === undefined ? null : Number(seed);
    this.takeUp({ text: transcript || this.studio.text, config: { instructions: description, language }, seed: known });
  }

  /** @param {string} description @param {string} language */
  fill(description, language) {
    this.describe(description);
    this.language.value = language;
    if (this.language.selectedIndex < 0) this.language.value = 'auto';
  }

  /** Who speaks here, for a line of a script. @returns {import('../studio.js').SpokenBy} */
  spokenBy() {
    return { voice: { mode: this.mode, description: this.description.value.trim(), language: this.language.value }, instruct: '' };
  }

  // --- making takes

  /** Three takes at once; the first one is heard as it comes. @param {{clicked: number}} now */
  speak({ clicked }) {
    const asked = this.asked(this.config());
    const seeds = series(this.studio.variation.nextSeed(), LETTERS.length);
    this.make(seeds.map((seed) => ({ asked: { ...asked, seed } })), { kind: 'described', from: null }, { clicked });
  }

  /** All but the seed of a take that is described. @param {Config} config */
  asked(config) {
    return { room: this.id, mode: this.mode, config, text: this.studio.text };
  }

  /**
   * Ask for takes, as a new set above the others, and hear the first one as it comes.
   *
   * @param {{asked: Asked, letter?: string, note?: string|null}[]} wanted
   * @param {Origin} origin
   * @param {{clicked: number, description?: string}} options  description: of a voice that is made after a sound
   */
  make(wanted, origin, { clicked, description }) {
    const number = this.count + 1;
    const followed = description ?? wanted[0].asked.config.instructions ?? '';
    const name = called(this.presetOf(followed), followed);
    const cards = wanted.map(({ asked, letter = '', note = null }, index) => {
      const own = letter || LETTERS[index];
      // The name tells takes of different voices apart. What was made after a sound has no description in its request: then its label has it.
      const whole = description === name ? '' : description;
      const label = [name, this.t('design.take', { letter: `${number}${own}` }), whole].filter(Boolean).join(' · ');
      const take = this.studio.say({ ...asked, label: [...label].slice(0, LABEL).join('') });
      return { take, letter: own, note, voice: null };
    });
    this.count = number;
    this.keeping.letGo();
    const set = this.bring({ number, at: Date.now(), origin, description: followed }, cards);
    this.listening.play(set.cards[0], { clicked });
    set.element.scrollIntoView({ block: 'nearest' });
  }

  /**
   * Show a set: above the others, where its number is higher than theirs.
   *
   * @param {{number: number, at: number, origin: Origin, description: string}} given
   * @param {{take: import('../take.js').Take, letter: string, note: string|null, voice: import('../design/card.js').KeptAs|null}[]} cards
   */
  bring({ number, at, origin, description }, cards) {
    const set = new TakeSet(this.templates.set, { number, at, origin }, this.t);
    this.studio.words.apply(set.element);
    set.more.onclick = () => this.attempt(() => this.more(set, { clicked: performance.now() }));
    for (const given of cards) set.put(this.card({ ...given, set: number, description }));
    this.lay(set);
    for (const gone of this.sets.splice(SHOWN)) this.clear(gone);
    this.listening.match();
    this.refresh();
    return set;
  }

  /** Put one more take into a set. @param {TakeSet} set @param {Parameters<DesignRoom['bring']>[1][0]} given @param {string} description */
  join(set, given, description) {
    set.put(this.card({ ...given, set: set.number, description }));
    this.listening.match();
    this.refresh();
  }

  /** @param {ConstructorParameters<typeof TakeCard>[1]} given */
  card(given) {
    const card = new TakeCard(this.templates.take, given, this.t);
    const { take } = card;
    this.studio.words.apply(card.element);
    card.closer = this.clones;
    card.favourite = Boolean(take.record?.favourite);
    card.on('play', (how) => this.toggle(card, how));
    card.addEventListener('menu', () => this.menu.of(card));
    card.on('act', (asks) => this.attempt(() => this.act(card, asks)));
    take.addEventListener('done', () => take.state === 'done' && this.tell(card, 'design.said_done', { s: take.seconds.toFixed(1) }));
    take.addEventListener('done', () => take.isShort && this.studio.complain(card.error, this.studio.shortness(take)));
    take.addEventListener('error', () => this.tell(card, 'design.said_failed', { why: take.error?.message ?? '' }));
    this.listening.watch(card);
    return card;
  }

  /** @param {TakeSet} set */
  lay(set) {
    const below = this.sets.findIndex(({ number }) => number < set.number);
    const place = below < 0 ? this.sets.length : below;
    this.holder.insertBefore(set.element, this.sets[place]?.element ?? null);
    this.sets.splice(place, 0, set);
  }

  /** @param {TakeSet} set that has no place here any more */
  clear(set) {
    for (const card of set.cards) {
      this.keeping.forget(card);
      card.end();
    }
    set.element.remove();
  }

  /** Say what happened to those who do not see it. @param {TakeCard} card @param {string} key @param {Object<string, unknown>} [values] */
  tell(card, key, values = {}) {
    this.said.textContent = this.t(key, { letter: card.name, ...values });
  }

  // --- what can be done with a take

  /** What a card asks for. @param {TakeCard} card @param {Asks} asks */
  act(card, { act, change, clicked }) {
    if (act === 'keep') return this.keep(card);
    if (act === 'use') return this.use(card);
    if (act === 'again') return this.makeAgain(card);
    if (act === 'closer') return this.closer(card, { clicked });
    if (change) return this.change(card, { change, clicked });
  }

  /** Whether a checkpoint is loaded that speaks after a sound. */
  get clones() {
    return this.studio.cards.has('base');
  }

  /** Do it, and say at its place why it cannot be done. @param {() => void|Promise<void>} deed */
  async attempt(deed) {
    const { studio } = this;
    studio.clearComplaints();
    studio.stage.player.arm().catch(() => studio.complain('request', this.t('shell.no_output')));
    try {
      await deed();
    } catch (thrown) {
      const error = errorOf(thrown);
      if (!error.field && !error.code) throw error;
      studio.complain(error.field ?? error.param ?? 'request', error, this.id);
    }
  }

  /** Two more of what a set is: of the same description, or after the same sound, and of its text, at which it is compared. @param {TakeSet} set @param {{clicked: number}} now */
  more(set, { clicked }) {
    const [{ take, description }] = set.cards;
    const { mode, config, reference, parent, text } = take;
    const asked = { room: this.id, mode, config, reference, parent, text };
    const wanted = series(anySeed(), MORE).map((seed) => ({ asked: { ...asked, seed } }));
    this.make(wanted, { kind: mode === 'base' ? 'closer' : 'more', from: set.origin.from ?? set.cards[0].name }, { clicked, description });
  }

  /** The same person again: Base speaks after this take's sound, once as always, once steadier, once livelier. @param {TakeCard} card @param {{clicked: number}} now */
  async closer(card, { clicked }) {
    const { take, description, name } = card;
    await take.stored();
    const { languages = [], sampling } = this.studio.cards.get('base') ?? {};
    const spoken = take.config.language ?? 'auto';
    const language = languages.includes(spoken) ? spoken : 'auto';
    const config = { language, ref_text: take.sent, x_vector_only_mode: false };
    const mode = /** @type {const} */ ('base');
    const asked = { room: this.id, mode, config, reference: take.wav(), parent: take.id, text: this.studio.text };
    const seeds = series(anySeed(), VARIED.length);
    const wanted = VARIED.map(({ note, by }, index) => {
      const temperature = { temperature: Number(((sampling?.temperature ?? 0.9) * by).toFixed(2)) };
      return { note, asked: { ...asked, seed: seeds[index], config: { ...config, ...(note && temperature) } } };
    });
    this.make(wanted, { kind: 'closer', from: name }, { clicked, description });
  }

  /** A description with one more wish, spoken with the seeds that this set has. @param {TakeCard} card @param {{change: import('../design/changes.js').Change, clicked: number}} asked */
  change(card, { change, clicked }) {
    const { studio } = this;
    const set = this.sets.find(({ cards }) => cards.includes(card));
    if (!set) return;
    const { description, words } = changed(card.description, change);
    const { config, text } = card.take;
    const wanted = set.cards.map(({ take, letter }) => ({
      letter,
      asked: { ...this.asked({ ...config, instructions: description }), text, seed: take.seed, parent: take.id },
    }));
    this.make(wanted, { kind: 'changed', from: card.name, words }, { clicked });
    const sentence = this.t('design.changed', { words });
    studio.replacing(this, true, () => this.describe(description), sentence);
  }

  /** @param {TakeCard} card */
  async keep(card) {
    if (this.clones) {
      this.keeping.open(card, this.presetOf(card.description));
      return;
    }
    await card.take.stored();
    if (card.take.id) await this.studio.history.favourite(card.take.id, true);
    card.favourite = true;
    card.refresh();
    this.studio.complain('request', this.t('design.kept_favourite', { letter: card.name }));
  }

  /** @param {{card: TakeCard, voice: import('../design/card.js').KeptAs}} kept */
  onKept({ card, voice }) {
    card.voice = voice;
    card.refresh();
    this.focus(card);
    this.tell(card, 'design.kept', { name: voice.name });
    this.studio.toast(this.t('design.kept', { name: voice.name }), {
      action: this.t('shell.undo'),
      onAction: () => this.attempt(() => this.unkeep(card, voice)),
    });
  }

  /** @param {TakeCard} card @param {{id: string}} voice */
  async unkeep(card, voice) {
    await this.studio.api.delete(`studio/voices/${voice.id}`);
    card.voice = null;
    card.refresh();
    await this.studio.voices.refresh();
  }

  /** Put the focus on what a card offers first. @param {TakeCard} card */
  focus(card) {
    const first = card.buttons.find(({ offsetParent, disabled }) => offsetParent && !disabled);
    (first ?? card.play).focus({ preventScroll: true });
  }

  /** Make a take again with a text that is long enough for a reference. @param {TakeCard} card */
  lengthen(card) {
    const { studio, description } = this;
    const { config, seed } = card.take;
    studio.replacing(this, this.isOwnText || (this.isOwn && description.value !== card.description), () => {
      const { language = 'auto' } = config;
      studio.text = this.picker.sample(language, card.description);
      this.fill(card.description, language);
    });
    const asked = { ...this.asked({ ...config, instructions: card.description }), seed };
    const origin = { kind: /** @type {const} */ ('longer'), from: card.name };
    this.attempt(() => this.make([{ asked }], origin, { clicked: performance.now() })).then(() => this.tell(card, 'design.longer_done'));
  }

  /** Ask once more for a take that was stopped or has failed for what may be over; the new one stands in its place. @param {TakeCard} card */
  makeAgain(card) {
    const set = this.sets.find(({ cards }) => cards.includes(card));
    if (!set) return;
    const { take, letter, note, description } = card;
    const { mode, config, reference, parent, text, seed, label } = take;
    const next = this.studio.say({ room: this.id, mode, config, reference, parent, text, seed, label });
    const made = this.card({ take: next, letter, note, voice: null, set: set.number, description });
    this.keeping.forget(card);
    set.take(card);
    card.end();
    set.put(made);
    this.refresh();
    this.listening.play(made, { clicked: performance.now() });
  }

  /** @param {TakeCard} card */
  use({ voice }) {
    if (voice) this.studio.go('speakers', { voice: voice.id });
  }

  /** @param {TakeCard} card */
  async drop(card) {
    const { take } = card;
    const set = this.sets.find(({ cards }) => cards.includes(card));
    if (!set) return;
    take.cancel({ isKept: false });
    if (this.listening.heard === card) this.studio.stage.stop();
    this.keeping.forget(card);
    set.take(card);
    if (set.cards.length === 0) this.sets.splice(this.sets.indexOf(set), 1)[0].element.remove();
    this.listening.match();
    this.refresh();
    this.tell(card, 'design.dropped');
    this.studio.toast(this.t('design.dropped', { letter: card.name }), {
      action: this.t('shell.undo'),
      onAction: () => this.attempt(() => this.undrop(card, set)),
    });
    if (take.state !== 'failed') await take.stored();
    if (take.id) await this.studio.history.remove(take.id);
  }

  /** @param {TakeCard} card @param {TakeSet} set that it stood in */
  async undrop(card, set) {
    if (!this.sets.includes(set)) this.lay(set);
    set.put(card);
    this.listening.match();
    this.refresh();
    if (card.take.id) await this.studio.history.restore(card.take.id);
  }

  // --- listening

  /** @param {KeyboardEvent} event */
  onKey({ code, shiftKey }) {
    const [, digit] = /^(?:Digit|Numpad)([1-9])$/.exec(code) ?? [];
    const card = this.sets[0]?.cards.find(({ key }) => key === Number(digit));
    if (card) this.toggle(card, { shift: shiftKey });
    return Boolean(card);
  }

  /** @param {TakeCard} card @param {{shift: boolean}} how  shift: go on where the last one is */
  toggle(card, { shift }) {
    const { listening, studio } = this;
    if (!card.playable) return;
    if (card.playing) return studio.stage.stop();
    this.attempt(() => listening.play(card, { from: shift ? listening.position : 0 }));
  }

  refresh() {
    this.empty.hidden = this.sets.length > 0;
    this.holder.hidden = this.sets.length === 0;
    const changed = this.sets.find((set) => set.isDescribed);
    this.sets.forEach((set, index) => set.refresh(this.studio.words.language, { isNewest: index === 0, takesChanges: set === changed }));
  }
}
