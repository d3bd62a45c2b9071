/** Helpers for page elements, for typed events, and for calls at a limited rate. */

// --- Search, creation and update of elements.

/** @overload @param {ParentNode} root @param {string} selector @returns {HTMLElement} */
/**
 * @template {Element} E @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => E} kind
 * @returns {E}
 */
/**
 * Return the first element that matches a selector.
 *
 * @param {ParentNode} root @param {string} selector @param {new () => Element} [kind]  class of the element
 * @returns {Element}
 * @throws {Error} No element of this class matches the selector.
 */
export function getElement(root, selector, kind = HTMLElement) {
  const element = root.querySelector(selector);
  if (element instanceof kind) return element;
  throw new Error(`The page has no ${kind.name} that is ${selector}`);
}

/** @overload @param {ParentNode} root @param {string} selector @returns {HTMLElement[]} */
/**
 * @template {Element} E @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => E} kind
 * @returns {E[]}
 */
/**
 * Return all elements of a class that match a selector.
 *
 * @param {ParentNode} root @param {string} selector @param {new () => Element} [kind]
 * @returns {Element[]}
 */
export function getElements(root, selector, kind = HTMLElement) {
  return [...root.querySelectorAll(selector)].filter((one) => one instanceof kind);
}

/**
 * Create an element with properties and children.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {Object<string, unknown>} [properties] @param {(Node|string)[]} [children]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function createElement(tag, properties = {}, children = []) {
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
 * Replace the children of an element by other elements in the given order.
 *
 * Children that are in the right place are not moved, because a moved element would lose the focus.
 *
 * @param {Element} parent @param {Element[]} children
 */
export function arrangeChildren(parent, children) {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild?.remove();
}

/**
 * Set an element's text only if the text is different.
 *
 * An unchanged text then causes no new layout and no repaint.
 *
 * @param {Element} element @param {string} text
 */
export function writeText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Set attributes of an element, except those that already have the same value.
 *
 * @param {Element} element
 * @param {Object<string, string>} values values by attribute name
 */
export function setAttributes(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/** Run an action when a form is submitted, instead of loading a page. @param {HTMLElement} form @param {() => void} action */
export function onSubmit(form, action) {
  form.onsubmit = (event) => {
    event.preventDefault();
    action();
  };
}

// --- Events with a typed detail for each event name.

/**
 * Event target with a typed detail for each event name.
 *
 * @template {Object<string, unknown>} Details
 */
export class Emitter extends EventTarget {
  /**
   * Add a listener for an event, which receives the event's detail.
   *
   * @template {keyof Details & string} Name
   * @param {Name} name @param {(detail: Details[Name]) => void} listen
   * @returns {() => void} function that removes the listener
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

// --- Rate limit for page updates during playback. Each update needs style, layout and paint, which use as much CPU time
// on a laptop as the generation of speech.

const STEP_MS = 66;

/**
 * Return a function that runs `action` after a delay.
 *
 * Further calls during the delay have no effect.
 *
 * @param {() => void} action @param {number} [ms] delay after the first call
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
