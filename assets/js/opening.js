/**
 * The waiting page: says how far the studio and its runtime are, and makes room for the studio when that is there.
 */

import { preferred, Words } from './words.js';

const ASK_MS = 500;

document.documentElement.classList.toggle('dark', matchMedia('(prefers-color-scheme: dark)').matches);

const line = document.querySelector('#vw-opening-what');

async function translate() {
  const words = new Words();
  await words.load(preferred(['en', 'zh']));
  words.apply(document);
  document.documentElement.lang = words.language;
}

async function ask() {
  try {
    const response = await fetch(new URL('studio/status', document.baseURI), { cache: 'no-store' });
    const status = await response.json();
    if (status.page) {
      location.reload();
      return;
    }
    // Said again only when it has changed: it is read aloud.
    if (line.textContent !== status.sentence) line.textContent = status.sentence;
  } catch {
    // The server is on its way down or up; it is asked again.
  }
  setTimeout(ask, ASK_MS);
}

translate().catch(() => {}); // English stands there
ask();
