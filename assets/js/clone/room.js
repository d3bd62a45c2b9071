/**
 * Clone room of the page: speech with a stored voice or a clone of a recording.
 *
 * It needs a Base checkpoint.
 */

import { api } from '../common/api.js';
import { getElement } from '../common/elements.js';
import { fillLanguages } from '../common/fields.js';
import { acceptFiles } from '../common/files.js';
import { translateMessage } from '../common/server_messages.js';
import { AudioChecks } from './audio_checks.js';
import { RecordingIntake, SavedState } from './intake.js';
import { CloneRequest, Comparison, KeepForm } from './keep_form.js';
import { Microphone } from './microphone.js';
import { PartSelector } from './selection.js';
import { addressed, CloneView, Steps } from './steps.js';
import { ReferencePlayback, StoredVoiceSelect } from './stored_voice.js';
import { areSimilar, Transcript } from './transcript.js';
import { Trimmer } from './trimmer.js';

/** @typedef {import('../speak/voices.js').StoredVoice} StoredVoice */

/** Clone room of the page: speech with a stored voice or a clone of a recording. */
export class CloneRoom {
  static id = 'clone';
  id = 'clone';
  /** @type {'base'} */
  mode = 'base';

  /**
   * Create the Clone room from its panel on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.xvector = getElement(root, '#vw-clone-xvector', HTMLInputElement);
    this.language = getElement(root, '#vw-clone-language', HTMLSelectElement);
    this.transcriptWarning = getElement(root, '#vw-clone-same');
    this.say = getElement(root, '#vw-clone-say');
    this.trying = getElement(root, '#vw-clone-try', HTMLDetailsElement);
    this.use = getElement(root, '#vw-clone-use', HTMLButtonElement);
    /** @type {import('./reference.js').Reference|null} */
    this.reference = null;
    /** Voice that was saved from the recording, even if it was deleted later. @type {StoredVoice|null} */
    this.savedVoice = null;
    /** Voice that was saved from the recording, or null after its deletion. @type {StoredVoice|null} */
    this.currentVoice = null;
    this.intake = new RecordingIntake(this);
    this.view = new CloneView(this);
    this.savedState = new SavedState(this);
    this.request = new CloneRequest(this);
    this.microphone = new Microphone(root, studio);
    this.trimmer = new Trimmer(getElement(root, '#vw-clone-trim'));
    this.playback = new ReferencePlayback(root, this);
    this.storedVoice = new StoredVoiceSelect(root, studio, () => this.view.paint());
    this.partSelector = new PartSelector(studio, () => this.intake.onMoved());
    this.words = new Transcript(root, studio, () => this.intake.onChanged());
    this.transcript = this.words.field;
    this.audioChecks = new AudioChecks(root, studio, {
      onRefused: (error) => this.intake.onRefused(error),
      onReport: () => this.view.paintSteps(),
      faults: () => this.partSelector.faults(),
      remedies: this.remedies(),
      isLong: () => this.partSelector.isLong,
    });
    this.keepForm = new KeepForm(root, studio, new Comparison(this), () => this.request.storedFields());
    this.steps = new Steps(root, { words: studio.words, furthest: () => this.lastPossibleStep(), onOpen: () => this.view.paint() });
    this.listen();
    this.view.paint();
  }

  /** Return an element of the room. @param {string} name id of the element without the prefix vw-clone- */
  find(name) {
    return getElement(this.root, `#vw-clone-${name}`);
  }

  listen() {
    const { studio, microphone, steps } = this;
    acceptFiles(getElement(this.root, '#vw-clone-file', HTMLInputElement), ([file]) => file && this.intake.upload(file), this.find('card'));
    microphone.addEventListener('begun', () => {
      this.showError('ref_audio', '');
      studio.stage.pause();
    });
    microphone.addEventListener('change', () => this.view.paint());
    microphone.on('refused', (key) => this.showError('ref_audio', studio.t(key)));
    microphone.on('recorded', (pcm) => this.intake.useRecording(pcm));
    this.trimmer.addEventListener('move', () => this.intake.onChanged());
    this.trimmer.on('trimmed', (before) => this.partSelector.offerUndo(before, studio.t('clone.moved')));
    this.xvector.onchange = () => {
      this.showError('ref_text', '');
      this.intake.onChanged();
    };
    this.find('best').onclick = () => this.partSelector.chooseBest();
    this.find('drop').onclick = () => this.intake.removeRecording();
    this.use.onclick = () => steps.go(2);
    this.find('words-done').onclick = () => this.acceptWords();
    this.find('done-speak').onclick = () => this.speakWith(this.currentVoice);
    this.find('done-next').onclick = () => {
      this.intake.useReference(null);
      steps.go(1);
    };
    this.trying.ontoggle = () => {
      studio.refresh();
      if (this.trying.open) this.say.scrollIntoView({ block: 'nearest' });
    };
    this.language.onchange = () => this.view.paint();
    studio.textField.addEventListener('input', () => this.compare());
    this.keepForm.on('kept', (voice) => this.onKept(voice));
    this.keepForm.on('refused', (field) => {
      if (!field.startsWith('ref_')) return;
      steps.go(field === 'ref_text' ? 2 : 1);
      studio.toasts.show(studio.t('clone.not_kept'));
    });
    studio.voices.addEventListener('change', () => this.onVoices());
  }

  /** Return the functions that correct the faults found by the audio checks. @returns {AudioChecks['callbacks']['remedies']} */
  remedies() {
    const { studio, partSelector } = this;
    return {
      leaveOut: (faults) => partSelector.leaveOut(faults, studio.t('clone.left_out')),
      shorten: (faults) => partSelector.leaveOut(faults, studio.t('clone.shortened')),
      pauses: () => partSelector.leaveOut(partSelector.faults().filter(({ code }) => code === 'pause'), studio.t('clone.shortened')),
      best: () => partSelector.chooseBest(),
      trim: () => this.intake.trimToSpeech(),
      another: () => this.intake.removeRecording(),
    };
  }

  /** Show an error at a form field of this room. @param {string} field @param {string} sentence */
  showError(field, sentence) {
    this.studio.errorMessages.showMessage(field, sentence, this.id);
  }

  // --- Interface for the application shell.

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (card) fillLanguages(this.language, card, this.studio.t);
    this.view.paint();
  }

  /**
   * Open the room, with a stored voice if one is given.
   *
   * @param {{voice?: string}} given id or name of a stored voice to speak with
   */
  enter({ voice }) {
    const known = voice && this.studio.voices.find(voice);
    if (known) this.storedVoice.choose(known);
    const step = addressed();
    if (step && !this.currentVoice && !this.savedState.pendingDraft) {
      this.steps.open(step);
      this.steps.name();
    }
    this.compare();
    // Only the host may see the model download, and the host may have entered the key after the page was loaded.
    if (this.studio.realVoices.key) this.words.requestModel();
  }

  leave() {
    this.microphone.end();
  }

  onLanguage() {
    const { reference } = this;
    if (reference?.source === 'recording') this.find('name').textContent = reference.name = this.studio.t('clone.recorded');
    this.microphone.paint();
    this.audioChecks.paint();
    this.words.paint();
    this.view.paint();
  }

  /**
   * Restore the form from a stored take, and return a function that undoes this.
   *
   * @param {import('../app/studio.js').RestoredTake} take @returns {import('../app/studio.js').UndoFunction}
   */
  restore({ config, reference }) {
    const back = this.savedState.undoFunction();
    this.language.value = config.language ?? 'auto';
    const stored = config.voice && this.studio.voices.find(config.voice);
    if (stored) this.storedVoice.choose(stored);
    else if (reference) this.useReference(reference, config);
    return back;
  }

  /**
   * Use the reference audio of earlier generated speech as the recording.
   *
   * @param {Blob} reference @param {import('../player/take.js').Config} config
   */
  async useReference(reference, { ref_text = '', x_vector_only_mode = false }) {
    await this.intake.upload(reference, { name: this.studio.t('clone.of_take'), isNew: false });
    this.transcript.value = ref_text;
    this.xvector.checked = x_vector_only_mode;
    this.intake.onChanged();
    this.steps.open(3);
    this.trying.open = true;
  }

  draft() {
    return this.savedState.draft();
  }

  /** Restore the recording of a draft, which must be loaded first. @param {import('./intake.js').Draft} draft */
  reopen(draft) {
    return this.savedState.reopen(draft);
  }

  /** Return the selected part of the reference recording, or null. */
  async referenceOf() {
    return this.reference?.sent() ?? null;
  }

  /**
   * Return the selected stored voice for the lines of a script.
   *
   * The result is null if the voice is not stored.
   *
   * @returns {import('../app/studio.js').SpokenBy|null}
   */
  spokenBy() {
    const { chosen, mode, language } = this;
    return chosen && { voice: { mode, voice: chosen.id, language: language.value }, instruct: '' };
  }

  /**
   * Function for the primary button, or undefined if the room cannot speak yet.
   *
   * A stored voice must be selected, or the last step must be open.
   */
  get speak() {
    const isReady = this.chosen || (this.reference && this.steps.at === 3 && !this.currentVoice && this.trying.open);
    return isReady ? this.speakNow : undefined;
  }

  /** Return the request of the room without its recording, which may not exist yet. */
  presentRequest() {
    const { studio, mode, chosen, request, transcript, language } = this;
    const words = transcript.value.trim() || studio.t('clone.transcript');
    const own = chosen ? { voice: chosen.id, language: language.value } : request.config(words);
    return { mode, config: { ...own, ...studio.variation.sampling }, text: studio.text };
  }

  /** Speak the text with the selected voice, and play the take. @param {{clicked: number}} how */
  async speakNow({ clicked }) {
    const { studio, chosen, request } = this;
    if (!chosen) request.storedFields(); // Check that there is a recording with a transcript.
    const source = chosen ? { label: chosen.name } : { label: request.reference.name, reference: request.reference.sent() };
    studio.stage.play(studio.speech.say({ room: this.id, ...this.presentRequest(), ...source, seed: studio.variation.nextSeed() }), { clicked });
  }

  /** Return the text that the player shows before the first take. */
  line() {
    return this.studio.facts.line(this.chosen?.name ?? this.reference?.name ?? '');
  }

  /** Show a warning if the user has typed the transcript into the text field. */
  compare() {
    const words = this.reference && !this.chosen && !this.xvector.checked ? this.transcript.value : '';
    this.transcriptWarning.hidden = !areSimilar(words, this.studio.text);
  }

  // --- Steps.

  /** Return the number of the last step that the user may open (1 to 3). */
  lastPossibleStep() {
    if (!this.reference || this.microphone.state !== 'idle') return 1;
    return this.transcript.value.trim() || this.xvector.checked ? 3 : 2;
  }

  acceptWords() {
    if (this.lastPossibleStep() === 3) {
      if (!this.xvector.checked) this.words.check();
      return this.steps.go(3);
    }
    this.showError('ref_text', this.studio.t('clone.words_first'));
    this.transcript.focus();
  }

  /** Show the voice that was saved from the recording. @param {StoredVoice} voice */
  onKept(voice) {
    const { studio } = this;
    this.savedVoice = voice;
    studio.stop(); // The original or the clone may still be played.
    this.show(voice);
    this.keepForm.forget();
    const advice = this.find('done-advice');
    advice.hidden = voice.advice.length === 0;
    advice.textContent = studio.t('clone.advice_kept', { advice: voice.advice.map(translateMessage).join(' ') });
    studio.refresh();
    this.find('done-speak').focus();
    const back = async () => {
      await studio.toasts.guard(() => api.delete(`v1/audio/voices/${voice.id}`));
      await studio.voices.refresh().catch(() => {});
    };
    studio.undo.offer(back);
    this.find('done-undo').onclick = back;
  }

  /**
   * Update the room when the stored voices have changed.
   *
   * The voice that was saved here may have been deleted or restored.
   */
  onVoices() {
    const { savedVoice, studio } = this;
    const there = savedVoice && studio.voices.find(savedVoice.id);
    if (!savedVoice || Boolean(there) === Boolean(this.currentVoice)) return;
    this.show(there);
    if (!there) this.keepForm.name.value = savedVoice.name;
    studio.drafts.touch();
  }

  /** Show that the recording was saved as a voice, or show the form that saves it. @param {StoredVoice|null} voice */
  show(voice) {
    const { reference } = this;
    this.currentVoice = voice;
    if (voice || !reference) this.savedState.forget();
    else this.savedState.store(reference);
    if (voice) this.find('done-name').textContent = this.studio.t('clone.done', { name: voice.name });
    this.steps.open(3);
  }

  /** Open the Speak room with a stored voice. @param {StoredVoice|null} voice */
  speakWith(voice) {
    if (voice) this.studio.go('speakers', { voice: voice.id });
  }

  /** Selected stored voice, or null if the room uses a recording. */
  get chosen() {
    return this.storedVoice.chosen;
  }
}
