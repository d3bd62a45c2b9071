/** Sound that was not asked of the runtime, such as a reference, as a take that the stage can play. */

import { api } from './api.js';
import { decoded } from './reference.js';
import { Take } from './take.js';

/** @param {Int16Array} pcm mono, 24 kHz @param {string} label */
export function heard(pcm, label) {
  const take = new Take({ room: 'clone', mode: 'base', config: {}, text: '', seed: 0, label });
  take.append(pcm);
  take.state = 'done';
  return take;
}

/**
 * What a stored voice was made of.
 *
 * @param {{id: string, name: string}} voice @param {import('./words.js').Words['t']} t
 * @returns {Promise<Take>}
 * @throws {Error} it cannot be had, or this browser cannot play it
 */
export async function recordingOf({ id, name }, t) {
  const pcm = await decoded(await api.blob(`v1/audio/voices/${id}/audio`));
  if (pcm) return heard(pcm, name);
  throw new Error(t('voices.unplayable', { name }));
}
