/** The host's room: what the studio runs on, how it does, and other checkpoints. */

import { StudioError } from '../api.js';
import { inPageWords } from '../server_words.js';
import { Sparkline } from '../sparkline.js';

const ASK_MS = 2000;
const POINTS = 90; // three minutes
const PUBLISHED = ['CustomVoice', 'VoiceDesign', 'Base'];
const KNOWN = {
  '1.7B': PUBLISHED.map((name) => `Qwen/Qwen3-TTS-12Hz-1.7B-${name}`),
  '0.6B': ['CustomVoice', 'Base'].map((name) => `Qwen/Qwen3-TTS-12Hz-0.6B-${name}`),
};

/** Name of a figure -> its lines, now and before, and how its number is written. */
const FIGURES = {
  active: { lines: (now) => [now.active, now.waiting], say: (now) => [`${now.active} / ${now.slots}`, `+${now.waiting}`] },
  frames: { lines: (now, rate) => [rate(now.frames, 'frames')], say: (now, rate) => [whole(rate(now.frames, 'frames')), ''] },
  ttfa: {
    lines: (now) => [now.ttfa_p50_s, now.ttfa_p95_s],
    say: (now) => [milliseconds(now.ttfa_p50_s), `p95 ${milliseconds(now.ttfa_p95_s)}`],
  },
  underruns: { lines: (now) => [now.underruns], say: (now) => [whole(now.underruns), ''] },
  uncaptured: { lines: (now) => [now.uncaptured], say: (now) => [whole(now.uncaptured), ''] },
  memory: {
    lines: (now) => [used(now)],
    say: (now) => [gibibytes(used(now)), `/ ${gibibytes(now.memory.total)}`],
  },
};

export class HostRoom {
  static id = 'host';
  id = 'host';

  /** @param {HTMLElement} root @param {import('../studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.key = '';
    this.open = false;
    const find = (id) => root.querySelector(`#vw-host-${id}`);
    this.door = find('door');
    this.inside = find('inside');
    this.state = find('state');
    this.models = find('models');
    this.form = find('load');
    this.wanted = find('wanted');
    this.loadError = find('load-error');
    this.doorError = find('door-error');
    this.submit = find('submit');
    this.giveUp = find('give-up');
    this.progress = find('progress');
    this.settings = find('settings');
    this.known = find('known');
    this.voices = find('voices');
    this.voiceProblems = find('voice-problems');
    this.wyoming = find('wyoming');
    this.door.onsubmit = (event) => this.knock(event, find('key').value);
    this.form.onsubmit = (event) => this.load(event);
    this.giveUp.onclick = () => this.send('studio/host/models', 'DELETE');
    this.buildFigures(find('figures'));
  }

  buildFigures(place) {
    this.charts = {};
    for (const [name, { lines }] of Object.entries(FIGURES)) {
      const chart = new Sparkline(lines({ memory: {} }, () => null).length, POINTS);
      const figure = document.createElement('figure');
      figure.id = `vw-host-figure-${name}`;
      const caption = document.createElement('figcaption');
      caption.dataset.i18n = `host.figure.${name}`;
      caption.textContent = this.studio.t(`host.figure.${name}`);
      const value = document.createElement('div');
      value.className = 'vw-host-value';
      value.append(new Text('–'), document.createElement('small'));
      figure.append(caption, value, chart.element);
      place.append(figure);
      this.charts[name] = { chart, value };
    }
  }

  enter() {
    this.open = true;
    this.refresh();
  }

  leave() {
    this.open = false;
    clearTimeout(this.timer);
  }

  onLanguage() {
    this.shown = null;
    if (this.open) this.refresh();
  }

  // --- asking

  async ask(path, options = {}) {
    const response = await this.studio.api.ask(path, { ...options, headers: this.key ? { 'x-host-key': this.key } : {} });
    return response.json();
  }

  async refresh() {
    clearTimeout(this.timer);
    try {
      this.show(await this.ask('studio/host'));
    } catch (error) {
      if (!(error instanceof StudioError)) throw error;
      if (error.code === 'host_only') this.shut();
      else this.state.textContent = error.message;
    } finally {
      clearTimeout(this.timer); // whatever became of this answer, the next is asked for
      if (this.open && this.door.hidden) this.timer = setTimeout(() => this.refresh(), ASK_MS);
    }
  }

  shut() {
    this.inside.hidden = true;
    this.door.hidden = false;
    this.doorError.textContent = this.key ? this.studio.t('host.wrong_key') : '';
  }

  knock(event, key) {
    event.preventDefault();
    this.key = key;
    this.door.hidden = true;
    this.refresh();
  }

  async load(event) {
    event.preventDefault();
    const models = this.wanted.value.split('\n').map((line) => line.trim()).filter(Boolean);
    await this.send('studio/host/models', 'POST', JSON.stringify({ models }));
  }

  async send(path, method, body) {
    this.loadError.textContent = '';
    try {
      await this.ask(path, { method, body });
    } catch (error) {
      if (!(error instanceof StudioError)) throw error;
      this.loadError.textContent = error.message;
    }
    await this.refresh();
  }

  // --- showing

  show(now) {
    this.door.hidden = true;
    this.inside.hidden = false;
    this.studio.realVoices.allow(this.key, now.own);
    const { sentence, problem, change, loaded, of } = now.runtime;
    const isProblem = Boolean(problem) && !now.changing;
    this.state.textContent = inPageWords(now.changing ? (change ?? sentence) : (problem ?? sentence));
    this.state.classList.toggle('vw-error', isProblem);
    this.state.classList.toggle('vw-hint', !isProblem);
    this.submit.disabled = now.changing || !now.own;
    this.wanted.disabled = !now.own;
    this.giveUp.hidden = this.progress.hidden = !now.changing;
    if (now.changing && of) this.progress.value = loaded / of;
    else this.progress.removeAttribute('value');
    this.showModels(now.models);
    this.showProblems(now.voice_problems);
    this.showWyoming(now);
    this.showOnce(now);
    if (now.figures) this.showFigures(now.figures);
  }

  showModels(models) {
    this.models.replaceChildren(
      ...models.map((card) => {
        const item = document.createElement('li');
        const more = document.createElement('small');
        more.textContent = [card.modes.map((mode) => this.studio.t(`shell.mode.${mode}`)).join(', '), card.device, card.dtype, card.loaded ? null : this.studio.t('host.at_first_use'), card.fingerprint.slice(0, 12)]
          .filter(Boolean)
          .join(' · ');
        item.append(card.id, more);
        return item;
      }),
    );
  }

  /** Files in the folder of the voices that are no voices, each with why. */
  showProblems(problems) {
    this.voices.hidden = !problems.length;
    this.voiceProblems.replaceChildren(
      ...problems.map(({ file, why }) => {
        const item = document.createElement('li');
        const small = document.createElement('small');
        small.textContent = inPageWords(why);
        item.append(file, small);
        return item;
      }),
    );
  }

  /** Whether Home Assistant is served, and where; `ports` are those that are open now. */
  showWyoming({ ports, settings }) {
    const wanted = settings.find(({ env }) => env === 'VOICEWRIGHT_WYOMING').value;
    const state = ports.wyoming ? 'on' : wanted ? 'away' : 'off';
    this.wyoming.textContent = this.studio.t(`host.wyoming_${state}`, { uri: ports.wyoming ?? wanted });
  }

  /** What does not change from one answer to the next, so that nobody's typing is disturbed. */
  showOnce({ checkpoints, settings, own }) {
    const key = JSON.stringify([checkpoints, settings]);
    if (key === this.shown) return;
    this.shown = key;
    this.wanted.value = checkpoints.join('\n');
    const offers = { [this.studio.t('host.these')]: checkpoints, ...KNOWN };
    this.known.replaceChildren(
      ...Object.entries(offers).map(([name, models]) => {
        const button = document.createElement('button');
        Object.assign(button, { type: 'button', textContent: name, disabled: !own });
        button.onclick = () => (this.wanted.value = models.join('\n'));
        return button;
      }),
    );
    const groups = Object.groupBy(settings, ({ group }) => group);
    this.settings.replaceChildren(...Object.entries(groups).map(([name, knobs]) => this.group(name, knobs)));
  }

  group(name, knobs) {
    const details = document.createElement('details');
    const summary = document.createElement('summary');
    const changed = knobs.filter((knob) => knob.changed).length;
    summary.textContent = this.studio.t(`host.group.${name}`) + (changed ? ` (${this.studio.t('host.changed', { n: changed })})` : '');
    const list = document.createElement('dl');
    list.append(
      ...knobs.map((knob) => {
        const row = document.createElement('div');
        row.classList.toggle('vw-host-changed', knob.changed);
        const [term, told, value, about] = ['dt', 'dd', 'span', 'small'].map((tag) => document.createElement(tag));
        term.textContent = knob.env;
        value.textContent = knob.value === '' ? '–' : String(knob.value);
        Object.assign(about, { textContent: knob.about, lang: 'en' }); // for the host's eyes, as in runtime/settings.py
        told.append(value, about);
        row.append(term, told);
        return row;
      }),
    );
    details.append(summary, list);
    return details;
  }

  showFigures(now) {
    const at = performance.now();
    const before = this.before;
    // A runtime that was started again counts from nothing.
    const rate = (value, name) => (before && before.now[name] <= value ? (value - before.now[name]) / ((at - before.at) / 1000) : null);
    for (const [name, { lines, say }] of Object.entries(FIGURES)) {
      const { chart, value } = this.charts[name];
      chart.add(lines(now, rate));
      const [main, beside] = say(now, rate);
      value.firstChild.data = `${main} `;
      value.lastChild.textContent = beside;
    }
    this.before = { now, at };
  }
}

const whole = (value) => (value === null ? '–' : Math.round(value).toLocaleString());
const milliseconds = (seconds) => (seconds === null ? '–' : `${Math.round(seconds * 1000)} ms`);
const gibibytes = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
const used = ({ memory }) => (memory.total ? memory.total - memory.free : 0);
