/** Tells what happened by events whose details have a type, each by the event's name. */

/** @template {Object<string, unknown>} Details */
export class Emitter extends EventTarget {
  /**
   * Hear of an event.
   *
   * @template {keyof Details & string} Name
   * @param {Name} name @param {(detail: Details[Name]) => void} hear
   * @returns {() => void} hears no more of it
   */
  on(name, hear) {
    const listener = (/** @type {Event} */ event) => event instanceof CustomEvent && hear(event.detail);
    this.addEventListener(name, listener);
    return () => this.removeEventListener(name, listener);
  }

  /** @template {keyof Details & string} Name @param {Name} name @param {Details[Name]} detail */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
