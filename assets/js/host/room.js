/** The host's room: what the studio runs on, how it does, and other checkpoints. */

import { StudioError } from '../common/api.js';
import { need } from '../common/elements.js';
import { inPageWords } from '../common/server_messages.js';
import { Figures } from './figures.js';

/**
 * @typedef {import('../common/fields.js').ModelCard} ModelCard
 *
 * @typedef {Object} Now           GET studio/host
 * @property {{sentence: string, problem: string|null, change: string|null, loaded: number|null, of: number|null}} runtime
 * @property {boolean} own         the runtime is a child of this studio's
 * @property {boolean} changing    other checkpoints are being loaded
 * @property {string[]} checkpoints
 * @property {(ModelCard & {loaded: boolean})[]} models
 * @property {import('./figures.js').Now|null} figures
 * @property {{file: string, why: string}[]} voice_problems
 * @property {Knob[]} settings
 * @property {Object<string, string>} ports  that are open beside that of HTTP: their addresses
 *
 * @typedef {{group: string, env: string, value: string|number|boolean|null, changed: boolean, about: string}} Knob  a setting
 */

const ASK_MS = 2000;
const PUBLISHED = ['CustomVoice', 'VoiceDesign', 'Base'];
const KNOWN = {
  '1.7B': PUBLISHED.map((name) => `Qwen/Qwen3-TTS-12Hz-1.7B-${name}`),
  '0.6B': ['CustomVoice', 'Base'].map((name) => `Qwen/Qwen3-TTS-12Hz-0.6B-${name}`),
};

export class HostRoom {
  static id = 'host';
  id = 'host';

  /** @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.key = '';
    this.open = false;
    /** What of an answer stands there and does not change by itself, as JSON. @type {string|null} */
    this.shown = null;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    this.door = need(root, '#vw-host-door');
    this.inside = need(root, '#vw-host-inside');
    this.state = need(root, '#vw-host-state');
    this.models = need(root, '#vw-host-models');
    this.wanted = need(root, '#vw-host-wanted', HTMLTextAreaElement);
    this.loadError = need(root, '#vw-host-load-error');
    this.doorError = need(root, '#vw-host-door-error');
    this.submit = need(root, '#vw-host-submit', HTMLButtonElement);
    this.giveUp = need(root, '#vw-host-give-up');
    this.progress = need(root, '#vw-host-progress', HTMLProgressElement);
    this.settings = need(root, '#vw-host-settings');
    this.known = need(root, '#vw-host-known');
    this.voices = need(root, '#vw-host-voices');
    this.voiceProblems = need(root, '#vw-host-voice-problems');
    this.wyoming = need(root, '#vw-host-wyoming');
    const key = need(root, '#vw-host-key', HTMLInputElement);
    this.door.onsubmit = (event) => this.knock(event, key.value);
    need(root, '#vw-host-load').onsubmit = (event) => this.load(event);
    this.giveUp.onclick = () => this.send('studio/host/models', 'DELETE');
    this.figures = new Figures(need(root, '#vw-host-figures'), studio.t);
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

  /** @param {string} path @param {RequestInit} [options] */
  async ask(path, options = {}) {
    /** @type {Record<string, string>} */
    const headers = this.key ? { 'x-host-key': this.key } : {};
    const response = await this.studio.api.ask(path, { ...options, headers });
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
      clearTimeout(this.timer); // Ask again, whatever the result.
      if (this.open && this.door.hidden) this.timer = setTimeout(() => this.refresh(), ASK_MS);
    }
  }

  shut() {
    this.inside.hidden = true;
    this.door.hidden = false;
    this.doorError.textContent = this.key ? this.studio.t('host.wrong_key') : '';
  }

  /** @param {SubmitEvent} event @param {string} key */
  knock(event, key) {
    event.preventDefault();
    this.key = key;
    this.door.hidden = true;
    this.refresh();
  }

  /** @param {SubmitEvent} event */
  async load(event) {
    event.preventDefault();
    const models = this.wanted.value.split('\n').map((line) => line.trim()).filter(Boolean);
    await this.send('studio/host/models', 'POST', JSON.stringify({ models }));
  }

  /** @param {string} path @param {string} method @param {string} [body] */
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

  /** @param {Now} now */
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
    if (now.changing && of) this.progress.value = (loaded ?? 0) / of;
    else this.progress.removeAttribute('value');
    this.showModels(now.models);
    this.showProblems(now.voice_problems);
    this.showWyoming(now);
    this.showOnce(now);
    if (now.figures) this.figures.show(now.figures, { capturesGraphs: now.models.some(({ device }) => device !== 'cpu') });
  }

  /** @param {Now['models']} models */
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

  /** Files in the folder of the voices that are no voices, each with why. @param {Now['voice_problems']} problems */
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

  /** Whether Home Assistant is served, and where. @param {Now} now */
  showWyoming({ ports, settings }) {
    const wanted = settings.find(({ env }) => env === 'VOICEWRIGHT_WYOMING')?.value;
    const state = ports.wyoming ? 'on' : wanted ? 'away' : 'off';
    this.wyoming.textContent = this.studio.t(`host.wyoming_${state}`, { uri: ports.wyoming ?? wanted });
  }

  /** What does not change from one answer to the next, so that nobody's typing is disturbed. @param {Now} now */
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
    const groups = Map.groupBy(settings, ({ group }) => group);
    this.settings.replaceChildren(...[...groups].map(([name, knobs]) => this.group(name, knobs)));
  }

  /** @param {string} name @param {Knob[]} knobs */
  group(name, knobs) {
    const details = document.createElement('details');
    details.className = 'vw-unfolds';
    const summary = document.createElement('summary');
    summary.dataset.icon = 'right';
    const changed = knobs.filter((knob) => knob.changed).length;
    summary.textContent = this.studio.t(`host.group.${name}`) + (changed ? ` (${this.studio.t('host.changed', { n: changed })})` : '');
    const list = document.createElement('dl');
    list.append(
      ...knobs.map((knob) => {
        const row = document.createElement('div');
        row.classList.toggle('vw-host-changed', knob.changed);
        const term = element('dt', knob.env);
        const value = element('span', knob.value === '' ? '–' : String(knob.value));
        const about = this.about(knob);
        const told = document.createElement('dd');
        told.append(value, about);
        row.append(term, told);
        return row;
      }),
    );
    details.append(summary, list);
    return details;
  }

  /** What a setting means. English stands with the setting itself, in runtime/settings.py and studio/settings.py. @param {Knob} knob */
  about({ env, about }) {
    const key = `settings.${env}`;
    const said = this.studio.t(key);
    const small = element('small', said === key ? about : said);
    if (said === key) small.lang = 'en';
    return small;
  }
}

/** @param {string} tag @param {string} textContent */
const element = (tag, textContent) => Object.assign(document.createElement(tag), { textContent });
