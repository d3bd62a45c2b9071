/** Elements of the page by selector and class, typed events, and calls at a limited rate. */

// --- Search, creation and update of elements.

/** @overload @param {ParentNode} root @param {string} selector @returns {HTMLElement} */
/** @template {Element} E @overload @param {ParentNode} root @param {string} selector @param {new () => E} kind @returns {E} */
/**
 * Return the first element that matches a selector.
 *
 * @param {ParentNode} root @param {string} selector @param {new () => Element} [kind]  its class
 * @returns {Element}
 * @throws {Error} no element of that class matches
 */
export function need(root, selector, kind = HTMLElement) {
  const found = root.querySelector(selector);
  if (found instanceof kind) return found;
  throw new Error(`The page has no ${kind.name} that is ${selector}`);
}

/** @overload @param {ParentNode} root @param {string} selector @returns {HTMLElement[]} */
/** @template {Element} E @overload @param {ParentNode} root @param {string} selector @param {new () => E} kind @returns {E[]} */
/**
 * Return all elements of a class that match a selector.
 *
 * @param {ParentNode} root @param {string} selector @param {new () => Element} [kind]
 * @returns {Element[]}
 */
export function all(root, selector, kind = HTMLElement) {
  return [...root.querySelectorAll(selector)].filter((one) => one instanceof kind);
}

/** * Create an element.
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

/**
 * Give an element these children in this order.
 *
 * Children that stay are not moved, because they would lose the focus.
 *
 * @param {Element} parent @param {Element[]} wanted
 */
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

/**
 * Set attributes only if they have changed. @param {Element} element @param {Object<string, string>} values by their
 * names
 */
export function mark(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// --- Events with a typed detail for each name.

/** @template {Object<string, unknown>} Details */
export class Emitter extends EventTarget {
  /**
   * Listen to an event.
   *
   * @template {keyof Details & string} Name
   * @param {Name} name @param {(detail: Details[Name]) => void} listen
   * @returns {() => void} removes the listener
   */
  on(name, listen) {
    const listener = (/** @type {Event} */ event) => event instanceof CustomEvent && listen(event.detail);
    this.addEventListener(name, listener);
    return () => this.removeEventListener(name, listener);
  }

  /** @template {keyof Details & string} Name @param {Name} name @param {Details[Name]} detail */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

// --- Rate limit for page updates during playback. Each update costs style, layout and paint, on a laptop as much
// processor time as the speech itself.

const STEP_MS = 66;

/**
 * Return a function that runs `action` after a delay, once for all calls until then.
 *
 * @param {() => void} action @param {number} [ms] delay from the first call
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
