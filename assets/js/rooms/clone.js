/** The Clone room: a stored voice, or one from reference audio that is recorded or uploaded here (Base). */

import { api } from '../api.js';
import { Choosing, offerUndo } from '../clone/choosing.js';
import { Clinic, clock } from '../clone/clinic.js';
import { Hearing } from '../clone/hearing.js';
import { KeepForm } from '../clone/keep_form.js';
import { Left } from '../clone/left.js';
import { alike } from '../clone/likeness.js';
import { Microphone } from '../clone/microphone.js';
import { CloneRequest } from '../clone/request.js';
import { addressed, Steps } from '../clone/steps.js';
import { Stored } from '../clone/stored.js';
import { Transcript } from '../clone/transcript.js';
import { takeDrops } from '../drops.js';
import { need, write } from '../elements.js';
import { errorOf } from '../errors.js';
import { decoded, Reference } from '../reference.js';
import { Trimmer } from '../trimmer.js';
import { fillLanguages } from './fields.js';

/** @typedef {import('../voices.js').StoredVoice} StoredVoice */

export class CloneRoom {
  static id = 'clone';
  id = 'clone';
  /** @type {'base'} */
  mode = 'base';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.xvector = need(root, '#vw-clone-xvector', HTMLInputElement);
    this.language = need(root, '#vw-clone-language', HTMLSelectElement);
    this.file = need(root, '#vw-clone-file', HTMLInputElement);
    this.status = need(root, '#vw-clone-status');
    this.recording = need(root, '#vw-clone-recording');
    this.span = need(root, '#vw-clone-span');
    this.same = need(root, '#vw-clone-same');
    this.say = need(root, '#vw-clone-say');
    this.trying = need(root, '#vw-clone-try', HTMLDetailsElement);
    this.use = need(root, '#vw-clone-use', HTMLButtonElement);
    /** @type {Reference|null} */
    this.reference = null;
    /** The voice that was made of it. @type {StoredVoice|null} */
    this.made = null;
    /** Whether the runtime would not take the recording. */
    this.isRefused = false;
    this.left = new Left(this);
    this.request = new CloneRequest(this);
    this.microphone = new Microphone(root, studio);
    this.trimmer = new Trimmer(need(root, '#vw-clone-trim'));
    this.hearing = new Hearing(root, this);
    this.stored = new Stored(root, studio, () => this.paint());
    this.choosing = new Choosing(studio, () => this.moved());
    this.words = new Transcript(root, studio, () => this.changed());
    this.transcript = this.words.field;
    this.clinic = new Clinic(root, studio, {
      onRefused: (error) => this.refused(error),
      faults: () => this.choosing.faults(),
      remedies: this.remedies(),
      isLong: () => this.choosing.isLong,
    });
    this.keeping = new KeepForm(root, studio, () => this.request.kept());
    this.steps = new Steps(root, { words: studio.words, furthest: () => this.furthest(), onOpen: () => this.paint() });
    this.listen();
    this.paint();
  }

  /** @param {string} name what stands behind vw-clone- in its id */
  find(name) {
    return need(this.root, `#vw-clone-${name}`);
  }

  listen() {
    const { studio, microphone, steps } = this;
    this.file.onchange = () => {
      const [file] = this.file.files ?? [];
      if (file) this.upload(file);
      this.file.value = ''; // so that choosing the same file again is a change
    };
    takeDrops(this.find('card'), ([file]) => file && this.upload(file));
    microphone.addEventListener('begun', () => {
      this.complain('ref_audio', '');
      studio.stage.pause();
    });
    microphone.addEventListener('change', () => this.paint());
    microphone.on('refused', (key) => this.complain('ref_audio', studio.t(key)));
    microphone.on('recorded', (pcm) => this.recorded(pcm));
    this.trimmer.addEventListener('move', () => this.changed());
    this.xvector.onchange = () => {
      this.complain('ref_text', '');
      this.changed();
    };
    this.find('best').onclick = () => this.choosing.chooseBest();
    this.find('drop').onclick = () => this.drop();
    this.use.onclick = () => steps.go(2);
    this.find('words-done').onclick = () => this.acceptWords();
    this.find('done-speak').onclick = () => this.speakWith(this.made);
    this.find('done-next').onclick = () => {
      this.take(null);
      steps.go(1);
    };
    this.trying.ontoggle = () => {
      studio.refresh();
      if (this.trying.open) this.say.scrollIntoView({ block: 'nearest' });
    };
    this.language.onchange = () => this.paint();
    studio.textField.addEventListener('input', () => this.compare());
    this.keeping.on('kept', (voice) => this.onKept(voice));
  }

  /** What each button beside a fault does. @returns {Clinic['remedies']} */
  remedies() {
    const { studio, choosing } = this;
    return {
      leaveOut: (faults) => choosing.leaveOut(faults, studio.t('clone.left_out')),
      shorten: (faults) => choosing.leaveOut(faults, studio.t('clone.shortened')),
      pauses: () => choosing.leaveOut(choosing.faults().filter(({ code }) => code === 'pause'), studio.t('clone.shortened')),
      best: () => choosing.chooseBest(),
      trim: () => this.tidy(),
      another: () => this.drop(),
    };
  }

  /** @param {string} field @param {string} sentence */
  complain(field, sentence) {
    this.studio.complain(field, sentence, this.id);
  }

  // --- what the shell calls

  offer() {
    const card = this.studio.cards.get(this.mode);
    if (card) fillLanguages(this.language, card, this.studio.t);
    this.paint();
  }

  /** @param {{voice?: string}} given a stored voice to speak with */
  enter({ voice }) {
    const known = voice && this.studio.voices.find(voice);
    if (known) this.stored.choose(known);
    const step = addressed();
    if (step && !this.made && !this.left.reopening) {
      this.steps.open(step);
      this.steps.name();
    }
    this.compare();
  }

  leave() {
    this.microphone.end();
  }

  onLanguage() {
    this.microphone.paint();
    this.clinic.paint();
    this.words.paint();
    this.paint();
  }

  /** @param {import('../studio.js').Restored} take @returns {import('../studio.js').Back} */
  restore({ config, reference }) {
    const back = this.left.wayBack();
    this.language.value = config.language ?? 'auto';
    const stored = config.voice && this.studio.voices.find(config.voice);
    if (stored) this.stored.choose(stored);
    else if (reference) this.takeUp(reference, config);
    return back;
  }

  /** Work with the recording that a take was made after. @param {Blob} reference @param {import('../take.js').Config} config */
  async takeUp(reference, { ref_text = '', x_vector_only_mode = false }) {
    await this.upload(reference, { name: this.studio.t('clone.of_take'), isNew: false });
    this.transcript.value = ref_text;
    this.xvector.checked = x_vector_only_mode;
    this.changed();
    this.steps.open(3);
    this.trying.open = true;
  }

  draft() {
    return this.left.draft();
  }

  /** @param {import('../clone/left.js').Draft} draft */
  reopen(draft) {
    return this.left.reopen(draft);
  }

  /** The recording that is chosen here, as it is sent. */
  async referenceOf() {
    return this.reference?.sent() ?? null;
  }

  /** Who speaks here, for a line of a script; null: a voice that is not kept. @returns {import('../studio.js').SpokenBy|null} */
  spokenBy() {
    const { chosen, mode, language } = this;
    return chosen && { voice: { mode, voice: chosen.id, language: language.value }, instruct: '' };
  }

  /** What the dock's first button does; nothing while there is no voice to speak with, or nobody wants to hear it yet. */
  get speak() {
    const isReady = this.chosen || (this.reference && this.steps.at === 3 && !this.made && this.trying.open);
    return isReady ? this.speakNow : undefined;
  }

  /** @param {{clicked: number}} how */
  async speakNow({ clicked }) {
    const { studio, mode } = this;
    const voice = this.chosen;
    const given = voice ? null : this.request.given;
    const own = given ? this.request.config() : { voice: voice?.id, language: this.language.value };
    const config = { ...own, ...studio.variation.sampling };
    const source = given ? { label: given.name, reference: given.sent() } : { label: voice?.name };
    const asked = { room: this.id, mode, config, text: studio.text, seed: studio.variation.nextSeed(), ...source };
    studio.stage.play(studio.say(asked), { clicked });
  }

  /** What the dock says before anything was spoken. */
  line() {
    return this.studio.facts.line(this.chosen?.name ?? this.reference?.name ?? '');
  }

  // --- the reference

  /**
   * Work with a file. What is no sound is said where it was chosen, and what was there before stays.
   *
   * @param {Blob} file @param {{name?: string, isNew?: boolean}} [options]
   */
  async upload(file, { name = file instanceof File ? file.name : this.studio.t('clone.reference'), isNew = true } = {}) {
    const { studio, status } = this;
    this.complain('ref_audio', '');
    status.textContent = studio.t('clone.reading_file');
    try {
      const pcm = await decoded(file);
      const limit = studio.limits.max_upload_bytes ?? 10 * 2 ** 20;
      if (!pcm && file.size > limit) {
        const sizes = { size: (file.size / 2 ** 20).toFixed(1), limit: Math.floor(limit / 2 ** 20) };
        throw new Error(studio.t('clone.too_large', sizes));
      }
      // The runtime reads more formats than a browser, and says what it cannot read.
      if (!pcm) await this.clinic.judged({ sound: file, transcript: null });
      this.take(new Reference({ pcm, file, name, source: 'upload', maxSeconds: this.microphone.maxSeconds }), isNew);
    } catch (error) {
      this.complain('ref_audio', studio.t('clone.not_taken', { name, why: errorOf(error).message }));
    } finally {
      status.textContent = '';
    }
  }

  /** @param {Int16Array} pcm */
  recorded(pcm) {
    const { studio } = this;
    const written = this.transcript.value;
    const reference = new Reference({ pcm, name: studio.t('clone.recorded'), source: 'recording', maxSeconds: this.microphone.maxSeconds });
    const isPart = this.take(reference, true);
    if (this.use.checkVisibility?.() ?? true) this.use.focus({ preventScroll: true });
    if (written || !pcm.length || isPart) return;
    this.words.fillIn(this.readingText, studio.t('clone.as_read'));
  }

  /**
   * Work with this reference from here on, also when the page is opened again.
   *
   * @param {Reference|null} reference @param {boolean} [isNew] nothing of it was chosen yet
   * @returns {boolean} whether something that is said in it was left out
   */
  take(reference, isNew = false) {
    this.stored.awaited = '';
    this.work(reference);
    this.steps.open(1);
    if (this.studio.current === this && addressed()) this.steps.name();
    if (!reference) {
      this.left.forget();
      return false;
    }
    this.left.store(reference);
    return isNew && this.choosing.begin();
  }

  /** @param {Reference|null} reference */
  work(reference) {
    this.complain('ref_audio', '');
    this.complain('ref_text', '');
    this.reference = reference;
    this.made = null;
    this.isRefused = false;
    this.trying.open = false;
    this.stored.value = '';
    this.words.clear();
    this.clinic.clear();
    this.keeping.forget();
    this.choosing.take(reference);
    this.find('name').textContent = reference?.name ?? '';
    this.find('length').textContent = reference?.pcm ? clock(reference.seconds) : '';
    const cut = this.find('cut');
    cut.hidden = !reference?.isCut;
    if (reference?.isCut) cut.textContent = this.studio.t('clone.cut', { s: clock(reference.seconds), most: reference.maxSeconds });
    this.trimmer.show(reference);
    this.paint();
    this.changed();
  }

  /** Put the recording away, with a way back. */
  drop() {
    const { reference, studio } = this;
    if (!reference) return;
    const back = this.left.wayBack();
    this.xvector.checked = false; // the next recording is judged anew
    this.take(null);
    this.find('record').focus({ preventScroll: true });
    offerUndo(studio, studio.t('clone.put_away'), () => {
      if (this.reference) return;
      back();
      studio.drafts.touch();
    });
  }

  /** Another part is chosen, not by the handles. */
  moved() {
    this.trimmer.paint();
    this.changed();
  }

  /** Something of the reference is different: judge it anew. */
  changed() {
    this.transcript.disabled = this.xvector.checked;
    const done = this.find('words-done');
    done.dataset.i18n = this.xvector.checked ? 'clone.sound_done' : 'clone.words_done';
    write(done, this.studio.t(done.dataset.i18n));
    this.compare();
    const { reference } = this;
    if (!reference) return;
    this.isRefused = false;
    const { start, end, length } = reference;
    const times = { from: start.toFixed(2), to: end.toFixed(2), s: length.toFixed(1) };
    this.span.textContent = reference.pcm ? this.studio.t('clone.span', times) : this.studio.t('clone.undecoded');
    this.paintUse();
    this.clinic.consult(() => ({
      sound: reference.sent(),
      transcript: this.xvector.checked ? null : this.transcript.value.trim(),
    }));
  }

  /** @param {Error & {param?: string}} error */
  refused(error) {
    this.isRefused = error.param !== 'ref_text';
    this.complain(this.isRefused ? 'ref_audio' : 'ref_text', error.message);
    this.paintUse();
  }

  /** Cut to what the clinic found to be speech. */
  tidy() {
    const { choosing, clinic, reference } = this;
    if (!clinic.said || !reference) return;
    const { start_s, end_s } = clinic.said.trim;
    const { start, end, cuts } = reference.choice;
    const behind = reference.length - end_s;
    choosing.undoable(this.studio.t('clone.tidied'), () => reference.choose({ start: start + start_s, end: end - behind, cuts }));
  }

  /** Warn of words that stand in the wrong field. */
  compare() {
    const words = this.reference && !this.chosen && !this.xvector.checked ? this.transcript.value : '';
    this.same.hidden = !alike(words, this.studio.text);
  }

  // --- steps

  /** The step that can be opened at most. */
  furthest() {
    if (!this.reference || this.microphone.state !== 'idle') return 1;
    return this.transcript.value.trim() || this.xvector.checked ? 3 : 2;
  }

  acceptWords() {
    if (this.furthest() === 3) return this.steps.go(3);
    this.complain('ref_text', this.studio.t('clone.words_first'));
    this.transcript.focus();
  }

  /** What was settled in each step. */
  summaries() {
    const { reference, studio } = this;
    if (!reference) return ['', '', ''];
    const lengths = { name: reference.name, s: reference.length.toFixed(1), all: clock(reference.seconds) };
    const chosen = reference.pcm ? studio.t(reference.whole ? 'clone.sum.whole' : 'clone.sum.chosen', lengths) : reference.name;
    return [chosen, this.xvector.checked ? studio.t('clone.xvector') : this.words.summary(), this.made?.name ?? ''];
  }

  /** @param {StoredVoice} voice */
  onKept(voice) {
    const { studio, reference } = this;
    const name = this.keeping.name.value;
    this.made = voice;
    this.keeping.forget();
    this.left.forget();
    this.find('done-name').textContent = studio.t('clone.done', { name: voice.name });
    this.paint();
    studio.refresh();
    this.find('done-speak').focus();
    offerUndo(studio, studio.t('clone.kept', { name: voice.name }), async () => {
      await api.delete(`v1/audio/voices/${voice.id}`).catch((error) => studio.toast(error.message));
      await studio.voices.refresh().catch(() => {});
      if (this.made !== voice || this.reference !== reference) return;
      this.made = null;
      if (reference) this.left.store(reference);
      this.keeping.name.value = name;
      this.steps.open(3);
      studio.drafts.touch();
    });
  }

  /** Where kept voices speak. @param {StoredVoice|null} voice */
  speakWith(voice) {
    if (voice) this.studio.go('speakers', { voice: voice.id });
  }

  /** The stored voice that is to speak; null: what is recorded here. */
  get chosen() {
    return this.stored.chosen;
  }

  // --- showing

  get readingText() {
    const { readings } = this.studio.presets;
    const own = this.studio.words.language === 'zh' ? readings.chinese : null;
    return readings[this.language.value.toLowerCase()] ?? own ?? readings.auto;
  }

  paint() {
    const { studio, reference, made } = this;
    this.stored.paint();
    const { chosen } = this;
    this.find('new').hidden = Boolean(chosen);
    this.furnish(Boolean(chosen));
    const isLive = this.microphone.state !== 'idle';
    this.find('ways').hidden = this.find('care').hidden = Boolean(reference) || isLive;
    this.recording.hidden = !reference || isLive;
    this.find('read').textContent = this.readingText;
    const isDecoded = Boolean(reference?.pcm);
    this.trimmer.root.hidden = !isDecoded;
    this.hearing.offer(isDecoded);
    const best = this.find('best');
    best.hidden = !this.choosing.isLong;
    best.textContent = studio.t('clone.best', { s: Math.round(this.choosing.bestSeconds) });
    this.find('done').hidden = !made;
    this.steps.paint(this.summaries(), Boolean(made));
    this.words.paint(); // which tells its host something, once it is seen
    this.paintUse();
    if (reference) this.trimmer.paint();
    this.compare();
    if (studio.current === this) studio.refresh();
  }

  paintUse() {
    const { reference, studio } = this;
    const s = reference?.length.toFixed(1) ?? '';
    this.use.textContent = studio.t(reference?.pcm ? 'clone.use' : 'clone.use_file', { s });
    this.use.disabled = this.isRefused || (reference?.pcm ? reference.length === 0 : false);
  }

  /** Put the text where it is wanted: with a stored voice, or in the steps. @param {boolean} isStored */
  furnish(isStored) {
    const home = isStored ? this.stored.root : this.trying;
    if (this.say.parentElement !== home) home.append(this.say);
  }
}
