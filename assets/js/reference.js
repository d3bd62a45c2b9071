/**
 * Reference audio in the page: a recording or a file as samples, of which a stretch is chosen and sent.
 *
 * What the browser cannot decode is sent as it is: the runtime reads more formats, and says what it cannot.
 */

import { SAMPLE_RATE } from './outputs.js';
import { toInt16, wavBlob } from './wav.js';

const LARGEST = 100 * 2 ** 20; // bytes that a page decodes
const LONGEST_S = 600;
const SHORTEST_S = 0.1; // between the handles

export class Reference {
  /**
   * @param {Object} given
   * @param {Int16Array|null} given.pcm     mono, 24 kHz; null: not decoded here
   * @param {Blob|null} [given.file]             what is sent where there are no samples
   * @param {string} given.name
   * @param {'recording'|'upload'} given.source
   * @param {number} given.maxSeconds       that may be used
   */
  constructor({ pcm, file = null, name, source, maxSeconds }) {
    this.pcm = pcm;
    this.file = file;
    this.name = name;
    this.source = source;
    this.maxSeconds = maxSeconds;
    this.start = 0;
    this.end = Math.min(this.seconds, maxSeconds);
    /** @type {Blob|null} */
    this.blob = null;
  }

  /** Of the whole; 0 where nobody here knows. */
  get seconds() {
    return this.pcm ? this.pcm.length / SAMPLE_RATE : 0;
  }

  /** Whether it is longer than what may be used of it. */
  get isCut() {
    return this.seconds > this.maxSeconds;
  }

  /** Whether all of it is chosen. */
  get whole() {
    return this.start === 0 && this.end === this.seconds;
  }

  /** Choose a stretch; one edge pushes the other where it must. @param {'start'|'end'} edge @param {number} at seconds */
  move(edge, at) {
    if (edge === 'start') {
      this.start = Math.max(0, Math.min(at, this.seconds - SHORTEST_S));
      this.end = Math.min(Math.max(this.end, this.start + SHORTEST_S), this.start + this.maxSeconds);
    } else {
      this.end = Math.min(this.seconds, Math.max(at, SHORTEST_S));
      this.start = Math.max(Math.min(this.start, this.end - SHORTEST_S), this.end - this.maxSeconds);
    }
    this.blob = null;
  }

  /** The chosen samples. */
  get chosen() {
    return (this.pcm ?? new Int16Array()).subarray(Math.round(this.start * SAMPLE_RATE), Math.round(this.end * SAMPLE_RATE));
  }

  /** What is sent: the same object for as long as the choice is the same. @returns {Blob|null} */
  sent() {
    this.blob ??= this.pcm ? wavBlob([this.chosen], SAMPLE_RATE) : this.file;
    return this.blob;
  }
}

/**
 * Decode a file to mono.
 *
 * @param {Blob} file
 * @returns {Promise<Int16Array|null>} 24 kHz; null where this browser cannot
 */
export async function decoded(file) {
  if (file.size > LARGEST) return null;
  try {
    // A context of our rate resamples while it decodes.
    const buffer = await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(await file.arrayBuffer());
    return buffer.duration > LONGEST_S ? null : toInt16(mixed(buffer));
  } catch {
    return null;
  }
}

/** @param {AudioBuffer} buffer @returns {Float32Array} */
function mixed(buffer) {
  if (buffer.numberOfChannels === 1) return buffer.getChannelData(0);
  const mono = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; channel++) {
    const samples = buffer.getChannelData(channel);
    for (let i = 0; i < mono.length; i++) mono[i] += samples[i] / buffer.numberOfChannels;
  }
  return mono;
}
