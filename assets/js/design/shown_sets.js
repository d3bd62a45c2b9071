/** The sets that the Design room shows, newest first: they come, go and stand in the order of their numbers. */

import { need } from '../elements.js';
import { TakeCard } from './card.js';
import { TakeSet } from './take_set.js';

/** @typedef {import('./take_set.js').Origin} Origin */

const SHOWN = 6; // Sets on the page; older ones are in the library.

export class ShownSets {
  /** @param {import('../rooms/design.js').DesignRoom} room */
  constructor(room) {
    const { root } = room;
    this.room = room;
    this.empty = need(root, '#vw-design-empty');
    this.holder = need(root, '#vw-design-sets');
    this.templates = { set: need(root, '#vw-design-set', HTMLTemplateElement), take: need(root, '#vw-design-take', HTMLTemplateElement) };
    /** Newest first. @type {TakeSet[]} */
    this.sets = [];
    this.count = 0; // Sets made in this session.
  }

  /** All that are shown, of the newest set first. */
  get cards() {
    return this.sets.flatMap(({ cards }) => cards);
  }

  /**
   * Show a set: above the others, where its number is higher than theirs.
   *
   * @param {{number: number, at: number, origin: Origin, description: string}} given
   * @param {{take: import('../take.js').Take, letter: string, note: string|null, voice: import('./card.js').KeptAs|null}[]} cards
   */
  bring({ number, at, origin, description }, cards) {
    const { room } = this;
    const set = new TakeSet(this.templates.set, { number, at, origin }, room.t);
    room.studio.words.apply(set.element);
    set.more.onclick = () => room.attempt(() => room.asking.more(set, { clicked: performance.now() }));
    for (const given of cards) set.put(this.card({ ...given, set: number, description }));
    this.lay(set);
    for (const gone of this.sets.splice(SHOWN)) this.clear(gone);
    this.room.listening.match();
    this.refresh();
    return set;
  }

  /** Put one more take into a set. @param {TakeSet} set @param {Parameters<ShownSets['bring']>[1][0]} given @param {string} description */
  join(set, given, description) {
    set.put(this.card({ ...given, set: set.number, description }));
    this.room.listening.match();
    this.refresh();
  }

  /** @param {ConstructorParameters<typeof TakeCard>[1]} given */
  card(given) {
    const { room } = this;
    const { studio } = room;
    const card = new TakeCard(this.templates.take, given, room.t);
    const { take } = card;
    studio.words.apply(card.element);
    card.closer = room.clones;
    card.favourite = Boolean(take.record?.favourite);
    card.on('play', (how) => room.toggle(card, how));
    card.addEventListener('menu', () => room.menu.of(card));
    card.on('act', (asks) => room.attempt(() => room.deeds.act(card, asks)));
    take.addEventListener('done', () => take.state === 'done' && room.tell(card, 'design.said_done', { s: take.seconds.toFixed(1) }));
    take.addEventListener('done', () => take.isShort && studio.complain(card.error, studio.shortness(take)));
    take.addEventListener('error', () => room.tell(card, 'design.said_failed', { why: take.error?.message ?? '' }));
    room.listening.watch(card);
    return card;
  }

  /** @param {TakeSet} set */
  lay(set) {
    const below = this.sets.findIndex(({ number }) => number < set.number);
    const place = below < 0 ? this.sets.length : below;
    this.holder.insertBefore(set.element, this.sets[place]?.element ?? null);
    this.sets.splice(place, 0, set);
  }

  /** The set that a card stands in. @param {TakeCard} card */
  of(card) {
    return this.sets.find(({ cards }) => cards.includes(card));
  }

  /** @param {TakeSet} set that has no place here any more */
  clear(set) {
    for (const card of set.cards) {
      this.room.keeping.forget(card);
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
