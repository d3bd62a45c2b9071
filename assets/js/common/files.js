/** Helpers for files: valid names, SHA-256 digests, choosing and dropping, and downloads. */

import { createElement } from './elements.js';

// --- File names that are valid on every system, as in runtime/shared/file_names.py. All functions are pure.

const MAX_STEM_CHARS = 60;
// Pattern of device names, which Windows reserves with any extension.
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)/iu;

/**
 * Return a file name made from a text, which is valid on every operating system.
 *
 * @param {string} words text of the user @param {string} suffix extension without the dot
 */
export function fileName(words, suffix) {
  let name = words.replace(/[\p{C}\p{Z}<>:"/\\|?*]+/gu, ' ').trim();
  if (name.length > MAX_STEM_CHARS) {
    const head = name.slice(0, MAX_STEM_CHARS + 1).replace(/ [^ ]*$/u, '');
    name = head.length <= MAX_STEM_CHARS && head.length > MAX_STEM_CHARS / 2 ? head : name.slice(0, MAX_STEM_CHARS);
  }
  name = name.replace(/^[ .,;:]+|[ .,;:]+$/gu, '') || 'take';
  return `${RESERVED.test(name) ? '_' : ''}${name}.${suffix}`;
}

/** Save a file with the browser's download function. @param {Blob} file @param {string} name */
export function saveFile(file, name) {
  const link = createElement('a', { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// --- SHA-256 of recordings, as in the studio's store.

/**
 * Return the SHA-256 digest of a blob, or null if the browser cannot compute it.
 *
 * Browsers compute digests only on HTTPS pages and on pages from the same machine.
 *
 * @param {Blob} blob @returns {Promise<string|null>} SHA-256 in hexadecimal digits
 */
export async function digestOf(blob) {
  if (!crypto.subtle) return null;
  const sum = await crypto.subtle.digest('SHA-256', await blob.arrayBuffer());
  return [...new Uint8Array(sum)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

// --- Files that the user chooses, or drops on an element, which is highlighted during the drag (`vw-drop`).

/**
 * Let the user choose files with an input element, or drop them on another element.
 *
 * @param {HTMLInputElement} input @param {(files: File[]) => void} onFiles receives the files
 * @param {HTMLElement} [place] element on which files can be dropped
 */
export function acceptFiles(input, onFiles, place) {
  input.onchange = () => {
    const files = [...(input.files ?? [])];
    input.value = ''; // Clear the field. Otherwise, choosing the same file again would fire no change event.
    onFiles(files);
  };
  if (place) acceptDrops(place, onFiles);
}

/** Let the user drop files on an element. @param {HTMLElement} element @param {(files: File[]) => void} onFiles */
function acceptDrops(element, onFiles) {
  /** @param {boolean} on */
  const hover = (on) => element.classList.toggle('vw-drop', on);
  element.ondragover = (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    hover(true);
  };
  element.ondragleave = () => hover(false);
  element.ondrop = (event) => {
    event.preventDefault();
    hover(false);
    onFiles([...(event.dataTransfer?.files ?? [])]);
  };
}
