/**
 * Sets of takes (voice samples) in the Design room.
 *
 * A set contains the takes of one request: takes of one description, or variations of one take.
 *
 * @typedef {{kind: 'described'|'more'|'changed'|'closer'|'longer', from: string|null, words?: string}} Origin
 *   from: name of the source take, such as 1B; words: text that was added to the description
 */

import { copyOf, getElement } from '../common/elements.js';
import { TakeCard } from './card.js';

/** Set of the takes (voice samples) of one request, with one card for each take. */
export class TakeSet {
  /**
   * Create an empty set from a template.
   *
   * @param {HTMLTemplateElement} template
   * @param {{number: number, at: number, origin: Origin}} given  at: time in milliseconds since 1970
   * @param {(key: string, values?: Object<string, any>) => string} t
   */
  constructor(template, { number, at, origin }, t) {
    this.number = number;
    this.at = at;
    this.origin = origin;
    this.t = t;
    this.element = copyOf(template);
    const find = (/** @type {string} */ selector) => getElement(this.element, selector);
    this.title = find('h2');
    this.title.id = `vw-design-set-${number}`;
    this.element.setAttribute('aria-labelledby', this.title.id);
    this.what = find('.vw-design-set-what');
    this.hint = find('.vw-hint');
    this.more = find('.vw-design-set-more');
    this.list = find('ol');
    /** @type {TakeCard[]} */
    this.cards = [];
  }

  /** Insert a card into the set, in the order of the cards' letters. @param {TakeCard} card */
  insertCard(card) {
    const after = this.cards.findIndex(({ letter }) => letter > card.letter);
    const place = after < 0 ? this.cards.length : after;
    this.list.insertBefore(card.element, this.cards[place]?.element ?? null);
    this.cards.splice(place, 0, card);
  }

  /** Remove a card from the set and from the page. @param {TakeCard} card */
  removeCard(card) {
    this.cards = this.cards.filter((other) => other !== card);
    card.element.remove();
  }

  /** True if the takes were generated from a description and not as clones. */
  get isDescribed() {
    return this.origin.kind !== 'closer';
  }

  /**
   * Update the heading, the hint and the cards of the set.
   *
   * @param {string} language language of the page
   * @param {{isNewest: boolean, takesChanges: boolean}} place  takesChanges: true for the newest set from a description
   */
  refresh(language, { isNewest, takesChanges }) {
    const { t, origin } = this;
    this.element.classList.toggle('vw-design-set-old', !isNewest);
    this.element.classList.toggle('vw-design-set-changes', takesChanges);
    this.title.textContent = t('design.set', { n: this.number });
    this.what.textContent = origin.kind === 'changed' ? `+ ${origin.words}` : origin.kind === 'described' ? '' : t(`design.origin.${origin.kind}`);
    this.what.classList.toggle('vw-design-set-change', origin.kind === 'changed');
    const from = origin.from ? t('design.origin.from', { letter: origin.from }) : '';
    const time = new Intl.DateTimeFormat(language, { timeStyle: 'short' }).format(this.at);
    this.hint.textContent = [from, time].filter(Boolean).join(' · ');
    this.more.ariaLabel = t('design.act_of_set', { act: t('design.more'), n: this.number });
    for (const card of this.cards) card.refresh();
  }
}

/**
 * Sets of takes that are stored with the room's draft and restored after a reload.
 *
 * `placeOf` returns the position of a take. A take that is requested again after the reload is shown there.
 *
 * @typedef {import('../player/take.js').Take} Take
 * @typedef {Omit<StoredSet, 'takes'> & {letter: string, note: string|null}} SetPosition  position of a take in a set
 * @typedef {{id: string, letter: string, note: string|null, voice: {id: string, name: string}|null}} StoredTake
 * @typedef {{number: number, at: number, origin: Origin, description: string, takes: StoredTake[]}} StoredSet
 */

export class SavedSets {
  /** Create the stored sets of a Design room. @param {import('./room.js').DesignRoom} room */
  constructor(room) {
    this.room = room;
    /** Sets that are still being loaded. @type {StoredSet[]} */
    this.pendingSets = [];
    /** Promise that settles when all sets are restored. */
    this.restored = Promise.resolve();
  }

  /** Return all sets for the draft, newest first, with the takes that the studio has stored. @returns {StoredSet[]} */
  draft() {
    const shown = this.room.shownSets.sets.map(({ number, at, origin, cards }) => {
      const takes = cards.flatMap(({ take, letter, note, voice }) =>
        take.id ? [{ id: take.id, letter, note, voice: voice && { id: voice.id, name: voice.name } }] : [],
      );
      return { number, at, origin, description: cards[0]?.description ?? '', takes };
    });
    return [...shown, ...this.pendingSets].filter(({ takes }) => takes.length > 0);
  }

  /** Restore the sets of a draft, below the sets that were created after the reload. @param {StoredSet[]} [sets] */
  reopen(sets = []) {
    return (this.restored = this.restoreSets(sets));
  }

  /** Show the stored sets again, and load their takes. @param {StoredSet[]} sets */
  async restoreSets(sets) {
    this.pendingSets = sets;
    this.room.showRestoring(sets.length > 0);
    for (const { takes, ...set } of sets) {
      const found = await Promise.all(takes.map((kept) => this.fetch(kept)));
      this.pendingSets = this.pendingSets.slice(1);
      const cards = found.flatMap((take, index) => (take ? [{ ...takes[index], take }] : []));
      if (cards.length > 0) this.room.shownSets.insert(set, cards);
    }
    this.room.showRestoring(false);
  }

  /**
   * Load a stored voice sample (take) with its audio.
   *
   * @param {StoredTake} kept @returns {Promise<Take|null>} the take, or null if it was deleted in the meantime
   */
  async fetch({ id }) {
    const { api, history } = this.room.studio;
    try {
      const record = await api.get(`studio/takes/${id}`);
      const take = await history.load(record);
      take.reference = await history.reference(record);
      return take;
    } catch {
      return null;
    }
  }

  /**
   * Return the set and the letter of a take, to restore the take there after a reload.
   *
   * The result is null if no set contains the take.
   *
   * @param {Take} take
   * @returns {SetPosition|null}
   */
  placeOf(take) {
    for (const { number, at, origin, cards } of this.room.shownSets.sets) {
      const card = cards.find((one) => one.take === take);
      if (card) return { number, at, origin, description: card.description, letter: card.letter, note: card.note };
    }
    return null;
  }

  /** Show a take at the position that `placeOf` has returned. @param {Take} take @param {SetPosition} place */
  async regain(take, { letter, note, ...given }) {
    await this.restored;
    const set = this.room.shownSets.sets.find(({ number }) => number === given.number);
    const card = { take, letter, note, voice: null };
    if (set) this.room.shownSets.addTake(set, card, given.description);
    else this.room.shownSets.insert(given, [card]);
  }
}

// --- Sets that the Design room shows, sorted by number, newest first.

const MAX_SETS = 6; // Maximum number of sets in the room. Takes of older sets remain in the Library.

/** All sets of takes (voice samples) that the Design room shows. */
export class ShownSets {
  /** Create an empty list of sets for a Design room. @param {import('./room.js').DesignRoom} room */
  constructor(room) {
    const { root } = room;
    this.room = room;
    this.empty = getElement(root, '#vw-design-empty');
    this.holder = getElement(root, '#vw-design-sets');
    this.templates = { set: getElement(root, '#vw-design-set', HTMLTemplateElement), take: getElement(root, '#vw-design-take', HTMLTemplateElement) };
    /** Shown sets, newest first. @type {TakeSet[]} */
    this.sets = [];
    this.count = 0; // Number of sets that were created in this session.
    room.studio.voices.addEventListener('change', () => this.cards.forEach((card) => card.refresh()));
  }

  /** Cards of all shown sets, beginning with the newest set. */
  get cards() {
    return this.sets.flatMap(({ cards }) => cards);
  }

  /**
   * Create a set with cards, and show it in the order of the set numbers.
   *
   * @param {{number: number, at: number, origin: Origin, description: string}} given
   * @param {{take: import('../player/take.js').Take, letter: string, note: string|null, voice: import('./card.js').SavedVoice|null}[]} cards
   */
  insert({ number, at, origin, description }, cards) {
    const { room } = this;
    const set = new TakeSet(this.templates.set, { number, at, origin }, room.t);
    room.studio.words.apply(set.element);
    set.more.onclick = () => room.attempt(() => room.requests.requestMore(set, { clicked: performance.now() }));
    for (const given of cards) set.insertCard(this.card({ ...given, set: number, description }));
    this.arrangeSet(set);
    for (const old of this.sets.splice(MAX_SETS)) this.clear(old);
    this.room.playback.match();
    this.refresh();
    return set;
  }

  /**
   * Add a card for one more take to a set.
   *
   * @param {TakeSet} set
   * @param {Parameters<ShownSets['insert']>[1][0]} content
   * @param {string} description
   */
  addTake(set, content, description) {
    set.insertCard(this.card({ ...content, set: set.number, description }));
    this.room.playback.match();
    this.refresh();
  }

  /** Create the card of a take, and connect its buttons. @param {ConstructorParameters<typeof TakeCard>[1]} content */
  card(content) {
    const { room } = this;
    const { studio } = room;
    const card = new TakeCard(this.templates.take, content, room.t, studio.voices);
    const { take } = card;
    studio.words.apply(card.element);
    card.canVary = room.canClone;
    card.favourite = Boolean(take.record?.favourite);
    card.on('play', (how) => room.toggle(card, how));
    card.addEventListener('menu', () => room.menu.prepare(card));
    card.on('act', (asks) => room.attempt(() => room.actions.runAction(card, asks)));
    take.addEventListener('done', () => take.state === 'done' && room.announce(card, 'design.said_done', { s: take.seconds.toFixed(1) }));
    take.addEventListener('done', () => take.isShort && studio.errorMessages.showMessage(card.error, studio.speech.shortness(take)));
    // The draft contains the ids of stored takes, so save it again.
    take.addEventListener('stored', () => studio.drafts.touch());
    take.addEventListener('error', () => room.announce(card, 'design.said_failed', { why: take.error?.message ?? '' }));
    room.playback.watch(card);
    return card;
  }

  /** Insert a set into the list, sorted by its number. @param {TakeSet} set */
  arrangeSet(set) {
    const below = this.sets.findIndex(({ number }) => number < set.number);
    const place = below < 0 ? this.sets.length : below;
    this.holder.insertBefore(set.element, this.sets[place]?.element ?? null);
    this.sets.splice(place, 0, set);
  }

  /** Return the set that contains a card, or undefined. @param {TakeCard} card */
  setOf(card) {
    return this.sets.find(({ cards }) => cards.includes(card));
  }

  /** Remove a set from the page. @param {TakeSet} set set that is removed from the page */
  clear(set) {
    for (const card of set.cards) {
      this.room.keepForm.forget(card);
      card.end();
    }
    set.element.remove();
  }

  refresh() {
    this.empty.hidden = this.sets.length > 0;
    this.holder.hidden = this.sets.length === 0;
    const changed = this.sets.find((set) => set.isDescribed);
    this.sets.forEach((set, index) => set.refresh(this.room.studio.words.language, { isNewest: index === 0, takesChanges: set === changed }));
  }
}
