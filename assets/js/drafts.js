/**
 * What was written and chosen in each room, kept in this browser while it is being written: for this tab, which a reload
 * brings back as it was, and for the next that is opened, which begins with what was written last.
 *
 * A source has an `id`, gives its form as `draft()` (values for JSON), takes it up again by `recall(draft)`, and by
 * `reopen(draft)` what takes longer: sound of the studio's, or a recording of this browser's (recordings.js).
 */

const PREFIX = 'voicewright.draft.';
const REST_MS = 400; // Delay between typing and saving.
const REST_SHARE = 20; // A long draft is kept for at most a twentieth of the time.

/** @typedef {Object<string, unknown>} Draft @typedef {{id: string, draft?(): Draft|null, recall?(draft: Draft): void, reopen?(draft: Draft): void}} Source */

export class Drafts {
  /** @param {Source[]} sources */
  constructor(sources) {
    this.sources = sources.filter(({ draft }) => draft);
    /** As this page read or wrote them last, by id: a page that only stands there overwrites nothing that another wrote. */
    this.known = new Map();
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    /** How long keeping took the last time, in milliseconds. */
    this.tookMs = 0;
    for (const event of ['input', 'change', 'click']) document.addEventListener(event, () => this.touch());
    document.addEventListener('visibilitychange', () => document.hidden && this.keep());
    addEventListener('pagehide', () => this.keep());
  }

  /** Give all sources back what they had. */
  recall() {
    for (const source of this.sources) {
      const draft = this.read(source.id);
      if (draft) {
        source.recall?.(draft);
        source.reopen?.(draft);
      }
      this.known.set(source.id, JSON.stringify(source.draft?.()));
    }
  }

  /** @param {string} id @returns {Draft|null} */
  read(id) {
    try {
      return JSON.parse(sessionStorage.getItem(PREFIX + id) ?? localStorage.getItem(PREFIX + id) ?? 'null');
    } catch {
      return null; // No storage, or another program's data.
    }
  }

  /** Something may be different: keep it soon. */
  touch() {
    this.timer ??= setTimeout(() => this.keep(), Math.max(REST_MS, REST_SHARE * this.tookMs));
  }

  keep() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const begun = performance.now();
    for (const source of this.sources) {
      const text = JSON.stringify(source.draft?.());
      if (text === this.known.get(source.id)) continue;
      this.known.set(source.id, text);
      try {
        for (const storage of [sessionStorage, localStorage]) storage.setItem(PREFIX + source.id, text);
      } catch {
        // A browser that gives the page no place: what is written lasts as long as the page.
      }
    }
    this.tookMs = performance.now() - begun;
  }
}
