/**
 * Main object of the page, which connects rooms, WebSocket, player and stored data.
 *
 * A room is a tab of the page. Each room receives this object.
 */

import { SpeechSocket } from '../../../clients/js/voicewright.js';
import { CloneRoom } from '../clone/room.js';
import { api } from '../common/api.js';
import { getElements, getElement, throttle } from '../common/elements.js';
import { setTexts } from '../common/server_messages.js';
import { Drafts } from '../common/storage.js';
import { useStyleWords } from '../common/text.js';
import { inLanguage, Words } from '../common/words.js';
import { captionOf } from '../design/names.js';
import { DesignRoom } from '../design/room.js';
import { RealVoices } from '../host/real_voices.js';
import { HostRoom } from '../host/room.js';
import { CodeDialog } from '../library/code.js';
import { TakeHistory } from '../library/history.js';
import { LibraryRoom } from '../library/room.js';
import { shareTake } from '../library/sharing.js';
import { TakeFiles } from '../library/take_row.js';
import { Dock } from '../player/dock.js';
import { InterruptedRequests, LastTake } from '../player/reload.js';
import { Speech } from '../player/speech.js';
import { Stage } from '../player/stage.js';
import { Take } from '../player/take.js';
import { Importer } from '../script/importing.js';
import { ScriptRoom } from '../script/room.js';
import { Pronunciation } from '../speak/pronunciation.js';
import { PronunciationSheet } from '../speak/pronunciation_sheet.js';
import { SpeakersRoom } from '../speak/room.js';
import { SentenceHighlight, VoicePaces } from '../speak/sounding_text.js';
import { TextFacts } from '../speak/text_facts.js';
import { Variation } from '../speak/variation.js';
import { VoicePopover } from '../speak/voice_picker.js';
import { VoiceSamples } from '../speak/voice_samples.js';
import { VoiceCatalogue, Voices } from '../speak/voices.js';
import { ErrorMessages, Notes, Toasts, Undo } from './messages.js';
import { RoomAddress, Keys } from './navigation.js';
import { cancelOrphanedFrames, offerSigningIn, Preferences } from './preferences.js';
import { Status } from './status.js';

/**
 * @typedef {import('../common/fields.js').ModelCard} ModelCard
 * @typedef {import('../player/take.js').TakeRecord} TakeRecord
 * @typedef {import('../player/take.js').Mode} Mode
 *
 * @typedef {{voice: import('../script/document.js').Voice, instruct: string}} SpokenBy voice and style that a room
 * suggests for the lines of a script
 * @typedef {{voice?: string, text?: string, lines?: import('../script/reading.js').ParsedLine[], title?: string,
 * spokenBy?: SpokenBy|null, script?: string, line?: string, half?: 'takes'|'voices', isFull?: boolean, isPlayed?: boolean} & Partial<Pick<import('../script/importing.js').ImportedText, 'chapters'|'book'>>} RoomOptions
 * options for opening a room
 * @typedef {Omit<TakeRecord, 'reference'> & {reference: Blob|null}} RestoredTake  stored take with its reference audio
 *
 * @typedef {(list: 'voices'|'takes'|'scripts'|'pronunciation') => boolean} IsChanged  function that returns false for lists
 * that are up to date
 *
 * @typedef {() => void} UndoFunction  function that undoes an action
 *
 * @typedef {{id: string, root: HTMLElement, mode?: Mode, modes?: Mode[],
 *   offer?(cards: ModelCard[]): void, onLanguage?(): void, enter?(given: RoomOptions): void, leave?(): void, catchUp?(isChanged: IsChanged): void,
 *   speak?(how: {clicked: number}): void|Promise<void>, line?(): string, presentRequest?(): import('../library/code.js').PendingRequest|null, spokenBy?(): SpokenBy|null, takesTags?: boolean, takesAnyLength?: boolean, followsTags?: boolean, isTyping?: boolean, finishTyping?(): boolean, stop?(): void,
 *   onKey?(event: KeyboardEvent): boolean, restore?(take: RestoredTake): UndoFunction|void} & import('../player/reload.js').ResumableRoom & import('../common/storage.js').Source} Room
 *   interface of a room for the application shell
 */

const ROOMS = [SpeakersRoom, DesignRoom, CloneRoom, ScriptRoom, LibraryRoom, HostRoom];
/** Names of the modes in checkpoints. @type {Record<Mode, string>} */
export const MODES = { custom_voice: 'CustomVoice', voice_design: 'VoiceDesign', base: 'Base' };

const CATCH_UP_DELAY_MS = 300; // Delay after a change in another tab, so that one refresh serves many changes.
const POLL_MS = 4000; // Time between two requests for the revision numbers.
const POLL_TIMEOUT_MS = 10_000;

/** Main object of the page, which connects rooms, WebSocket, player and stored data. */
export class Studio {
  /** The shown room, or null before the page is built. @type {Room|null} */
  current = null;

  /**
   * Create the rooms, the player and the connection to the runtime for a page.
   *
   * @param {HTMLElement} page
   * @param {{presets: import('../common/words.js').Presets, me: import('./preferences.js').StudioInfo, pronunciation: Pronunciation, words: Words, preferences: Preferences}} given
   */
  constructor(page, { presets, me, pronunciation, words, preferences }) {
    this.page = page;
    this.me = me;
    this.words = words;
    this.preferences = preferences;
    this.pronunciation = pronunciation;
    this.api = api;
    this.given = presets;
    /** Presets of the page in the page's language. */
    this.presets = this.localPresets();
    /** @type {(key: string, values?: Object<string, unknown>) => string} */
    this.t = (key, values) => words.t(key, values);
    setTexts(words);
    this.textField = getElement(page, '#vw-text', HTMLTextAreaElement);
    this.textField.value = presets.texts.auto;
    this.speakButton = getElement(page, '#vw-speak', HTMLButtonElement);
    this.speakWord = getElement(this.speakButton, '[data-i18n]');
    this.stopButton = getElement(page, '#vw-stop', HTMLButtonElement);
    this.variation = new Variation(getElement(page, '#vw-shared-variation', HTMLDetailsElement), this.t);
    this.roomLinks = getElements(page, '[data-room]');
    this.tabs = this.roomLinks.filter(({ role }) => role === 'tab');
    /** @type {Map<string, ModelCard>} */
    this.cards = new Map();
    /** Limits of the server, from session.created. @type {Object<string, number>} */
    this.limits = {};
    this.scroller = getElement(page, '.vw-rooms');
    /** Scroll positions by room id. @type {Map<string, number>} */
    this.scrollPositions = new Map();
    this.toasts = new Toasts(getElement(page, '#vw-toasts'));
    this.undo = new Undo(this);
    this.notes = new Notes(page, this);
    this.stage = new Stage(page, this.t, (take) => captionOf(take, this.presets.designs));
    this.stage.takeActions.isShared = Boolean(me.features?.share);
    this.dock = new Dock(page, this);
    this.errorMessages = new ErrorMessages(page, this);
    this.socket = new SpeechSocket(socketUrl());
    this.speech = new Speech(this);
    this.voices = new Voices();
    this.paces = new VoicePaces();
    this.catalogue = new VoiceCatalogue(this);
    this.samples = new VoiceSamples(this);
    this.voicePopover = new VoicePopover(page, this);
    this.history = new TakeHistory(this.speech, this.t);
    this.takeFiles = new TakeFiles(page);
    this.keys = new Keys(page, this);
    this.pronunciationSheet = new PronunciationSheet(page, this);
    this.code = new CodeDialog(getElement(page, '#vw-code', HTMLDialogElement), this);
    this.sentenceHighlight = new SentenceHighlight(page, this);
    this.interruptedRequests = new InterruptedRequests(this);
    this.lastTake = new LastTake(this);
    this.importer = new Importer(page, this);
    this.roomAddress = new RoomAddress(ROOMS.map(({ id }) => id), () => this.enter(this.addressedRoom));
    this.realVoices = new RealVoices(page, this);
    /** @type {Room[]} */
    this.rooms = ROOMS.map((Room) => new Room(getElement(page, `#vw-room-${Room.id}`), this));
    /** @type {Drafts} */
    this.drafts = new Drafts([this, this.variation, this.catalogue, ...this.rooms]);
    this.drafts.recall();
    this.status = new Status(page, this.socket, this.t, this.realVoices);
    this.facts = new TextFacts(page, this);
    this.clicked = 0;
    this.listen();
    this.lastTake.recall();
    this.enter(this.addressedRoom);
  }

  listen() {
    const start = () => this.stage.player.start().catch(() => {});
    document.addEventListener('pointerdown', start, { capture: true });
    document.addEventListener('keydown', start, { capture: true });
    addEventListener('beforeunload', (event) => this.speech.refusedTakes.size > 0 && event.preventDefault());
    this.speakButton.onclick = () => this.speak();
    // The second click of a double click on Speak must not stop the speech.
    this.stopButton.onclick = this.dock.stopPanel.onclick = ({ detail }) => detail < 2 && this.stop();
    // After new input, Undo reverts this input and not an earlier replacement.
    this.page.addEventListener('input', (event) => {
      const { target, inputType } = /** @type {InputEvent} */ (event);
      this.undo.forget();
      if (target instanceof HTMLElement) this.errorMessages.clearField(target);
      // The browser's undo can change a field without focus, for which the browser sends no change event.
      if (inputType?.startsWith('history')) target?.dispatchEvent(new Event('change', { bubbles: true }));
    });
    // A changed choice may change the labels and actions of the buttons.
    for (const event of ['change', 'click']) this.page.addEventListener(event, () => requestAnimationFrame(() => this.dock.showText()));
    for (const link of this.roomLinks) link.onclick = () => this.go(link.dataset.room ?? '');
    this.stage.addEventListener('change', () => this.refresh());
    this.stage.addEventListener('code', () => this.stage.take instanceof Take && this.code.show(this.stage.take));
    this.stage.addEventListener('star', () => this.stage.take instanceof Take && this.star(this.stage.take));
    this.stage.addEventListener('share', () => this.stage.take instanceof Take && this.stage.take.id && shareTake(this, this.stage.take.id));
    this.status.on('models', (cards) => this.offer(cards));
    this.socket.addEventListener('state', () => this.socket.state !== 'open' && this.errorMessages.onUnavailable());
    addEventListener('focus', () => this.catchUp());
    const tabs = new BroadcastChannel('voicewright');
    api.onChange = () => tabs.postMessage(null);
    // A hidden tab is updated when it gets the focus.
    tabs.onmessage = throttle(() => document.hidden || this.catchUp(), CATCH_UP_DELAY_MS);
    this.socket.addEventListener('session', () => (this.limits = this.socket.session?.limits ?? {}));
    this.listenToPreferences();
    this.socket.open();
    this.pollRevision();
  }

  /** Load the lists that other tabs, devices and programs may have changed. @param {IsChanged} [isChanged] */
  catchUp(isChanged = () => true) {
    if (this.cards.size === 0) return;
    if (isChanged('voices')) this.voices.refresh().catch(() => {});
    // While the dialog is open, saving its rows merges the changes of other windows.
    if (isChanged('pronunciation') && !this.pronunciationSheet.dialog.open) this.pronunciation.refresh().catch(() => {});
    for (const room of this.rooms) room.catchUp?.(isChanged);
  }

  /** Request the revision numbers of the lists regularly, and load lists that have changed. */
  async pollRevision() {
    /** @type {Record<string, number>|undefined} */
    let known;
    const readRevision = async () => (await api.request('studio/revision', { signal: AbortSignal.timeout(POLL_TIMEOUT_MS) })).json();
    for (;;) {
      const isAway = document.hidden || (known && this.socket.state !== 'open');
      const revision = isAway ? null : await readRevision().catch(() => null);
      const before = known;
      if (revision && before) this.catchUp((list) => revision[list] !== before[list]);
      known = revision ?? known;
      await new Promise((later) => setTimeout(later, POLL_MS));
    }
  }

  listenToPreferences() {
    const { preferences } = this;
    const choice = getElement(this.page, '#vw-language', HTMLSelectElement);
    const theme = getElement(this.page, '#vw-theme');
    choice.replaceChildren(...Object.entries(preferences.languages).map(([code, name]) => new Option(name, code)));
    choice.onchange = () => preferences.choose({ language: choice.value });
    theme.onclick = () => preferences.nextTheme();
    const show = () => {
      choice.value = preferences.language;
      theme.dataset.icon = preferences.theme;
      theme.ariaLabel = theme.title = this.t(`shell.theme.${preferences.theme}`);
    };
    preferences.on('change', async ({ language }) => {
      if (language) await this.setLanguage(language);
      show();
    });
    show();
  }

  /** Return the presets in the page's language. @returns {import('../common/words.js').Presets} */
  localPresets() {
    const { instructs, scripts, starters, speakers } = inLanguage({ ...this.given, languages: null }, this.words.language);
    return { ...this.given, instructs, scripts, starters, speakers };
  }

  /** Change the language of the page's texts, which may differ from the spoken language. @param {string} language */
  async setLanguage(language) {
    await this.words.load(language);
    this.presets = this.localPresets();
    this.words.apply(this.page);
    this.errorMessages.clear();
    this.offer([...new Set(this.cards.values())]);
    this.status.showModels();
    this.realVoices.refresh();
    this.stage.refresh();
    this.dock.showRate();
    this.variation.paint();
    for (const room of this.rooms) room.onLanguage?.();
  }

  // --- Rooms.

  /** Return the room with an id. @param {string} id @throws {Error} There is no such room. */
  room(id) {
    const room = this.rooms.find((one) => one.id === id);
    if (room) return room;
    throw new Error(`There is no room ${id}`);
  }

  get speakRoom() {
    return /** @type {SpeakersRoom} */ (this.room(SpeakersRoom.id));
  }

  /** Id of the room in the URL, or else of the first room that a loaded checkpoint serves. */
  get addressedRoom() {
    const first = this.rooms.find((room) => room.mode && this.serves(room)) ?? this.rooms[0];
    return this.roomAddress.room ?? first.id;
  }

  /** Open another room, and add it to the browser's history. @param {string} id @param {RoomOptions} [options] */
  go(id, options = {}) {
    this.roomAddress.go(id);
    this.enter(id, options);
  }

  /**
   * Show one room and hide the other rooms.
   *
   * The `options` are passed to the `enter` method of the room.
   *
   * @param {string} id @param {RoomOptions} [options]
   */
  enter(id, options = {}) {
    const room = this.room(id);
    if (room !== this.current) {
      if (this.current) this.scrollPositions.set(this.current.id, this.scroller.scrollTop);
      this.current?.leave?.();
      this.undo.forget(); // Undo is not offered in another room, where its effect would be invisible.
      if (this.current) this.toasts.leaveRoom();
      this.current = room;
      for (const tab of this.roomLinks) {
        const chosen = tab.dataset.room === id;
        if (tab.role === 'tab') tab.setAttribute('aria-selected', String(chosen));
        else tab.toggleAttribute('aria-current', chosen);
      }
      for (const tab of this.tabs) tab.tabIndex = tab.dataset.room === id || (id === 'host' && tab === this.tabs[0]) ? 0 : -1;
      for (const { id: other, root } of this.rooms) root.hidden = other !== id;
      this.moveSharedControls(room.root);
      this.variation.offer(this.modelOfRoom(room));
      this.scroller.scrollTop = this.scrollPositions.get(id) ?? 0;
    }
    this.errorMessages.clear();
    this.realVoices.refresh();
    room.enter?.(options);
    this.refresh();
    this.facts.refreshNow();
  }

  /**
   * Move the controls that all rooms share into a room.
   *
   * These controls are the text field, the seed and sampling settings, and the primary button.
   *
   * @param {HTMLElement} root
   */
  moveSharedControls(root) {
    const homes = { text: '#vw-shared', variation: '#vw-shared', actions: '#vw-dock-actions' };
    for (const [name, home] of Object.entries(homes)) {
      const slot = root.querySelector(`[data-vw-slot=${name}]`) ?? getElement(this.page, home);
      slot.append(getElement(this.page, `#vw-shared-${name}`));
    }
    // A room may have its own label for the primary button.
    const word = getElements(root, '[data-vw-speak]')[0]?.dataset.vwSpeak ?? 'shell.speak';
    this.speakWord.dataset.i18n = word;
    this.speakWord.textContent = this.t(word);
  }

  /** Update all rooms after a change of the loaded checkpoints. @param {ModelCard[]} cards */
  offer(cards) {
    if (cards.length === 0) return;
    this.errorMessages.back();
    const first = this.cards.size === 0;
    this.cards.clear();
    for (const mode of /** @type {Mode[]} */ (Object.keys(MODES))) {
      const card = cards.find(({ modes }) => modes.includes(mode));
      if (card) this.cards.set(mode, card);
    }
    this.catalogue.update();
    for (const room of this.rooms) {
      this.markAvailability(room);
      room.offer?.(cards);
    }
    if (first) this.enter(this.addressedRoom);
    this.realVoices.showModels(cards);
    this.realVoices.refresh();
    if (this.current) this.variation.offer(this.modelOfRoom(this.current));
    this.catchUp();
    this.interruptedRequests.offer();
    this.refresh();
  }

  /** Return the loaded checkpoint for a room's main mode, or undefined if there is none. @param {Room} room */
  modelOfRoom({ mode }) {
    return mode && this.cards.get(mode);
  }

  /** Return true if a loaded checkpoint supports a mode of the room, or if it needs none. @param {Room} room */
  serves(room) {
    return !room.mode || modesOf(room).some((mode) => this.cards.has(mode));
  }

  /** Mark a room and its tab as unavailable if no loaded checkpoint serves the room. @param {Room} room */
  markAvailability(room) {
    const [unserved] = getElements(room.root, '.vw-unserved');
    const tab = this.tabs.find(({ dataset }) => dataset.room === room.id);
    if (!room.mode || !unserved || !tab) return;
    const served = this.serves(room);
    unserved.hidden = served;
    unserved.textContent = this.t('shell.unserved', { mode: room.mode, name: MODES[room.mode] });
    tab.setAttribute('aria-disabled', String(!served));
    tab.title = served ? '' : unserved.textContent;
  }

  // --- Drafts and undo.

  /** Id of the draft that the rooms share. */
  id = 'shared';

  draft() {
    return { text: this.text };
  }

  /** Restore the text from a draft. @param {{text: string}} draft */
  recall({ text }) {
    this.text = text;
  }

  // --- Speaking.

  get text() {
    return this.textField.value;
  }

  set text(text) {
    this.textField.value = text;
    this.facts?.refreshSoon();
  }

  /** True if the user has written the text, false for an empty text or a sample of the page. */
  get isOwnText() {
    const { texts, starters } = this.presets;
    const samples = [texts, ...starters.map(({ text }) => text)].flatMap((all) => Object.values(all).flat());
    return this.text.trim() !== '' && !samples.includes(this.text);
  }

  /**
   * Run the main action of the current room.
   *
   * The primary button and Ctrl+Enter call this method.
   */
  async speak() {
    const { current } = this;
    if (!current?.speak || !this.serves(current) || this.cards.size === 0) return;
    if (current.finishTyping?.()) return;
    if (!this.isReachable()) return;
    this.clicked = performance.now();
    this.stop();
    this.errorMessages.clear();
    this.stage.player.start().catch(() => this.errorMessages.showMessage('request', this.t('shell.no_output')));
    await this.errorMessages.guard(() => current.speak?.({ clicked: this.clicked }), current.id);
    this.refresh();
  }

  /** Return true if the studio is reachable, otherwise show a message and return false. */
  isReachable() {
    this.errorMessages.clear();
    const { isStudioAway } = this.status;
    // The message asks the user to repeat the request when the studio is available again.
    if (isStudioAway) this.errorMessages.showUntilReady('request', this.t('shell.not_sent'), '');
    return !isStudioAway;
  }

  /**
   * Restore the text, settings and seed of a stored take in its room, and offer undo.
   *
   * @param {TakeRecord} record
   */
  async restore(record) {
    const reference = await this.history.reference(record);
    const origin = this.rooms.find(({ id }) => id === record.room);
    const does = (/** @type {Room} */ room) => modesOf(room).includes(record.mode);
    const room = origin?.restore && (!origin.mode || does(origin)) ? origin : this.rooms.find(does);
    if (!room?.restore) return;
    this.go(room.id);
    this.undo.replacing(
      room,
      true,
      () => {
        if (room.mode) {
          this.text = record.text;
          this.variation.restore(record);
        }
        return room.restore?.({ ...record, reference });
      },
      room.mode ? this.t('library.restored') : this.t('script.added', { n: 1 }),
    );
    this.drafts.touch();
  }

  /** Stop the playback in the browser and the generation in the runtime. */
  stop() {
    this.stage.stop();
    this.speech.cancel();
    for (const room of this.rooms) room.stop?.();
    this.refresh();
  }

  /** True while audio is played or generated, or while text is spoken as the user types. */
  get isBusy() {
    return this.stage.isPlaying || this.speech.liveTakes.size > 0 || Boolean(this.current?.isTyping);
  }

  /** Update the buttons, the status and the information about the text. */
  refresh() {
    if (!this.current) return;
    this.refreshPlayback();
    this.drafts.touch();
    this.facts.refreshSoon();
  }

  /** Update the buttons and the notes after a take has changed. */
  refreshPlayback() {
    if (!this.current) return;
    this.speakButton.disabled = !this.current.speak || !this.serves(this.current) || this.cards.size === 0;
    this.dock.refresh(this.isBusy);
    this.notes.showTake(this.stage.take);
  }

  /** Add a take to the favourites, or remove it from them. @param {Take} take */
  async star(take) {
    const { record } = take;
    if (!record) return;
    take.record = (await this.toasts.guard(() => this.history.favourite(record.id, !record.favourite))) ?? record;
    this.stage.refresh();
  }
}

/** Return the modes that can serve a room. @param {{mode?: string, modes?: string[]}} room */
function modesOf({ mode, modes }) {
  return modes ?? (mode ? [mode] : []);
}

function socketUrl() {
  const url = api.address('v1/audio/speech/stream');
  url.protocol = url.protocol.replace('http', 'ws');
  return url;
}

/** Load the data that the page needs first: presets, visitor, dictionary and texts. */
async function load() {
  const words = new Words();
  const [presets, me, kept] = await Promise.all([
    api.request('studio/bundle/presets.json', { cache: 'default' }).then((response) => response.json()),
    api.get('studio/me').catch(() => ({ preferences: {}, features: {} })),
    api.get('studio/pronunciation').catch(() => null),
    words.load('en'), // English texts are shown if a translation is missing.
  ]);
  useStyleWords(presets.style_words);
  const preferences = new Preferences(me, presets.languages);
  await words.load(preferences.language);
  return { presets, me, pronunciation: new Pronunciation(kept), words, preferences };
}

const loaded = load(); // Do not wait for Gradio, which takes seconds to load on a slow connection.
// `mount` handles the error. Without this line, the browser would log it as unhandled.
loaded.catch(() => {});

/**
 * Start the page in an element of the document.
 *
 * @param {HTMLElement} element
 * @returns {Promise<{usable: Promise<unknown>}>} usable: promise that settles when a runtime can generate speech
 */
export async function mount(element) {
  const page = getElement(element, '#vw');
  const data = await loaded;
  data.words.apply(page);
  const studio = new Studio(page, data);
  offerSigningIn(page, data.me, studio.t);
  addEventListener('vw-gradio', cancelOrphanedFrames, { once: true });
  return { usable: new Promise((done) => studio.status.addEventListener('models', done, { once: true })) };
}
