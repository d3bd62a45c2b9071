/** What a file may be called on anybody's disk: as runtime/shared/file_names.py. Pure. */

const LONGEST = 60; // Characters without the suffix.
// Windows opens a device for these names, whatever follows the first dot.
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)/iu;

/** @param {string} words what people wrote @param {string} suffix */
export function fileName(words, suffix) {
  let name = words.replace(/[\p{C}\p{Z}<>:"/\\|?*]+/gu, ' ').trim();
  if (name.length > LONGEST) {
    const head = name.slice(0, LONGEST + 1).replace(/ [^ ]*$/u, '');
    name = head.length <= LONGEST && head.length > LONGEST / 2 ? head : name.slice(0, LONGEST);
  }
  name = name.replace(/^[ .,;:]+|[ .,;:]+$/gu, '') || 'take';
  return `${RESERVED.test(name) ? '_' : ''}${name}.${suffix}`;
}

/** Hand a file to the browser. @param {Blob} file @param {string} name */
export function saveFile(file, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
