/**
 * Parser of exported chats, which returns each message as a line with its sender.
 *
 * WhatsApp chats (iOS and Android) are supported, and logs with a time before each name.
 *
 *     readChat('[31.12.25, 22:30:15] Mary: Hi\n[31.12.25, 22:31:02] Mary: \u200eimage omitted')
 *     // { lines: [{ name: 'Mary', instruct: '', text: 'Hi' }], leftOut: 1 }
 *
 * System messages and placeholders for missing media are skipped and counted.
 */

/** @typedef {import('./reading.js').ParsedLine} ParsedLine */

const MIN_MESSAGES = 2;
const MAX_NAME_CHARS = 64;

const INVISIBLE = '[\u200e\u200f\u202a-\u202e\u2066-\u2069]*';
const DATE = String.raw`\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4}\.?`;
// Examples: 10:30, 22:30:15, 22.30 (Finnish, Danish). AM, p. m., 下午 or 오후 may be before or after the time.
const TIME = String.raw`(?:[上下]午|午[前後]|오[전후]|klo|à)?\s?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[ap]\.?\s?m\.?)?`;
const DATED = new RegExp(`^${INVISIBLE}(?:\\[${DATE},?\\s+${TIME}\\]|${DATE},?\\s+${TIME}(?=\\s*[-–,<\\p{L}]))\\s*(?:[-–,]\\s+)?`, 'iu');
const TIMED = /^\[?\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]m)?\]?\s*(?:[-–]\s+)?(?=\S)/iu;
const SENDER = new RegExp(`^(?:<([^<>\\n]{1,${MAX_NAME_CHARS}})>\\s*|([^\\n]{1,${MAX_NAME_CHARS}}?)\\s?(?::(?:\\s+|$)|：\\s*))`, 'u');
// In a log without dates, the sender must look like a name, unlike in "10:30 The train leaves: …".
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
