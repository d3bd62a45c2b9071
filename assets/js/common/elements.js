/** Elements of the page by selector and class, typed events, and calls at a limited rate. */

// --- Finds the page's elements by their selector and their class, one that is not there is named; writes into
// them what is new.

/** @overload @param {ParentNode} root @param {string} selector @returns {HTMLElement} */
/** @template {Element} E @overload @param {ParentNode} root @param {string} selector @param {new () => E} kind @returns {E} */
/**
 * The first element that a selector finds.
 *
 * @param {ParentNode} root @param {string} selector @param {new () => Element} [kind]  its class
 * @returns {Element}
 * @throws {Error} there is none of that class: markup and module do not agree
 */
export function need(root, selector, kind = HTMLElement) {
  const found = root.querySelector(selector);
  if (found instanceof kind) return found;
  throw new Error(`The page has no ${kind.name} that is ${selector}`);
}

/** @overload @param {ParentNode} root @param {string} selector @returns {HTMLElement[]} */
/** @template {Element} E @overload @param {ParentNode} root @param {string} selector @param {new () => E} kind @returns {E[]} */
/**
 * All of a class that a selector finds.
 *
 * @param {ParentNode} root @param {string} selector @param {new () => Element} [kind]
 * @returns {Element[]}
 */
export function all(root, selector, kind = HTMLElement) {
  return [...root.querySelectorAll(selector)].filter((one) => one instanceof kind);
}

/**
 * Make an element.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {Object<string, unknown>} [properties] @param {(Node|string)[]} [children]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, properties = {}, children = []) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Return a copy of a template's content. @param {HTMLTemplateElement} template @returns {HTMLElement} */
export function copyOf(template) {
  const copy = template.content.firstElementChild?.cloneNode(true);
  if (copy instanceof HTMLElement) return copy;
  throw new Error(`The template #${template.id} is empty`);
}

/** Have these children in this order. Those that stay are not moved: that would take the focus away. @param {Element} parent @param {Element[]} wanted */
export function arrangeChildren(parent, wanted) {
  wanted.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild?.remove();
}

/**
 * Set an element's text only if it has changed, to avoid a layout and a paint.
 *
 * @param {Element} element @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The same for attributes. @param {Element} element @param {Object<string, string>} values by their names */
export function mark(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// --- Tells what happened by events whose details have a type, each by the event's name.

/** @template {Object<string, unknown>} Details */
export class Emitter extends EventTarget {
  /**
   * Listen to an event.
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

// --- Has what follows a sound done at most so often: each time costs the browser a style, a layout and a
// paint, on a laptop as much of a core as the voice itself would have.

const STEP_MS = 66;

/**
 * A function that has `action` done soon, once for all calls until then.
 *
 * @param {() => void} action @param {number} [ms] from the first of the calls
 */
export function throttle(action, ms = STEP_MS) {
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  let timer;
  const act = () => {
    timer = undefined;
    action();
  };
  return () => {
    timer ??= setTimeout(act, ms);
  };
}
