/**
 * The page's glue: rooms, socket, player and read-outs meet here and nowhere else.
 *
 * @typedef {import('./rooms/fields.js').ModelCard} ModelCard
 */

import { Player } from './player.js';
import { SAMPLE_RATE } from './outputs.js';
import { BaseRoom } from './rooms/base.js';
import { CustomVoiceRoom } from './rooms/custom_voice.js';
import { FieldError } from './rooms/fields.js';
import { VoiceDesignRoom } from './rooms/voice_design.js';
import { Meter } from './meter.js';
import { Status } from './status.js';
import { Take } from './take.js';
import { Waveform } from './waveform.js';
import { SpeechSocket } from './ws_client.js';

/** Fields of the wire under which an error may be shown in a room, by the name that the server gives. */
const PLACE = { input: 'text', speaker: 'voice', instruct: 'instructions' };

/** @param {number} position 0 is next @param {number|null} etaMs null where nobody knows */
function placeInQueue(position, etaMs) {
  const place = position ? `${position} before you in the queue` : 'Next in the queue';
  return etaMs === null ? `${place}.` : `${place}, about ${Math.ceil(etaMs / 1000)} s.`;
}

class Studio {
  /** @param {HTMLElement} page @param {Object} presets */
  constructor(page, presets) {
    this.page = page;
    this.presets = presets;
    this.text = page.querySelector('#vw-text');
    this.speakButton = page.querySelector('#vw-speak');
    this.stopButton = page.querySelector('#vw-stop');
    this.seed = page.querySelector('#vw-seed');
    this.lock = page.querySelector('#vw-lock');
    this.again = page.querySelector('#vw-again');
    this.download = page.querySelector('#vw-download');
    this.note = page.querySelector('#vw-note');
    this.tabs = [...page.querySelectorAll('[role=tab]')];
    const complain = (field, sentence) => this.complain(field, sentence);
    this.rooms = [
      new CustomVoiceRoom(page, presets),
      new VoiceDesignRoom(page, presets),
      new BaseRoom(page, complain),
    ];
    /** @type {Map<string, ModelCard>} */
    this.cards = new Map();
    this.player = new Player();
    this.waveform = new Waveform(page.querySelector('#vw-wave'));
    this.meter = new Meter(page);
    this.socket = new SpeechSocket(socketUrl());
    this.status = new Status(page, this.socket);
    /** @type {Take|null} */
    this.take = null;
    this.utterance = null;
    this.attempts = 0;
    this.text.value = presets.texts.auto;
    this.listen();
    this.enter(this.rooms[0]);
  }

  listen() {
    const arm = () => this.player.arm().catch(() => {});
    document.addEventListener('pointerdown', arm, { capture: true });
    document.addEventListener('keydown', arm, { capture: true });
    document.addEventListener('keydown', (event) => this.onKey(event));
    this.speakButton.onclick = () => this.speak();
    this.stopButton.onclick = () => this.stop();
    this.again.onclick = () => this.playAgain();
    this.seed.oninput = () => (this.lock.checked = this.seed.value !== '');
    for (const tab of this.tabs) tab.onclick = () => this.enter(this.room(tab.dataset.mode));
    this.page.querySelector('[role=tablist]').onkeydown = (event) => this.onTabKey(event);
    this.page.addEventListener('change', (event) => this.onLanguage(event.target));
    this.player.addEventListener('finished', () => this.onFinished());
    this.status.addEventListener('models', ({ detail }) => this.offer(detail));
    this.socket.addEventListener('session', ({ detail }) => this.room('base').limit(detail.limits ?? {}));
    this.socket.open();
  }

  room(mode) {
    return this.rooms.find((room) => room.mode === mode);
  }

  /** Show one room and hide the others. */
  enter(room) {
    this.current = room;
    for (const tab of this.tabs) {
      const chosen = tab.dataset.mode === room.mode;
      tab.setAttribute('aria-selected', chosen);
      tab.tabIndex = chosen ? 0 : -1;
      this.page.querySelector(`#vw-room-${tab.dataset.mode}`).hidden = !chosen;
    }
    this.clearComplaints();
    this.refresh();
  }

  /** Take the options from what the runtime holds. @param {ModelCard[]} cards */
  offer(cards) {
    const first = this.cards.size === 0;
    this.cards.clear();
    for (const room of this.rooms) {
      const card = cards.find(({ modes }) => modes.includes(room.mode));
      const tab = this.tabs.find(({ dataset }) => dataset.mode === room.mode);
      const unserved = this.page.querySelector(`#vw-room-${room.mode} .vw-unserved`);
      tab.setAttribute('aria-disabled', !card);
      unserved.hidden = Boolean(card);
      unserved.textContent = `No loaded checkpoint serves ${tab.firstChild.textContent.trim()}. Start with --model ${room.mode}=PATH to use it.`;
      tab.title = card ? '' : unserved.textContent;
      if (!card) continue;
      this.cards.set(room.mode, card);
      room.offer(card);
    }
    const served = this.rooms.find(({ mode }) => this.cards.has(mode));
    if (first && served && !this.cards.has(this.current.mode)) this.enter(served);
    this.refresh();
  }

  /** Make the buttons say what can be done. */
  refresh() {
    this.speakButton.disabled = !this.cards.has(this.current.mode);
    this.stopButton.disabled = !this.utterance && !this.player.sounding;
    const whole = Boolean(this.take?.samples) && !this.utterance;
    this.again.disabled = !whole;
    this.download.setAttribute('aria-disabled', !whole);
    if (whole) this.take.offer(this.download);
    else this.download.removeAttribute('href');
  }

  async speak() {
    if (this.speakButton.disabled) return;
    const clicked = performance.now();
    this.stop();
    this.clearComplaints();
    const attempt = ++this.attempts;
    this.player.arm().catch(() => this.complain('request', 'The browser would not open an audio output.'));
    try {
      const config = await this.config();
      if (attempt === this.attempts) this.start(clicked, config);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.complain(error.field, error.message);
    }
  }

  async config() {
    if (!this.text.value.trim()) throw new FieldError('text', 'Write something to say first.');
    return { ...(await this.current.config()), seed: this.nextSeed() };
  }

  nextSeed() {
    if (!this.lock.checked) this.seed.value = crypto.getRandomValues(new Uint32Array(1))[0];
    const seed = this.seed.valueAsNumber;
    if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff) {
      throw new FieldError('seed', 'A seed is a whole number from 0 to 4294967295.');
    }
    return seed;
  }

  start(clicked, config) {
    const playing = this.player.begin();
    const take = new Take(this.current.mode, config.seed);
    this.take = take;
    this.waveform.clear();
    this.meter.begin(clicked);
    this.utterance = this.socket.speak(config, this.text.value, {
      onQueue: (position, etaMs) => this.say(placeInQueue(position, etaMs)),
      onStart: (start) => this.say((start.notes ?? []).join(' ')),
      onAudio: (pcm) => {
        this.player.push(playing, pcm);
        take.append(pcm);
        this.meter.received(take.samples);
        this.waveform.append(pcm);
      },
      onDone: (done) => {
        this.player.end(playing);
        this.meter.done(done);
        this.finishUtterance();
      },
      onError: (error) => {
        this.player.end(playing);
        this.meter.failed();
        this.finishUtterance();
        this.complain(PLACE[error.param] ?? error.param ?? 'request', error.message);
      },
    });
    this.refresh();
    this.animate();
  }

  finishUtterance() {
    this.utterance = null;
    this.refresh();
  }

  /** Silence now, here and in the runtime. */
  stop() {
    this.attempts += 1;
    this.player.stop();
    if (this.utterance) {
      this.utterance.cancel();
      this.meter.cancelled();
    }
    this.say('');
    this.finishUtterance();
  }

  async playAgain() {
    await this.player.arm();
    const playing = this.player.begin();
    for (const pcm of this.take.chunks) this.player.push(playing, pcm);
    this.player.end(playing);
    this.refresh();
    this.animate();
  }

  onFinished() {
    this.waveform.seek(this.player.position());
    this.meter.follow(this.player);
    this.refresh();
  }

  /** Follow the sound until it has ended. */
  animate() {
    cancelAnimationFrame(this.frame);
    const step = () => {
      this.waveform.seek(this.player.position());
      this.meter.follow(this.player);
      if (this.utterance || this.player.sounding) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  /** Speak the sample sentence of a newly chosen language, unless the text is the user's own. */
  onLanguage(select) {
    if (select !== this.current.language) return;
    const { texts } = this.presets;
    const untouched = Object.values(texts).includes(this.text.value);
    const sample = texts[select.value.toLowerCase()];
    if (untouched && sample) this.text.value = sample;
  }

  onKey(event) {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.speak();
    } else if (event.key === 'Escape' && !this.stopButton.disabled) {
      this.stop();
    }
  }

  onTabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = this.rooms.indexOf(this.current);
    this.enter(this.rooms[(at + step + this.rooms.length) % this.rooms.length]);
    this.tabs.find(({ tabIndex }) => tabIndex === 0).focus();
  }

  say(sentence) {
    this.note.textContent = sentence;
  }

  /** Show a sentence where its cause is, or at the Speak button where the page has no such place. */
  complain(field, sentence) {
    const room = this.page.querySelector(`#vw-room-${this.current.mode}`);
    const place =
      room.querySelector(`[data-error-for="${CSS.escape(field)}"]`) ??
      this.page.querySelector(`.vw-desk > section > [data-error-for="${CSS.escape(field)}"]`) ??
      this.page.querySelector('[data-error-for=request]');
    place.textContent = sentence;
  }

  clearComplaints() {
    for (const place of this.page.querySelectorAll('[data-error-for]')) place.textContent = '';
  }
}

function socketUrl() {
  const url = new URL('v1/audio/speech/stream', document.baseURI);
  url.protocol = url.protocol.replace('http', 'ws');
  return url;
}

/** Bring the page in `element` to life. @param {HTMLElement} element */
export async function mount(element) {
  const presets = await (await fetch(new URL('studio/presets', document.baseURI))).json();
  new Studio(element.querySelector('#vw'), presets);
}
