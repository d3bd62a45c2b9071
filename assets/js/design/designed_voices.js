/** The list of designed voices with their origin and actions. */

import { all, make, need } from '../common/elements.js';
import { title } from '../common/fields.js';

/** @typedef {import('../speak/voices.js').StoredVoice} StoredVoice */

const TOLD = ['description', 'model', 'revision', 'seed', 'language', 'take', 'sha256', 'parent'];

export class DesignedVoices {
  /**
   * @param {HTMLElement} root the room's panel
   * @param {import('../app/studio.js').Studio} studio
   * @param {{again: (voice: StoredVoice) => void}} acts
   */
  constructor(root, studio, { again }) {
    this.studio = studio;
    this.again = again;
    this.section = need(root, '#vw-design-voices');
    this.list = need(root, '#vw-design-voices-list');
    studio.voices.addEventListener('change', () => this.refresh());
  }

  refresh() {
    const designed = this.studio.voices.list.filter(({ provenance }) => provenance.source === 'design');
    designed.sort((one, other) => other.created_at - one.created_at);
    const open = new Set(all(this.list, 'li:has(details[open])').map(({ dataset }) => dataset.voice));
    this.section.hidden = designed.length === 0;
    this.list.replaceChildren(...designed.map((voice) => this.entry(voice, open.has(voice.id))));
  }

  /** @param {StoredVoice} voice @param {boolean} open */
  entry(voice, open) {
    const { t } = this.studio;
    const summary = make('summary', { textContent: t('design.from') });
    summary.dataset.icon = 'right';
    const entry = make('li', {}, [
      make('h3', { textContent: voice.name }),
      make('p', { className: 'vw-design-words', textContent: voice.provenance.description ?? voice.description ?? '' }),
      make('div', { className: 'vw-design-acts' }, [
        this.button('design.use', voice, () => this.studio.go('speakers', { voice: voice.id })),
        this.button('design.in_script', voice, () => this.studio.go('script', { voice: voice.id })),
        this.button('design.again', voice, () => this.again(voice)),
      ]),
      make('details', { open, className: 'vw-unfolds' }, [summary, this.origin(voice.provenance)]),
    ]);
    entry.dataset.voice = voice.id;
    return entry;
  }

  /** @param {string} key @param {StoredVoice} voice @param {() => void} onclick */
  button(key, voice, onclick) {
    const textContent = this.studio.t(key);
    return make('button', { type: 'button', textContent, onclick, ariaLabel: `${textContent}: ${voice.name}` });
  }

  /** @param {Object<string, string>} provenance */
  origin(provenance) {
    const rows = TOLD.filter((name) => provenance[name]).map((name) =>
      make('div', {}, [
        make('dt', { textContent: this.studio.t(`design.from.${name}`) }),
        make('dd', { textContent: name === 'language' ? title(provenance[name]) : provenance[name] }),
      ]),
    );
    return make('dl', {}, rows);
  }
}
