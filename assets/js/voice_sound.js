/** Sound that nobody asked the runtime for, such as a reference, as a take that the stage can play. */

import { Take } from './take.js';

/** @param {Int16Array} pcm mono, 24 kHz @param {string} label */
export function heard(pcm, label) {
  const take = new Take({ room: 'clone', mode: 'base', config: {}, text: '', seed: 0, label });
  take.append(pcm);
  take.state = 'done';
  return take;
}
