/**
 * Seed and sampling settings, and their controls on the page.
 *
 * A setting is not sent if it has the default value of the checkpoint.
 */

import { FieldError } from '../common/fields.js';

const MAX_SEED = 0xffffffff;

/** Seed and sampling settings, and their controls on the page. */
export class Variation {
  id = 'variation';

  /**
   * Create the settings from their elements on the page.
   *
   * @param {HTMLDetailsElement} root @param {(key: string, values?: Object<string, any>) => string} t
   */
  constructor(root, t) {
    this.t = t;
    this.seed = /** @type {HTMLInputElement} */ (root.querySelector('#vw-seed'));
    this.lock = /** @type {HTMLInputElement} */ (root.querySelector('#vw-lock'));
    this.now = /** @type {HTMLElement} */ (root.querySelector('#vw-variation-now'));
    this.reset = /** @type {HTMLButtonElement} */ (root.querySelector('#vw-as-model'));
    this.sliders = /** @type {HTMLInputElement[]} */ ([...root.querySelectorAll('[data-sampling]')]);
    /** Sampling settings that differ from the defaults. @type {Object<string, number>} */
    this.sampling = {};
    /** Default sampling settings of the checkpoint. @type {Object<string, number|null>} */
    this.defaults = {};
    this.seed.oninput = () => (this.lock.checked = this.seed.value !== '');
    root.oninput = () => this.paint();
    for (const slider of this.sliders) slider.addEventListener('input', () => this.move(slider));
    this.reset.onclick = () => this.useRequest({});
    this.paint();
  }

  /** Use the value that the user has set with a slider. @param {HTMLInputElement} slider */
  move({ dataset, valueAsNumber }) {
    const name = dataset.sampling ?? '';
    if (valueAsNumber === this.defaults[name]) delete this.sampling[name];
    else this.sampling[name] = valueAsNumber;
  }

  /** Use the default values of another checkpoint. @param {{sampling?: Object<string, number|null>}|undefined} card */
  offer(card) {
    this.defaults = card?.sampling ?? {};
    this.paint();
  }

  /**
   * Use the sampling settings of a stored request.
   *
   * Settings that the request does not contain get the default values.
   *
   * @param {Object<string, any>} config
   */
  useRequest(config) {
    this.sampling = {};
    for (const { dataset } of this.sliders) {
      const name = dataset.sampling ?? '';
      if (typeof config[name] === 'number' && config[name] !== this.defaults[name]) this.sampling[name] = config[name];
    }
    this.paint();
  }

  /**
   * Restore the seed and the sampling settings of a stored take.
   *
   * @param {{seed?: number|null, config?: Object<string, any>}} record
   */
  restore({ seed, config = {} }) {
    this.seed.value = seed == null ? '' : String(seed);
    this.lock.checked = this.seed.value !== '';
    this.useRequest(config);
  }

  /**
   * Return the seed for the next request: the fixed seed, or a random seed.
   *
   * @throws {FieldError} if the seed is out of range
   */
  nextSeed() {
    if (!this.lock.checked) this.seed.value = String(crypto.getRandomValues(new Uint32Array(1))[0]);
    const seed = this.seed.valueAsNumber;
    if (!Number.isInteger(seed) || seed < 0 || seed > MAX_SEED) throw new FieldError('seed', this.t('shell.seed_range'));
    this.paint();
    return seed;
  }

  draft() {
    return { seed: this.seed.value, lock: this.lock.checked, sampling: this.sampling };
  }

  /**
   * Restore the seed and the sampling settings of a stored draft.
   *
   * @param {{seed: string, lock: boolean, sampling: Object<string, number>}} draft
   */
  recall({ seed, lock, sampling }) {
    this.seed.value = seed;
    this.lock.checked = lock;
    this.useRequest(sampling);
  }

  paint() {
    for (const slider of this.sliders) {
      const name = slider.dataset.sampling ?? '';
      const value = this.sampling[name] ?? this.defaults[name];
      if (value != null) slider.value = String(value);
      slider.disabled = value == null;
      const output = slider.parentElement?.querySelector('output');
      if (output) output.textContent = value == null ? '' : String(value);
    }
    const moved = Object.entries(this.sampling);
    this.reset.hidden = moved.length === 0;
    const seed = this.lock.checked ? [this.t('shell.seed_fixed', { seed: this.seed.value })] : [];
    const parts = [...seed, ...moved.map(([name, value]) => `${this.t(`shell.${name}`)} ${value}`)];
    this.now.textContent = parts.length > 0 ? parts.join(', ') : this.t('shell.new_each_time');
  }
}
