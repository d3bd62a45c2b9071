/**
 * Sequence of takes and silences that is played without gaps.
 *
 * A take can be played while it is being generated.
 *
 * @typedef {import('./take.js').Take} Take
 * @typedef {Take|{silence: number}} Item   a take, or a silence in seconds
 *
 * @typedef {Object} Span     position of an item in the audio that was given to the player
 * @property {Item} item
 * @property {number} index   index of the item
 * @property {number} start   start of the item in the playlist in samples
 * @property {number} from    number of skipped samples of the item
 */

import { SAMPLE_RATE } from '../common/audio.js';

const SILENCE = new Int16Array(SAMPLE_RATE / 10);

/** Sequence of audio items that the player plays one after the other. */
export class Playlist {
  /**
   * Create a playlist.
   *
   * `gainDb` changes the level of all items.
   *
   * @param {Iterable<Item>|AsyncIterable<Item>} items @param {{gainDb?: number}} [options]
   */
  constructor(items, { gainDb = 0 } = {}) {
    /** @type {Iterator<Item>|AsyncIterator<Item>} */
    this.source = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
    /** @type {Promise<IteratorResult<Item>>[]} */
    this.requested = [];
    this.gain = 10 ** (gainDb / 20);
    /** @type {Span[]} */
    this.spans = [];
  }

  /**
   * Return the result of the source's iterator for an index.
   *
   * Each item is requested from the source only once.
   *
   * @param {number} index
   */
  async item(index) {
    while (this.requested.length <= index) this.requested.push(Promise.resolve(this.source.next()));
    return this.requested[index];
  }

  /**
   * Yield the PCM chunks of all items as they become available.
   *
   * `spans` is set to the items of this call.
   *
   * @param {{index?: number, at?: number}} [from]  index of the first item, and number of its samples to skip
   * @returns {AsyncGenerator<Int16Array>}
   */
  async *pieces({ index = 0, at = 0 } = {}) {
    /** @type {Span[]} */
    const spans = [];
    this.spans = spans;
    let start = 0;
    for (let skip = at; ; index++, skip = 0) {
      const { done, value: item } = await this.item(index);
      if (done) return;
      spans.push({ item, index, start, from: skip });
      for await (const pcm of 'silence' in item ? silenceChunks(item.silence) : samplesFrom(item, skip)) {
        start += pcm.length;
        yield this.gain === 1 ? pcm : withGain(pcm, this.gain);
      }
    }
  }

  /**
   * Return the item that contains a position, and the position within the item.
   *
   * @param {number} position number of samples that were yielded before
   * @returns {{span: Span, at: number}|null}
   */
  locate(position) {
    const span = this.spans.findLast(({ start }) => start <= position);
    return span ? { span, at: position - span.start + span.from } : null;
  }
}

/** Yield chunks of silence with a total duration. @param {number} seconds total duration */
function* silenceChunks(seconds) {
  for (let remaining = Math.round(seconds * SAMPLE_RATE); remaining > 0; remaining -= SILENCE.length) {
    yield remaining < SILENCE.length ? SILENCE.slice(0, remaining) : SILENCE.slice();
  }
}

/**
 * Yield the PCM chunks of a take from a position, also the chunks that arrive later.
 *
 * @param {Take} take
 * @param {number} from index of the first sample
 */
async function* samplesFrom(take, from) {
  let skip = from;
  await take.loadAudio();
  for (let index = 0; ; ) {
    for (; index < take.chunks.length; index++) {
      const pcm = take.chunks[index];
      if (skip < pcm.length) yield skip ? pcm.subarray(skip) : pcm;
      skip = Math.max(0, skip - pcm.length);
    }
    if (!take.isReceiving) return;
    await take.waitForEvent();
  }
}

/** Return samples multiplied by a gain and clipped to 16 bits. @param {Int16Array} pcm @param {number} gain */
function withGain(pcm, gain) {
  return pcm.map((sample) => Math.max(-32768, Math.min(32767, Math.round(sample * gain))));
}
