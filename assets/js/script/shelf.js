/**
 * The scripts that the studio keeps: the list, the one that is open, and saving it while it is written.
 *
 * Events: 'open' when another script is open, 'list' when the list is another, 'state' when `state` is.
 */

import { errorOf } from '../errors.js';
import { Script } from './document.js';

const REST_MS = 700; // Delay after the last edit before saving.
const REST_SHARE = 5; // A long script is saved for at most a sixth of the time.

export class Shelf extends EventTarget {
  /** @param {typeof import('../api.js').api} api */
  constructor(api) {
    super();
    this.api = api;
    /** @type {{id: string, name: string, begins?: string}[]} newest first */
    this.list = [];
    /** @type {Script|null} */
    this.script = null;
    /** @type {'new'|'unsaved'|'saving'|'saved'|'conflict'|'unkept'} */
    this.state = 'new';
    /** Resolves when nothing is under way to the studio. */
    this.saving = Promise.resolve();
    this.puts = 0;
    /** How long the last saving took, in milliseconds. */
    this.tookMs = 0;
    /** Why it could not be saved. @type {import('../errors.js').Thrown|null} */
    this.error = null;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    this.onChange = () => this.touch();
    addEventListener('pagehide', () => this.leave());
  }

  /**
   * Open the script that was worked on last, or the one that is chosen of the list.
   *
   * @param {() => Script} first makes one where there is none
   * @param {(list: Shelf['list']) => {id: string}|null|undefined} [choose]
   */
  async begin(first, choose = ([newest]) => newest) {
    await this.refresh();
    const chosen = choose(this.list);
    if (chosen) await this.load(chosen.id);
    else this.open(first());
  }

  async refresh() {
    const { scripts } = await this.api.get('studio/scripts');
    this.list = scripts;
    this.dispatchEvent(new Event('list'));
  }

  /** @param {string} id */
  async load(id) {
    await this.flush();
    this.open(new Script(await this.api.get(`studio/scripts/${id}`)), 'saved');
  }

  /** @param {Script} script @param {Shelf['state']} [state] */
  open(script, state = 'new') {
    clearTimeout(this.timer);
    this.script?.removeEventListener('change', this.onChange);
    script.addEventListener('change', this.onChange);
    this.script = script;
    this.dispatchEvent(new Event('open'));
    this.enter(state);
  }

  /** Something was written: save it when the hands rest. */
  touch() {
    if (this.state === 'conflict') return;
    this.enter('unsaved');
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), Math.max(REST_MS, REST_SHARE * this.tookMs));
  }

  /** Save now what waits to be saved. */
  async flush() {
    clearTimeout(this.timer);
    if (this.state === 'unsaved') this.save();
    await this.saving;
  }

  /** Save once what is under way is saved: each version is made from the one before. */
  save() {
    const { script } = this;
    if (script) this.saving = this.saving.then(() => this.put(script));
    return this.saving;
  }

  /** @param {Script} script */
  async put(script) {
    if (script === this.script) this.enter('saving');
    this.puts += 1;
    const begun = performance.now();
    try {
      const { updated_at } = await this.api.put(`studio/scripts/${script.id}`, script);
      script.updatedAt = updated_at;
      if (script !== this.script) return;
      if (this.state === 'saving') this.enter('saved');
      this.remember(script);
    } catch (thrown) {
      const error = errorOf(thrown);
      if (script !== this.script) return;
      this.error = error;
      this.enter(error.status === 409 ? 'conflict' : 'unkept');
    } finally {
      this.puts -= 1;
      this.tookMs = performance.now() - begun;
    }
  }

  /** Put a script first in the list. @param {Script} script */
  remember({ id, name, begins }) {
    this.list = [{ id, name, begins }, ...this.list.filter((one) => one.id !== id)];
    this.dispatchEvent(new Event('list'));
  }

  /** Two tabs wrote the same script: take what the other one wrote. */
  async takeTheirs() {
    if (this.script) this.open(new Script(await this.api.get(`studio/scripts/${this.script.id}`)), 'saved');
  }

  /** Two tabs wrote the same script: what stands here is to hold. */
  async keepMine() {
    const { script } = this;
    if (!script) return;
    script.updatedAt = (await this.api.get(`studio/scripts/${script.id}`)).updated_at;
    await this.save();
  }

  /** Delete the open script and open another. @param {() => Script} first @returns {Promise<() => Promise<void>>} undoes it */
  async remove(first) {
    await this.flush();
    const { script } = this;
    if (!script) return async () => {};
    const path = `studio/scripts/${script.id}`;
    const isKept = this.list.some(({ id }) => id === script.id);
    if (isKept) await this.api.delete(path);
    await this.begin(first);
    return async () => {
      await this.flush();
      if (isKept) script.updatedAt = (await this.api.post(`${path}/restore`)).updated_at;
      this.open(script, isKept ? 'saved' : 'new');
      if (isKept) this.remember(script);
    };
  }

  /** Delete a script that is not open. @param {string} id @returns {Promise<() => Promise<void>>} undoes it */
  async discard(id) {
    await this.api.delete(`studio/scripts/${id}`);
    await this.refresh();
    return async () => {
      await this.api.post(`studio/scripts/${id}/restore`);
      await this.refresh();
    };
  }

  /** The page is left: what waits is sent on the way out. */
  leave() {
    const { script } = this;
    if (this.state !== 'unsaved' || !script) return;
    const headers = { 'content-type': 'application/json' };
    // The version is not known while one is under way.
    const body = JSON.stringify({ ...script.toJSON(), ...(this.puts && { updated_at: null }) });
    fetch(this.api.address(`studio/scripts/${script.id}`), { method: 'PUT', headers, body, keepalive: true }).catch(() => {});
  }

  /** @param {Shelf['state']} state */
  enter(state) {
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}
