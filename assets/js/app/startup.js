/**
 * Script of the page that is shown while the server starts.
 *
 * It shows the state of the studio and of the runtime, and reloads the page when the studio is ready.
 */

import { getElement } from '../common/elements.js';
import { translateMessage, setTexts } from '../common/server_messages.js';
import { preferredLanguage, Words } from '../common/words.js';

const ASK_MS = 500;

const theme = new URLSearchParams(location.search).get('__theme') ?? '';
const isDark = ['light', 'dark'].includes(theme) ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
document.documentElement.classList.toggle('dark', isDark);

const line = getElement(document, '#vw-opening-what');

async function translate() {
  const words = new Words();
  await words.load(preferredLanguage(['en', 'zh']));
  setTexts(words);
  words.apply(document);
  document.documentElement.lang = words.language;
}

async function loadStatus() {
  try {
    const response = await fetch(new URL('studio/status', document.baseURI), { cache: 'no-store' });
    const status = await response.json();
    if (status.page) {
      location.reload();
      return;
    }
    // Screen readers announce every change, so an unchanged text is not written again.
    const sentence = translateMessage(status.sentence);
    if (line.textContent !== sentence) line.textContent = sentence;
  } catch {
    // The server is stopping or starting. The next request may succeed.
  }
  setTimeout(loadStatus, ASK_MS);
}

translate().catch(() => {}); // If the translation fails, the English markup remains.
loadStatus();
