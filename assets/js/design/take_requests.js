/** Requests for takes (voice samples) in the Design room: seeds, changes and clones. */

import { captionForRequest } from './names.js';

// --- Seeds of takes, which are 32-bit integers. The first seed of a set determines the other seeds, so one constant seed
// reproduces the set.

/** Return a random seed, which is an unsigned 32-bit integer. @returns {number} */
export function randomSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

/**
 * Return several different seeds that are derived from the first seed.
 *
 * @param {number} first
 * @param {number} count
 * @returns {number[]}
 */
export function seedsFrom(first, count) {
  const seeds = new Set([first]);
  for (let step = 1; seeds.size < count; step++) seeds.add(mixed(first + step * 0x9e3779b9));
  return [...seeds].slice(0, count);
}

/**
 * Mix the bits of a number with the finalizer of MurmurHash3.
 *
 * Every input bit affects every output bit.
 *
 * @param {number} number
 */
function mixed(number) {
  let bits = number >>> 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

// --- Attributes that are added to a description in its language: older, warmer, slower, lower.

/** @typedef {'older'|'warmer'|'slower'|'lower'} Change */

/** @type {Record<Change, {en: string, zh: string}>} */
const WORDS = {
  older: { en: 'older, with a little more air', zh: '更年长，气息更多一些' },
  warmer: { en: 'warmer', zh: '更温暖' },
  slower: { en: 'slower, with longer pauses', zh: '语速更慢，停顿更长' },
  lower: { en: 'lower in pitch', zh: '音调更低' },
};


/**
 * Return a description with one more attribute, such as "warmer".
 *
 * If the description already has the attribute, "even warmer" is added.
 *
 * @param {string} description
 * @param {Change} change
 * @returns {{description: string, words: string}}  new description, and the added text
 */
export function changeDescription(description, change) {
  const stem = description.trim();
  const isChinese = /\p{Script=Han}/u.test(stem) && !/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(stem);
  const { en, zh } = WORDS[change];
  const plain = isChinese ? zh : en;
  const again = stem.toLowerCase().includes(plain);
  const words = again ? (isChinese ? `再${plain.slice(plain.indexOf('更'))}` : `even ${plain}`) : plain;
  const gap = isChinese ? '' : ' ';
  const end = isChinese ? '。' : '.';
  const closed = /[.!?…。！？]$/u.test(stem) ? stem : stem + end;
  return { description: `${closed}${gap}${words[0].toLocaleUpperCase()}${words.slice(1)}${end}`, words };
}

// --- Requests: takes of a description, more takes of a set, and variations of a take.

/**
 * @typedef {import('./card.js').TakeCard} TakeCard
 * @typedef {import('./sets.js').TakeSet} TakeSet
 * @typedef {import('./sets.js').Origin} Origin
 * @typedef {import('../player/take.js').TakeRequest} TakeRequest
 * @typedef {import('../player/take.js').Config} Config
 */

const LETTERS = [...'ABC'];
const ADDED_TAKES = 2; // Number of takes that the button *Two more* requests.
const MAX_LABEL_CHARS = 200;
/** Variations of a clone, each with the message key of its name and a temperature factor. */
const VARIED = [
  { note: null, by: 1 },
  { note: 'design.note.steadier', by: 0.75 },
  { note: 'design.note.livelier', by: 1.2 },
];

/** Requests for takes (voice samples) in the Design room. */
export class TakeRequests {
  /** Create the requests of a Design room. @param {import('./room.js').DesignRoom} room */
  constructor(room) {
    this.room = room;
    this.studio = room.studio;
  }

  /**
   * Request three takes (voice samples) of the description, and play the first one.
   *
   * @param {{clicked: number}} now clicked: time of the click (performance.now())
   */
  requestTakes({ clicked }) {
    const asked = this.requestFor(this.room.config());
    const seeds = seedsFrom(this.studio.variation.nextSeed(), LETTERS.length);
    this.requestSet(seeds.map((seed) => ({ asked: { ...asked, seed } })), { kind: 'described', from: null }, { clicked });
  }

  /** Return the request for a take (voice sample), without its seed. @param {Config} config */
  requestFor(config) {
    return { room: this.room.id, mode: this.room.mode, config, text: this.studio.text };
  }

  /**
   * Request several takes, show them as a new set, and play the first one.
   *
   * @param {{asked: TakeRequest, letter?: string, note?: string|null}[]} takes
   * @param {Origin} origin
   * @param {{clicked: number, description?: string}} options  description: description of a cloned voice
   */
  requestSet(takes, origin, { clicked, description }) {
    const { room } = this;
    const number = room.shownSets.count + 1;
    const followed = description ?? takes[0].asked.config.instructions ?? '';
    const preset = room.presetOf(followed);
    const cards = takes.map(({ asked, letter = '', note = null }, index) => {
      const own = letter || LETTERS[index];
      // The name distinguishes takes of different voices. A request without a preset is labelled with its description.
      const label = captionForRequest(preset, this.room.t('design.take', { letter: `${number}${own}` }), followed, description);
      const take = this.studio.speech.say({ ...asked, label: [...label].slice(0, MAX_LABEL_CHARS).join('') });
      return { take, letter: own, note, voice: null };
    });
    room.shownSets.count = number;
    room.keepForm.releaseHeight();
    const set = room.shownSets.insert({ number, at: Date.now(), origin, description: followed }, cards);
    room.playback.play(set.cards[0], { clicked });
    set.element.scrollIntoView({ block: 'nearest' });
  }

  /**
   * Request two more takes with the same input as a set, but other seeds.
   *
   * The input is the text, and either the description or the reference audio.
   *
   * @param {TakeSet} set @param {{clicked: number}} now
   */
  requestMore(set, { clicked }) {
    const [{ take, description }] = set.cards;
    const { mode, config, reference, parent, text } = take;
    const asked = { room: this.room.id, mode, config, reference, parent, text };
    const wanted = seedsFrom(randomSeed(), ADDED_TAKES).map((seed) => ({ asked: { ...asked, seed } }));
    this.requestSet(wanted, { kind: mode === 'base' ? 'closer' : 'more', from: set.origin.from ?? set.cards[0].name }, { clicked, description });
  }

  /**
   * Request three clones of a take: normal, steadier (low temperature), and livelier.
   *
   * A Base checkpoint generates the clones with the take as reference audio.
   *
   * @param {TakeCard} card
   * @param {{clicked: number}} now
   */
  async requestVariations(card, { clicked }) {
    const { take, description, name } = card;
    await take.stored();
    const { languages = [], sampling } = this.studio.cards.get('base') ?? {};
    const spoken = take.config.language ?? 'auto';
    const language = languages.includes(spoken) ? spoken : 'auto';
    const config = { language, ref_text: take.words, x_vector_only_mode: false };
    const mode = /** @type {const} */ ('base');
    const asked = { room: this.room.id, mode, config, reference: take.wav(), parent: take.id, text: this.studio.text };
    const seeds = seedsFrom(randomSeed(), VARIED.length);
    const wanted = VARIED.map(({ note, by }, index) => {
      const temperature = { temperature: Number(((sampling?.temperature ?? 0.9) * by).toFixed(2)) };
      return { note, asked: { ...asked, seed: seeds[index], config: { ...config, ...(note && temperature) } } };
    });
    this.requestSet(wanted, { kind: 'closer', from: name }, { clicked, description });
  }

  /**
   * Request takes of a changed description with the seeds of an existing set.
   *
   * The new description has one more attribute, such as "warmer".
   *
   * @param {TakeCard} card
   * @param {{change: Change, clicked: number}} asked
   */
  requestChanged(card, { change, clicked }) {
    const { studio } = this;
    const set = this.room.shownSets.setOf(card);
    if (!set) return;
    const { description, words } = changeDescription(card.description, change);
    const { config, text } = card.take;
    const wanted = set.cards.map(({ take, letter }) => ({
      letter,
      asked: { ...this.requestFor({ ...config, instructions: description }), text, seed: take.seed, parent: take.id },
    }));
    this.requestSet(wanted, { kind: 'changed', from: card.name, words }, { clicked });
    const sentence = this.room.t('design.changed', { words });
    studio.undo.replacing(this.room, true, () => this.room.describe(description), sentence);
  }

  /** Request a take again with a longer text, so that a voice can be cloned from it. @param {TakeCard} card */
  requestLonger(card) {
    const { room, studio } = this;
    const { config, seed } = card.take;
    studio.undo.replacing(room, room.isOwnText || (room.isOwnDescription && room.description.value !== card.description), () => {
      const { language = 'auto' } = config;
      studio.text = room.picker.sample(language, card.description);
      room.fill(card.description, language);
    });
    const asked = { ...this.requestFor({ ...config, instructions: card.description }), seed };
    const origin = { kind: /** @type {const} */ ('longer'), from: card.name };
    room.attempt(() => this.requestSet([{ asked }], origin, { clicked: performance.now() })).then(() => room.announce(card, 'design.longer_done'));
  }

  /**
   * Request a take again, for example after a failure, and replace the old take.
   *
   * @param {TakeCard} card
   */
  repeatTake(card) {
    const { room } = this;
    const set = room.shownSets.setOf(card);
    if (!set) return;
    const { take, letter, note, description } = card;
    const { mode, config, reference, parent, text, seed, label } = take;
    const next = this.studio.speech.say({ room: room.id, mode, config, reference, parent, text, seed, label });
    const made = room.shownSets.card({ take: next, letter, note, voice: null, set: set.number, description });
    room.keepForm.forget(card);
    set.removeCard(card);
    card.end();
    set.insertCard(made);
    room.refresh();
    room.playback.play(made, { clicked: performance.now() });
  }
}
