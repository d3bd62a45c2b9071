/** Host room of the page: state, metrics, settings and checkpoints of the server. */

import { StudioError } from '../common/api.js';
import { createElement, getElement, onSubmit } from '../common/elements.js';
import { translateMessage } from '../common/server_messages.js';
import { Figures } from './figures.js';

/**
 * @typedef {import('../common/fields.js').ModelCard} ModelCard
 *
 * @typedef {Object} HostStatus           response of GET studio/host
 * @property {{sentence: string, problem: string|null, change: string|null, loaded: number|null, of: number|null}} runtime
 * @property {boolean} own         true if the studio has started the runtime
 * @property {boolean} changing    true while other checkpoints are being loaded
 * @property {string[]} checkpoints
 * @property {(ModelCard & {loaded: boolean})[]} models
 * @property {import('./figures.js').RuntimeMetrics|null} figures
 * @property {import('./figures.js').RuntimeMetrics['host']} memory
 * @property {{file: string, why: string}[]} voice_problems
 * @property {Setting[]} settings
 * @property {Object<string, string>} ports  addresses of other open ports by protocol
 *
 * @typedef {{group: string, env: string, value: string|number|boolean|null, changed: boolean, about: string}} Setting  setting of the studio or the runtime
 */

const ASK_MS = 2000;
const PUBLISHED = ['CustomVoice', 'VoiceDesign', 'Base'];
const KNOWN = {
  '1.7B': PUBLISHED.map((name) => `Qwen/Qwen3-TTS-12Hz-1.7B-${name}`),
  '0.6B': ['CustomVoice', 'Base'].map((name) => `Qwen/Qwen3-TTS-12Hz-0.6B-${name}`),
};

/** Host room of the page, with the state and the settings of the runtime. */
export class HostRoom {
  static id = 'host';
  id = 'host';

  /**
   * Create the Host room from its panel on the page.
   *
   * @param {HTMLElement} root @param {import('../app/studio.js').Studio} studio
   */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.key = '';
    this.open = false;
    /** Last shown values that rarely change, as JSON, or null. @type {string|null} */
    this.shownJson = null;
    this.keyForm = getElement(root, '#vw-host-door');
    this.content = getElement(root, '#vw-host-inside');
    this.state = getElement(root, '#vw-host-state');
    this.models = getElement(root, '#vw-host-models');
    this.wanted = getElement(root, '#vw-host-wanted', HTMLTextAreaElement);
    this.loadError = getElement(root, '#vw-host-load-error');
    this.keyError = getElement(root, '#vw-host-door-error');
    this.submit = getElement(root, '#vw-host-submit', HTMLButtonElement);
    this.cancelButton = getElement(root, '#vw-host-give-up');
    this.progress = getElement(root, '#vw-host-progress', HTMLProgressElement);
    this.settings = getElement(root, '#vw-host-settings');
    this.known = getElement(root, '#vw-host-known');
    this.voices = getElement(root, '#vw-host-voices');
    this.voiceProblems = getElement(root, '#vw-host-voice-problems');
    this.wyoming = getElement(root, '#vw-host-wyoming');
    const key = getElement(root, '#vw-host-key', HTMLInputElement);
    onSubmit(this.keyForm, () => this.useKey(key.value));
    onSubmit(getElement(root, '#vw-host-load'), () => this.load());
    this.cancelButton.onclick = () => this.send('studio/host/models', 'DELETE');
    this.figures = new Figures(getElement(root, '#vw-host-figures'), studio.t);
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
    this.shownJson = null;
    if (this.open) this.refresh();
  }

  // --- Requests.

  async refresh() {
    clearTimeout(this.timer);
    try {
      this.show(await this.studio.api.asHost(this.key, 'studio/host'));
    } catch (error) {
      if (!(error instanceof StudioError)) throw error;
      if (error.code === 'host_only') this.lock();
      else this.state.textContent = error.message;
    } finally {
      clearTimeout(this.timer); // Poll again, after success and after failure.
      if (this.open && this.keyForm.hidden) this.timer = setTimeout(() => this.refresh(), ASK_MS);
    }
  }

  lock() {
    this.content.hidden = true;
    this.keyForm.hidden = false;
    this.keyError.textContent = this.key ? this.studio.t('host.wrong_key') : '';
  }

  /** Use the key that the host has typed. @param {string} key */
  useKey(key) {
    this.key = key;
    this.keyForm.hidden = true;
    this.refresh();
  }

  /** Load the checkpoints whose names the host has typed, one on each line. */
  async load() {
    const models = this.wanted.value.split('\n').map((line) => line.trim()).filter(Boolean);
    await this.send('studio/host/models', 'POST', JSON.stringify({ models }));
  }

  /**
   * Send a change to the studio, and show the error or the new status.
   *
   * @param {string} path @param {string} method @param {string} [body]
   */
  async send(path, method, body) {
    this.loadError.textContent = '';
    try {
      await this.studio.api.asHost(this.key, path, { method, body });
    } catch (error) {
      if (!(error instanceof StudioError)) throw error;
      this.loadError.textContent = error.message;
    }
    await this.refresh();
  }

  // --- Rendering.

  /** Show the status of the runtime and the studio. @param {HostStatus} status */
  show(status) {
    this.keyForm.hidden = true;
    this.content.hidden = false;
    this.studio.realVoices.allow(this.key, status.own);
    const { sentence, problem, change, loaded, of } = status.runtime;
    const isProblem = Boolean(problem) && !status.changing;
    this.state.textContent = translateMessage(status.changing ? (change ?? sentence) : (problem ?? sentence));
    this.state.classList.toggle('vw-error', isProblem);
    this.state.classList.toggle('vw-hint', !isProblem);
    this.submit.disabled = status.changing || !status.own;
    this.wanted.disabled = !status.own;
    this.cancelButton.hidden = this.progress.hidden = !status.changing;
    if (status.changing && of) this.progress.value = (loaded ?? 0) / of;
    else this.progress.removeAttribute('value');
    this.showModels(status.models);
    this.showProblems(status.voice_problems);
    this.showWyoming(status);
    this.showOnce(status);
    if (status.figures) this.figures.show({ ...status.figures, host: status.memory }, { isCpu: status.models.every(({ device }) => device === 'cpu') });
  }

  /** Show the list of checkpoints. @param {HostStatus['models']} models */
  showModels(models) {
    this.models.replaceChildren(
      ...models.map(({ id, modes, device, dtype, loaded, fingerprint }) => {
        const names = modes.map((mode) => this.studio.t(`shell.mode.${mode}`)).join(', ');
        const about = [names, device, dtype, loaded ? null : this.studio.t('host.at_first_use'), fingerprint.slice(0, 12)];
        return createElement('li', {}, [id, createElement('small', { textContent: about.filter(Boolean).join(' · ') })]);
      }),
    );
  }

  /**
   * Show the files in the voice folder that cannot be used, each with the reason.
   *
   * @param {HostStatus['voice_problems']} problems
   */
  showProblems(problems) {
    this.voices.hidden = !problems.length;
    this.voiceProblems.replaceChildren(...problems.map(({ file, why }) => createElement('li', {}, [file, createElement('small', { textContent: translateMessage(why) })])));
  }

  /** Show if the service for Home Assistant is available, and its address. @param {HostStatus} now */
  showWyoming({ ports, settings }) {
    const wanted = settings.find(({ env }) => env === 'VOICEWRIGHT_WYOMING')?.value;
    const state = ports.wyoming ? 'on' : wanted ? 'away' : 'off';
    this.wyoming.textContent = this.studio.t(`host.wyoming_${state}`, { uri: ports.wyoming ?? wanted });
  }

  /**
   * Show the settings and checkpoints of a response, but only if they have changed.
   *
   * An update of a form field would overwrite the text that the host is typing.
   *
   * @param {HostStatus} now
   */
  showOnce({ checkpoints, settings, own }) {
    const key = JSON.stringify([checkpoints, settings]);
    if (key === this.shownJson) return;
    this.shownJson = key;
    this.wanted.value = checkpoints.join('\n');
    const offers = { [this.studio.t('host.these')]: checkpoints, ...KNOWN };
    this.known.replaceChildren(
      ...Object.entries(offers).map(([name, models]) =>
        createElement('button', { type: 'button', textContent: name, disabled: !own, onclick: () => (this.wanted.value = models.join('\n')) }),
      ),
    );
    const groups = Map.groupBy(settings, ({ group }) => group);
    this.settings.replaceChildren(...[...groups].map(([name, members]) => this.group(name, members)));
  }

  /**
   * Return a collapsible group of settings, with the number of changed settings.
   *
   * @param {string} name @param {Setting[]} members
   */
  group(name, members) {
    const changed = members.filter((setting) => setting.changed).length;
    const title = this.studio.t(`host.group.${name}`) + (changed ? ` (${this.studio.t('host.changed', { n: changed })})` : '');
    const summary = createElement('summary', { textContent: title });
    summary.dataset.icon = 'right';
    return createElement('details', { className: 'vw-unfolds' }, [summary, createElement('dl', {}, members.map((setting) => this.row(setting)))]);
  }

  /** Return the row of a setting, with its value and its description. @param {Setting} setting */
  row(setting) {
    const value = createElement('span', { textContent: setting.value === '' ? '–' : String(setting.value) });
    const entry = [createElement('dt', { textContent: setting.env }), createElement('dd', {}, [value, this.about(setting)])];
    return createElement('div', { className: setting.changed ? 'vw-host-changed' : '' }, entry);
  }

  /**
   * Return an element with the description of a setting.
   *
   * The English descriptions are in runtime/settings.py and studio/settings.py.
   *
   * @param {Setting} setting
   */
  about({ env, about }) {
    const key = `settings.${env}`;
    const label = this.studio.t(key);
    const small = createElement('small', { textContent: label === key ? about : label });
    if (label === key) small.lang = 'en';
    return small;
  }
}
