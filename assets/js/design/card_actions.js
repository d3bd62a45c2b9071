/** Actions on a generated take in the Design room: save, speak, vary and delete. */

import { audioUrl } from '../player/stage_panel.js';

// --- Menu of a take: use its seed, download or delete the take. All cards share one menu.

/** Menu of a take in the Design room, which all cards share. */
export class TakeMenu {
  /**
   * Connect the buttons of the menu.
   *
   * @param {HTMLElement} root popover with the menu
   * @param {(key: string, values?: Object<string, any>) => string} t
   * @param {{again: (card: import('./card.js').TakeCard) => void, drop: (card: import('./card.js').TakeCard) => void}} acts
   */
  constructor(root, t, { again, drop }) {
    this.t = t;
    /** @type {import('./card.js').TakeCard|null} */
    this.card = null;
    this.facts = /** @type {HTMLElement} */ (root.querySelector('p'));
    this.link = /** @type {HTMLAnchorElement} */ (root.querySelector('a'));
    root.onclick = ({ target }) => {
      const act = /** @type {HTMLElement} */ (target).closest('[data-do], a');
      if (!act || !this.card) return;
      root.hidePopover();
      if (!(act instanceof HTMLElement)) return;
      if (act.dataset.do === 'again') again(this.card);
      if (act.dataset.do === 'drop') drop(this.card);
    };
  }

  /** Fill the menu with the data of a card's take before the menu opens. @param {import('./card.js').TakeCard} card */
  prepare(card) {
    this.card = card;
    const { record, seed } = card.take;
    this.facts.textContent = [this.t('design.seed', { seed }), card.gainText].filter(Boolean).join(' · ');
    this.facts.title = card.gainText ? this.t('design.gain_title') : '';
    this.link.hidden = !record;
    if (record) this.link.href = audioUrl(record, 'wav');
  }
}

// --- Saving a take as a voice, speaking with the voice, and deletion of a take, each with undo.

/**
 * @typedef {import('./card.js').TakeCard} TakeCard
 * @typedef {import('./card.js').CardAction} CardAction
 * @typedef {import('./sets.js').TakeSet} TakeSet
 */

/** Actions on the takes of the Design room: save, speak, vary and delete. */
export class CardActions {
  /** Create the actions of a Design room. @param {import('./room.js').DesignRoom} room */
  constructor(room) {
    this.room = room;
    this.studio = room.studio;
  }

  /** Run the action of a button that was pressed in a card. @param {TakeCard} card @param {CardAction} asks */
  runAction(card, { act, change, clicked }) {
    const { requests } = this.room;
    if (act === 'keep') return this.saveVoice(card);
    if (act === 'use') return this.use(card);
    if (act === 'again') return requests.repeatTake(card);
    if (act === 'closer') return requests.requestVariations(card, { clicked });
    if (change) return requests.requestChanged(card, { change, clicked });
  }

  /**
   * Open the form that saves a take as a voice.
   *
   * Without cloning, make the take a favourite.
   *
   * @param {TakeCard} card
   */
  async saveVoice(card) {
    const { room } = this;
    if (room.canClone) {
      room.keepForm.open(card, room.presetOf(card.description));
      return;
    }
    await card.take.stored();
    if (card.take.id) await this.studio.history.favourite(card.take.id, true);
    card.favourite = true;
    card.refresh();
    this.studio.errorMessages.showMessage('request', this.room.t('design.kept_favourite', { letter: card.name }));
  }

  /**
   * Show that a take was saved as a voice, and offer undo.
   *
   * @param {{card: TakeCard, voice: import('./card.js').SavedVoice, isAsked: boolean}} kept
   */
  onKept({ card, voice, isAsked }) {
    card.savedAs = voice;
    card.refresh();
    if (isAsked) this.focus(card); // Do not move the focus if the user is typing elsewhere.
    this.room.announce(card, 'design.kept', { name: voice.name });
    this.studio.toasts.show(this.room.t('design.kept', { name: voice.name }), {
      action: this.room.t('shell.undo'),
      onAction: () => this.room.attempt(() => this.undoKeep(voice)),
    });
  }

  /** Delete a voice that was saved by mistake. @param {{id: string}} voice */
  async undoKeep(voice) {
    await this.studio.api.delete(`studio/voices/${voice.id}`);
    await this.studio.voices.refresh();
  }

  /** Focus the first control of a card that can be used. @param {TakeCard} card */
  focus(card) {
    const first = card.buttons.find(({ offsetParent, disabled }) => offsetParent && !disabled);
    (first ?? card.play).focus({ preventScroll: true });
  }

  /** Open the Speak room with the voice that was saved from a take. @param {TakeCard} card */
  use({ voice }) {
    if (voice) this.studio.go('speakers', { voice: voice.id });
  }

  /** Delete a take and its card, and offer undo. @param {TakeCard} card */
  async drop(card) {
    const { take } = card;
    const { room } = this;
    const { sets } = room.shownSets;
    const set = room.shownSets.setOf(card);
    if (!set) return;
    take.cancel({ isKept: false });
    if (room.playback.current === card) this.studio.stage.stop();
    room.keepForm.forget(card);
    set.removeCard(card);
    if (set.cards.length === 0) sets.splice(sets.indexOf(set), 1)[0].element.remove();
    room.playback.match();
    room.refresh();
    room.announce(card, 'design.dropped');
    this.studio.toasts.show(this.room.t('design.dropped', { letter: card.name }), {
      action: this.room.t('shell.undo'),
      onAction: () => this.room.attempt(() => this.undoDrop(card, set)),
    });
    if (take.state !== 'failed') await take.stored();
    if (take.id) await this.studio.history.remove(take.id);
  }

  /**
   * Restore a deleted card in its set, and its take in the studio.
   *
   * @param {TakeCard} card @param {TakeSet} set set of the card
   */
  async undoDrop(card, set) {
    const { room } = this;
    if (!room.shownSets.sets.includes(set)) room.shownSets.arrangeSet(set);
    set.insertCard(card);
    room.playback.match();
    room.refresh();
    if (card.take.id) await this.studio.history.restore(card.take.id);
  }
}
