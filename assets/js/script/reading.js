/**
 * Parser of plays, chats and other texts, which returns lines with speakers.
 *
 *     readText('ANNA (softly): Good morning.\n\nTOM: Is it?').lines
 *     // [{ name: 'ANNA', instruct: 'softly', text: 'Good morning.' }, { name: 'TOM', instruct: '', text: 'Is it?' }]
 *
 * @typedef {{name: string|null, instruct: string, text: string, starts?: number, chapter?: string}} ParsedLine  starts: time of
 * the subtitle in seconds; chapter: title, if the line is a heading
 * @typedef {{lines: ParsedLine[], leftOut: number}} ParsedText  leftOut: number of skipped chat messages
 */

import { sentencesIn } from '../common/text.js';
import { chapterTitle } from './document.js';

// Maximum number of characters of a line. Longer paragraphs are split between sentences, so that after a change less audio
// has to be generated again.
const MAX_LINE_CHARS = 600;

// Pattern of a style before the text: ANNA: (softly) …
const MANNER = /^[(（]([^)）]{1,200})[)）]\s*/u;

// Pattern of a speaker before the text: ANNA: …, Anna (softly): …, **Anna:** …, 安娜：…
const PREFIX = /^[*_]{0,3}(\p{L}[\p{L}\p{N} .'’_-]{0,31}?)\s*(?:[(（]([^)）]{1,200})[)）])?[*_]{0,3}\s*(?::[*_]{0,3}(?=\s|$)|：)\s*/u;
// Pattern of a word that is hyphenated at a line break.
const BROKEN = /(?<!\p{L})(\p{L}+)[-\u2010\u00ad]\n[ \t]*(\p{Ll}+)/gu;
// Name of a screenplay's character in its own row above the text: MARY, MARY (V.O.), @McAVOY.
const CUE = /^(?:(?=\p{Lu})(?!(?:INT|EXT|CHAPTER|PART|ACT|SCENE|BOOK)\b)([\p{Lu}\p{N}][\p{Lu}\p{N} .'’#-]{0,30}[\p{Lu}\p{N}])|@([^()]{1,32}?))\s*(\([^()]{1,20}\))?\s*\^?$/u;
// Words before a colon that are not speakers, even in capitals.
const NOBODY = new Set(['note', 'warning', 'caution', 'important', 'attention', 'tip', 'hint', 'todo', 'update', 'summary', 'ps', 'p.s.', 'nb', 're', 'fyi', 'faq', 'cut to']);
const HEADING = /^#{1,6}\s+(?=\S)/u; // Pattern of a heading in Markdown: # Part 1
const BLOCK = /^(?:ADDRESS|ARTICLE|ASIDE|BLOCKQUOTE|D[DLT]|DIV|FIGCAPTION|FIGURE|FOOTER|H\d|HEADER|HR|LI|MAIN|NAV|[OU]L|P|PRE|SECTION|TABLE|TR)$/u;
const PAUSES_ONLY = /^(?:\s*\[\s*pause\b[^\]]*\])+\s*$/iu;

/**
 * Parse a text as lines of a script.
 *
 * Empty lines separate paragraphs. In a text without empty lines, every row is a paragraph. A name with a colon sets the
 * speaker until the next name. A word before a colon counts as a name if a voice has this name, if it is in capitals, or if it
 * occurs twice. A heading in Markdown starts a chapter.
 *
 * @param {string} text
 * @param {(name: string) => boolean} [isVoice]  returns true if a voice has this name
 * @returns {ParsedText}
 */
export function readText(text, isVoice = () => false) {
  const chat = readChat(text);
  if (chat) return { lines: chat.lines.flatMap((line) => splitText(line.text).map((part) => ({ ...line, text: part }))), leftOut: chat.leftOut };
  const { paragraphs, names } = toParagraphs(joinBroken(text.replace(/^\uFEFF/, '').replace(/\r\n?|[\u0085\u2028]/g, '\n').replace(/[\f\u2029]/g, '\n\n')));
  const isName = nameRule(paragraphs, (name) => isVoice(name) || names.has(name));
  /** @type {ParsedLine[]} */
  const lines = [];
  let speaker = null;
  for (const paragraph of paragraphs) {
    const prefix = PREFIX.exec(paragraph);
    const named = prefix && isName(prefix[1]);
    if (named) speaker = prefix[1];
    // In a screenplay, text without a name above it belongs to the narrator.
    else if (names.isScreenplay) speaker = null;
    const spoken = (named ? paragraph.slice(prefix[0].length) : paragraph).trim();
    const manner = named && !prefix[2] ? MANNER.exec(spoken) : null;
    const rest = manner ? spoken.slice(manner[0].length) : spoken;
    const instruct = (named && (prefix[2] ?? manner?.[1])) || '';
    const title = rest.replace(HEADING, '');
    if (title !== rest && !named) speaker = null; // The narrator reads headings, and the text below them.
    const name = PAUSES_ONLY.test(rest) ? null : speaker;
    if (title === rest) for (const part of splitText(rest)) lines.push({ name, instruct, text: part });
    else lines.push({ name, instruct, text: title, chapter: chapterTitle(title) });
  }
  return { lines, leftOut: 0 };
}

/**
 * Return the text of copied HTML with each block as a paragraph.
 *
 * The result is '' without headings, list items and table rows, because the plain text of the clipboard is as good then.
 *
 * @param {string} html
 */
export function textOfHtml(html) {
  if (!/<(?:h[1-6]|li|tr)[\s>]/iu.test(html)) return '';
  const { body } = new DOMParser().parseFromString(html.replace(/\s+/gu, ' '), 'text/html');
  for (const element of body.querySelectorAll('*')) {
    if (/^(?:SCRIPT|STYLE|NOSCRIPT|TEMPLATE)$/u.test(element.tagName)) element.remove();
    else if (/^T[DH]$/u.test(element.tagName)) element.prepend(' ');
    else if (element.tagName === 'BR') element.prepend('\n');
    else if (BLOCK.test(element.tagName)) {
      element.prepend(/^H\d$/u.test(element.tagName) && element.textContent?.trim() ? '\n\n# ' : '\n\n');
      element.append('\n\n');
    }
  }
  return body.textContent ?? '';
}

/**
 * Join words that are hyphenated at the end of a row.
 *
 * The hyphen is kept if the same word with a hyphen also occurs elsewhere in the text.
 *
 * @param {string} text
 */
function joinBroken(text) {
  const hyphened = new Set(text.toLowerCase().match(/(?<!\p{L})\p{L}+-\p{L}+/gu));
  return text.replace(BROKEN, (_, head, tail) => (hyphened.has(`${head}-${tail}`.toLowerCase()) ? `${head}-${tail}` : head + tail));
}

/**
 * Split a text into paragraphs, and return the names of the speakers in it.
 *
 * @param {string} text text whose only line breaks are line feeds
 * @returns {{paragraphs: string[], names: Set<string> & {isScreenplay?: boolean}}}  names: names that are certainly speakers
 */
function toParagraphs(text) {
  const blank = /\n[ \t\u3000]*\n/;
  /** @type {Set<string> & {isScreenplay?: boolean}} */
  const names = new Set();
  const blocks = blank.test(text.trim()) ? text.split(/\n(?:[ \t\u3000]*\n)+/) : text.split('\n');
  return { paragraphs: screenplayParagraphs(blocks, names).flatMap(unwrap).filter(Boolean), names };
}

/**
 * Convert a screenplay to paragraphs that start with a name and a colon.
 *
 * @param {string[]} blocks
 * @param {Set<string> & {isScreenplay?: boolean}} names
 */
function screenplayParagraphs(blocks, names) {
  const cues = blocks.map((block) => (/\S.*\n/.test(block) ? CUE.exec(block.trim().split('\n', 1)[0].trim()) : null));
  const found = cues.filter((cue) => cue !== null);
  if (found.length < 2 && !found.some((cue) => cue[2] || cue[3])) return blocks;
  names.isScreenplay = true;
  return blocks.map((block, at) => {
    const name = cues[at]?.[1] ?? cues[at]?.[2];
    if (!name) return block;
    names.add(name);
    return `${name}: ${block.trim().split('\n').slice(1).join('\n')}`;
  });
}

/**
 * Join the rows of a paragraph to one row.
 *
 * A row that starts with a name begins a new paragraph, and a heading is a paragraph.
 *
 * @param {string} block
 */
function unwrap(block) {
  /** @type {string[]} */
  const paragraphs = [];
  for (const row of block.split('\n').map((row) => row.trim())) {
    const isNew = [PREFIX, PAUSES_ONLY, HEADING].some((start) => start.test(row));
    if (paragraphs.length === 0 || isNew || HEADING.test(paragraphs.at(-1) ?? '')) paragraphs.push(row);
    else paragraphs.push(join(paragraphs.pop() ?? '', row));
  }
  return paragraphs;
}

/**
 * Join two rows with a space, but without a space in Chinese and Japanese.
 *
 * @param {string} before
 * @param {string} after
 */
function join(before, after) {
  const wide = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}。，、！？：；”」』]$/u;
  return wide.test(before) ? before + after : `${before} ${after}`.trim();
}

/**
 * Return a function that returns true for names of speakers.
 *
 * @param {string[]} paragraphs
 * @param {(name: string) => boolean} isVoice
 * @returns {(name: string) => boolean}
 */
function nameRule(paragraphs, isVoice) {
  const counts = new Map();
  for (const paragraph of paragraphs) {
    const name = PREFIX.exec(paragraph)?.[1].toLowerCase();
    if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  /** @param {string} name */
  const capitals = (name) => name.length > 1 && name === name.toUpperCase() && name !== name.toLowerCase();
  const isInterview = counts.has('q') && counts.has('a');
  return (name) => {
    const plain = name.toLowerCase();
    if (isVoice(name)) return true;
    if (NOBODY.has(plain)) return false;
    return capitals(name) || counts.get(plain) > 1 || (isInterview && (plain === 'q' || plain === 'a'));
  };
}

/**
 * Split a text into segments of at most MAX_LINE_CHARS.
 *
 * The text is split between sentences. Longer sentences are split between clauses, or else between words.
 *
 * @param {string} text
 */
function splitText(text) {
  if (text.length <= MAX_LINE_CHARS) return text ? [text] : [];
  const pieces = [''];
  for (const segment of sentencesIn(text).flatMap(shortened)) {
    const last = pieces[pieces.length - 1];
    if (last && last.length + segment.trimEnd().length > MAX_LINE_CHARS) pieces.push('');
    pieces.push(pieces.pop() + segment);
  }
  return pieces.map((piece) => piece.trim()).filter(Boolean);
}

/** Split a sentence into segments of at most MAX_LINE_CHARS. @param {string} sentence @returns {string[]} */
function shortened(sentence) {
  const pieces = [];
  let rest = sentence;
  while (rest.length > MAX_LINE_CHARS) {
    const head = rest.slice(0, MAX_LINE_CHARS);
    const ends = [/[,;:，；：、]\s*(?=[^,;:，；：、]*$)/u, /\s+(?=\S*$)/u].map((end) => end.exec(head));
    const end = ends.find((found) => found && found.index > MAX_LINE_CHARS / 4);
    const at = end ? end.index + end[0].length : MAX_LINE_CHARS;
    pieces.push(rest.slice(0, at));
    rest = rest.slice(at);
  }
  return [...pieces, rest];
}

// --- Exported chats: of WhatsApp (iOS and Android), and logs with a time before each name. Each message becomes a line with its
// sender. System messages and placeholders for missing media are skipped and counted.

const MIN_MESSAGES = 2;
const MAX_NAME_CHARS = 64;

const INVISIBLE = '[\u200e\u200f\u202a-\u202e\u2066-\u2069]*';
const DATE = String.raw`\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4}\.?`;
// Pattern of a time, such as 10:30, 22:30:15 or 22.30 (Finnish, Danish). AM, p. m., 下午 or 오후 may precede or follow
// it.
const TIME = String.raw`(?:[上下]午|午[前後]|오[전후]|klo|à)?\s?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[ap]\.?\s?m\.?)?`;
const DATED = new RegExp(`^${INVISIBLE}(?:\\[${DATE},?\\s+${TIME}\\]|${DATE},?\\s+${TIME}(?=\\s*[-–,<\\p{L}]))\\s*(?:[-–,]\\s+)?`, 'iu');
const TIMED = /^\[?\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]m)?\]?\s*(?:[-–]\s+)?(?=\S)/iu;
const SENDER = new RegExp(`^(?:<([^<>\\n]{1,${MAX_NAME_CHARS}})>\\s*|([^\\n]{1,${MAX_NAME_CHARS}}?)\\s?(?::(?:\\s+|$)|：\\s*))`, 'u');
// Pattern of a sender in a log without dates. The sender must look like a name, unlike in "10:30 The train leaves: …".
const NAME = /^(?:<([^<>]{1,32})>\s*|(\p{L}[\p{L}\p{N} .'’_-]{0,31}?)\s*(?::(?=\s|$)|：)\s*)/u;

// Placeholders for system messages and media: a mark on iOS, <Media omitted> or a file name on Android.
const MARKED = /^\u200e/u;
const PLACEHOLDER = /^(?:<[^<>]{3,60}>|\S[^\n]*\.\w{2,4} \([^()]{3,40}\)|null)$/u;
const DELETED = new RegExp(
  `^(?:${[
    '(?:This message was|You) deleted(?: this message)?',
    'Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht',
    'Ce message a été supprimé|Vous avez supprimé ce message',
    'Se eliminó este mensaje|Eliminaste este mensaje|Este mensaje fue eliminado',
    'Questo messaggio è stato eliminato|Hai eliminato questo messaggio',
    'Mensagem apagada|Esta mensagem foi apagada|Você apagou esta mensagem',
    'Сообщение удалено|Данное сообщение удалено|Вы удалили данное сообщение',
    '此消息已删除|此訊息已刪除|您已删除此消息',
    'このメッセージは削除されました|삭제된 메시지입니다',
    'Missed (?:voice|video) call|Waiting for this message.*',
  ].join('|')})[.。]?$`,
  'iu',
);
const EDITED = /\s*\u200e?<(?:This message was edited|[^<>]*(?:edited|bearbeitet|editad[oa]|modifi[ée]|modificato|изменено|编辑|編集|수정)[^<>]*)>$/iu;
const UNSEEN = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Parse the text of an exported chat.
 *
 * @param {string} text
 * @returns {{lines: ParsedLine[], leftOut: number}|null} null if the text is not a chat; leftOut: skipped messages
 */
export function readChat(text) {
  const rows = text.replace(/^\uFEFF/, '').split(/\r\n?|\n/);
  const dated = rows.filter((row) => senderOf(row, DATED, SENDER)).length;
  const [stamp, sender] = dated >= MIN_MESSAGES ? [DATED, SENDER] : [TIMED, NAME];
  if (dated < MIN_MESSAGES && rows.filter((row) => senderOf(row, TIMED, NAME)).length < MIN_MESSAGES) return null;
  /** @type {ParsedLine[]} */
  const lines = [];
  let leftOut = 0;
  let isLeftOut = false; // True within a skipped message, which may have several rows.
  /** @type {string|null} */
  let name = null;
  const add = (/** @type {string} */ row) => {
    const content = row.replace(EDITED, '').replace(UNSEEN, '').trim();
    if (content) lines.push({ name, instruct: '', text: content });
  };
  for (const row of rows) {
    const found = senderOf(row, stamp, sender);
    if (found) {
      name = found.name;
      isLeftOut = false;
      if (isPlaceholder(found.content)) leftOut += 1;
      else add(found.content);
    } else if (stamp === DATED && DATED.test(row)) {
      leftOut += 1;
      isLeftOut = true;
    } else if (!isLeftOut) add(row);
  }
  return { lines, leftOut };
}

/**
 * Return the sender and the text of a row that starts a message, otherwise null.
 *
 * @param {string} row @param {RegExp} stamp pattern of the time @param {RegExp} sender pattern of the name
 */
function senderOf(row, stamp, sender) {
  const rest = stamp.test(row) ? row.replace(stamp, '') : null;
  const found = rest === null ? null : sender.exec(rest);
  if (!found || rest === null) return null;
  const name = (found[1] ?? found[2]).replace(UNSEEN, '').replaceAll('\u00a0', ' ').replace(/^~\s*/, '').trim();
  return name ? { name, content: rest.slice(found[0].length) } : null;
}

/**
 * Return true if a message was written by the chat program and not by a person.
 *
 * Examples are system messages, and placeholders for media that the export does not contain.
 *
 * @param {string} content
 */
function isPlaceholder(content) {
  const plain = content.replace(UNSEEN, '').trim();
  return MARKED.test(content) || PLACEHOLDER.test(plain) || DELETED.test(plain);
}
