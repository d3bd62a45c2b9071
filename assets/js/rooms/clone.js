/** The Clone room: a stored voice, or one from reference audio that is recorded or uploaded here (Base). */

import { api } from '../api.js';
import { Clinic } from '../clone/clinic.js';
import { KeepForm } from '../clone/keep_form.js';
import { alike } from '../clone/likeness.js';
import { Microphone } from '../clone/microphone.js';
import { takeDrops } from '../drops.js';
import { SAMPLE_RATE } from '../outputs.js';
import { recordings } from '../recordings.js';
import { decoded, Reference } from '../reference.js';
import { Trimmer } from '../trimmer.js';
import { heard } from '../voice_sound.js';
import { FieldError, fillLanguages, fillSelect, preselect } from './fields.js';

export class CloneRoom {
  static id = 'clone';
  id = 'clone';
  /** @type {'base'} */
  mode = 'base';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.transcript = root.querySelector('#vw-clone-transcript');
    this.xvector = root.querySelector('#vw-clone-xvector');
    this.language = root.querySelector('#vw-clone-language');
    this.voice = root.querySelector('#vw-clone-voice');
    this.file = root.querySelector('#vw-clone-file');
    this.name = root.querySelector('#vw-clone-name');
    this.recording = root.querySelector('#vw-clone-recording');
    this.reading = root.querySelector('#vw-clone-reading');
    this.span = root.querySelector('#vw-clone-span');
    this.play = root.querySelector('#vw-clone-play');
    this.transcribe = root.querySelector('#vw-clone-transcribe');
    this.same = root.querySelector('#vw-clone-same');
    this.asr = root.querySelector('#vw-clone-asr');
    this.cut = root.querySelector('#vw-clone-cut');
    this.stored = root.querySelector('#vw-clone-stored');
    /** @type {Reference|null} */
    this.reference = null;
    this.microphone = new Microphone(root, studio);
    this.trimmer = new Trimmer(root.querySelector('#vw-clone-trim'));
    this.clinic = new Clinic(root, studio, {
      onRefused: (error) => this.complain(error.param === 'ref_text' ? 'ref_text' : 'ref_audio', error.message),
      onTrim: () => this.tidy(),
    });
    this.keeping = new KeepForm(root, studio, () => this.kept());
    this.listen();
    this.paint();
  }

  listen() {
    const { studio, microphone } = this;
    this.file.onchange = () => {
      const [file] = this.file.files;
      if (file) this.upload(file);
      this.file.value = ''; // so that choosing the same file again is a change
    };
    takeDrops(this.root.querySelector('#vw-clone-card'), ([file]) => file && this.upload(file));
    microphone.addEventListener('begun', () => {
      this.complain('ref_audio', '');
      studio.stage.pause();
    });
    microphone.addEventListener('refused', ({ detail }) => this.complain('ref_audio', studio.t(detail)));
    microphone.addEventListener('recorded', ({ detail }) => this.recorded(detail));
    this.trimmer.addEventListener('move', () => this.changed());
    this.transcript.oninput = () => {
      this.asr.hidden = (!this.transcribe.disabled && !this.transcribe.hidden) || !this.asr.textContent;
      this.changed();
    };
    this.xvector.onchange = () => {
      this.complain('ref_text', '');
      this.changed();
    };
    this.transcribe.onclick = () => this.writeDown();
    this.play.onclick = () => this.hear();
    this.root.querySelector('#vw-clone-drop').onclick = () => {
      this.xvector.checked = false; // the next recording is judged anew
      this.take(null);
    };
    this.voice.onchange = () => this.paint();
    this.language.onchange = () => this.paint();
    this.root.querySelector('#vw-clone-stored-play').onclick = () => this.hearStored();
    studio.voices.addEventListener('change', () => this.listed());
    studio.textField.addEventListener('input', () => this.compare());
    this.keeping.addEventListener('kept', ({ detail }) => this.choose(detail));
  }

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
    if (known) this.choose(known);
    this.compare();
  }

  leave() {
    if (this.microphone.state === 'counting') this.microphone.cancel();
    else this.microphone.finish();
  }

  onLanguage() {
    this.microphone.paint();
    this.clinic.paint();
    this.paint();
  }

  /** @param {Object} record a kept take; `reference` is a Blob or null */
  async restore({ config, reference }) {
    this.language.value = config.language ?? 'auto';
    if (config.voice && this.studio.voices.find(config.voice)) return this.choose(this.studio.voices.find(config.voice));
    if (!reference) return;
    await this.upload(reference, this.studio.t('clone.of_take'));
    this.transcript.value = config.ref_text ?? '';
    this.xvector.checked = config.x_vector_only_mode ?? false;
    this.changed();
  }

  /** What was chosen and written; consent is given anew each time. */
  draft() {
    if (this.reopening) return this.reopening;
    const { start, end } = this.reference ?? {};
    const form = { language: this.language.value, transcript: this.transcript.value, only: this.xvector.checked };
    return { ...form, voice: this.voice.value, name: this.keeping.name.value, start, end };
  }

  /** Bring the recording back, and what was written of it. @param {Object} draft */
  async reopen(draft) {
    this.reopening = draft;
    preselect(this.language, draft.language);
    this.awaited = draft.voice;
    const kept = await recordings.get(this.id);
    this.reopening = null;
    if (!kept || this.reference) return;
    const reference = new Reference({ ...kept, maxSeconds: this.microphone.maxSeconds });
    if (reference.pcm) Object.assign(reference, { start: draft.start ?? 0, end: draft.end ?? reference.end });
    this.work(reference);
    this.transcript.value = draft.transcript;
    this.xvector.checked = draft.only;
    this.keeping.name.value = draft.name;
    this.changed();
  }

  /** Who speaks here, for a line of a script; null: a voice that is not kept. */
  spokenBy() {
    const { chosen, mode, language } = this;
    return chosen && { voice: { mode, voice: chosen.id, language: language.value }, instruct: '' };
  }

  async speak({ clicked }) {
    const { studio, mode } = this;
    const voice = this.chosen;
    const own = voice ? { voice: voice.id, language: this.language.value } : this.config();
    const config = { ...own, ...studio.variation.sampling };
    const source = voice ? { label: voice.name } : { label: this.reference.name, reference: this.reference.sent() };
    const asked = { room: this.id, mode, config, text: studio.text, seed: studio.variation.nextSeed(), ...source };
    studio.stage.play(studio.say(asked), { clicked });
  }

  /** What the dock says before anything was spoken. */
  line() {
    return this.studio.facts.line(this.chosen?.name ?? this.reference?.name ?? '');
  }

  /** The fields of session.config for what was recorded or uploaded. @throws {FieldError} */
  config() {
    const { t } = this.studio;
    if (this.microphone.state !== 'idle') throw new FieldError('ref_audio', t('clone.stop_first'));
    if (!this.reference) throw new FieldError('ref_audio', t('clone.record_first'));
    const ref_text = this.transcript.value.trim();
    const only = this.xvector.checked;
    if (!ref_text && !only) throw new FieldError('ref_text', t('clone.words_first'));
    return { language: this.language.value, x_vector_only_mode: only, ...(!only && { ref_text }) };
  }

  /** What is kept with a voice besides its name and consent. @throws {FieldError} */
  kept() {
    const { ref_text = '' } = this.config();
    const { source, start, end, seconds } = this.reference;
    const trim = this.reference.pcm && !this.reference.whole ? { trim: `${start.toFixed(2)} to ${end.toFixed(2)} of ${seconds.toFixed(2)} s` } : {};
    const fields = { language: this.language.value, ...(ref_text && { ref_text }) };
    return { sound: this.reference.sent(), fields, provenance: { source, ...trim } };
  }

  // --- the reference

  /** @param {Blob} file @param {string} [name] */
  async upload(file, name = file.name ?? this.studio.t('clone.reference')) {
    this.name.textContent = this.studio.t('clone.reading_file');
    const pcm = await decoded(file);
    const limit = this.studio.limits.max_upload_bytes ?? 10 * 2 ** 20;
    if (!pcm && file.size > limit) {
      const sizes = { size: (file.size / 2 ** 20).toFixed(1), limit: Math.floor(limit / 2 ** 20) };
      this.take(null);
      return this.complain('ref_audio', this.studio.t('clone.too_large', sizes));
    }
    this.take(new Reference({ pcm, file, name, source: 'upload', maxSeconds: this.microphone.maxSeconds }));
  }

  /** @param {Int16Array} pcm */
  recorded(pcm) {
    const { studio } = this;
    this.take(new Reference({ pcm, name: studio.t('clone.recorded'), source: 'recording', maxSeconds: this.microphone.maxSeconds }));
    if (this.transcript.value || !pcm.length) return;
    this.transcript.value = this.readingText;
    this.asr.hidden = false;
    this.asr.textContent = studio.t('clone.as_read');
  }

  /** Work with this reference from here on, also when the page is opened again. @param {Reference|null} reference */
  take(reference) {
    this.awaited = '';
    this.work(reference);
    if (!reference) return void recordings.delete(this.id);
    const { pcm, file, name, source } = reference;
    recordings.put(this.id, { pcm, file, name, source });
  }

  /** @param {Reference|null} reference */
  work(reference) {
    this.complain('ref_audio', '');
    this.complain('ref_text', '');
    this.reference = reference;
    this.voice.value = '';
    this.transcript.value = '';
    this.clinic.clear();
    this.keeping.forget();
    this.name.textContent = reference?.name ?? '';
    this.cut.hidden = !reference?.isCut;
    if (reference?.isCut) this.cut.textContent = this.studio.t('clone.cut', { s: clock(reference.seconds), most: reference.maxSeconds });
    this.trimmer.show(reference);
    this.paint();
    this.changed();
  }

  /** Something of the reference is different: judge it anew. */
  changed() {
    this.transcript.disabled = this.xvector.checked;
    this.compare();
    const { reference } = this;
    if (!reference) return;
    const { start, end } = reference;
    const times = { from: start.toFixed(2), to: end.toFixed(2), s: (end - start).toFixed(1) };
    this.span.textContent = reference.pcm ? this.studio.t('clone.span', times) : this.studio.t('clone.undecoded');
    this.clinic.consult(() => ({
      sound: reference.sent(),
      transcript: this.xvector.checked ? null : this.transcript.value.trim(),
    }));
  }

  /** Cut to what the clinic found to be speech. */
  tidy() {
    const { start_s, end_s } = this.clinic.said.trim;
    const from = this.reference.start;
    this.trimmer.move('end', from + end_s);
    this.trimmer.move('start', from + start_s);
  }

  /** Warn of words that stand in the wrong field. */
  compare() {
    const words = this.reference && !this.chosen && !this.xvector.checked ? this.transcript.value : '';
    this.same.hidden = !alike(words, this.studio.text);
  }

  /** Have the recording written down. */
  async writeDown() {
    const { studio, transcribe, reference } = this;
    this.complain('ref_text', '');
    transcribe.disabled = true;
    this.asr.hidden = false;
    this.asr.textContent = studio.t('clone.transcribing');
    try {
      const path = `studio/transcribe?language=${encodeURIComponent(this.language.value)}`;
      const answer = await api.blob(path, { method: 'POST', body: reference.sent() });
      const { text, by } = JSON.parse(await answer.text());
      if (reference !== this.reference) return;
      this.asr.textContent = studio.t(text ? 'clone.transcribed' : 'clone.nothing_heard', { by });
      if (text) this.transcript.value = text;
      this.changed();
    } catch (error) {
      this.asr.textContent = '';
      this.complain('ref_text', error.message);
    } finally {
      transcribe.disabled = false;
    }
  }

  // --- stored voices

  /** The stored voice that is to speak; null: what is recorded here. */
  get chosen() {
    return this.voice.value ? this.studio.voices.find(this.voice.value) : null;
  }

  /** The stored voices are known, or have changed. */
  listed() {
    const voice = this.awaited && this.studio.voices.find(this.awaited);
    this.awaited = '';
    if (voice) this.choose(voice);
    else this.paint();
  }

  /** @param {{id: string}} voice */
  choose({ id }) {
    this.paint();
    this.voice.value = id;
    this.paint();
  }

  // --- hearing and showing

  /** Play what is chosen of the reference. */
  hear() {
    const { studio, reference, trimmer } = this;
    if (studio.stage.sounding && studio.stage.take === this.sounding) return studio.stage.pause();
    this.sounding = heard(reference.chosen, reference.name);
    studio.stage.show(this.sounding);
    studio.stage.play(this.sounding);
    const follow = () => {
      const on = studio.stage.sounding && studio.stage.take === this.sounding && this.reference === reference;
      this.play.dataset.icon = on ? 'pause' : 'play';
      trimmer.follow(on ? reference.start + studio.stage.at / SAMPLE_RATE : null);
      if (on) requestAnimationFrame(follow);
    };
    follow();
  }

  async hearStored() {
    const { studio, chosen } = this;
    const pcm = await decoded(await api.blob(`v1/audio/voices/${chosen.id}/audio`));
    if (pcm) studio.stage.play(heard(pcm, chosen.name));
  }

  get readingText() {
    const { readings } = this.studio.presets;
    return readings[this.language.value.toLowerCase()] ?? readings.auto;
  }

  paint() {
    const { studio, reference } = this;
    fillSelect(this.voice, [['', studio.t('clone.new')], ...studio.voices.list.map(({ id, name }) => [id, name])]);
    const { chosen } = this;
    this.stored.hidden = !chosen;
    this.root.querySelector('#vw-clone-new').hidden = Boolean(chosen);
    if (chosen) this.describe(chosen);
    this.recording.hidden = !reference;
    this.reading.hidden = Boolean(reference);
    this.root.querySelector('#vw-clone-read').textContent = this.readingText;
    const decodedHere = Boolean(reference?.pcm);
    this.trimmer.root.hidden = !decodedHere;
    this.play.hidden = !decodedHere;
    this.keeping.offer(Boolean(reference) && !chosen);
    const { available, how } = studio.me.features?.transcribe ?? { available: false, how: '' };
    this.transcribe.hidden = !available;
    if (!available && how) {
      this.asr.hidden = false;
      this.asr.textContent = how;
    }
    if (reference) this.trimmer.paint();
    this.compare();
  }

  describe({ description, transcript, seconds, tags }) {
    const about = [description, `${seconds.toFixed(1)} s`, ...(tags ?? []).map((tag) => `#${tag}`)];
    this.stored.querySelector('#vw-clone-stored-about').textContent = about.filter(Boolean).join(' · ');
    this.stored.querySelector('#vw-clone-stored-words').textContent = transcript ?? this.studio.t('clone.by_xvector');
  }
}

/** @param {number} seconds */
function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
}
