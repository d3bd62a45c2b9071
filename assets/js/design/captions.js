/** What a take of the Design room is captioned: whose voice it is, which take of which set, and its whole description where its request has none. */

import { called } from './names.js';

const BETWEEN = ' · ';
const NUMBERED = /^\S+ \d*[ABC]$/u; // "Take 1A", in whichever language the page had

/**
 * @param {string} preset  the name of the preset that the description still is, or ''
 * @param {string} numbered  which take
 * @param {string} description  of the voice
 * @param {string} [whole]  what the request does not have of it
 */
export function labelOf(preset, numbered, description, whole = '') {
  const name = called(preset, description);
  return [name, numbered, whole === name ? '' : whole].filter(Boolean).join(BETWEEN);
}

/**
 * The label of a kept take; those that were kept when none began with whose voice it is are shown as they would be now.
 *
 * @param {Pick<import('../take.js').TakeRecord, 'room'|'label'|'config'>} take
 * @param {(description: string) => string} presetOf  the name of the preset that a description is, or ''
 */
export function captionOf({ room, label, config }, presetOf) {
  if (room !== 'design' || !label) return label ?? '';
  const [first, second = ''] = label.split(BETWEEN);
  if (!NUMBERED.test(first) || NUMBERED.test(second)) return label;
  const whole = label.slice(first.length + BETWEEN.length);
  const description = whole || String(config.instructions ?? '');
  return labelOf(presetOf(description), first, description, whole);
}
