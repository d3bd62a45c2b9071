/**
 * Reference audio for cloning: a recording or a file, and its selected part.
 *
 * Only the selected part is sent to the runtime. If the browser cannot decode a file, the whole file is sent because the
 * runtime supports more formats.
 */

import { SAMPLE_RATE, toInt16, wavBlob } from '../common/audio.js';

const MAX_FILE_BYTES = 100 * 2 ** 20;
const MAX_DURATION_S = 600;
const MIN_HANDLE_DISTANCE_S = 0.1;
// Minimum energy of the mean of all channels, as a fraction of the energy that the mean of independent channels would
// have. Below it, the channels cancel each other out.
const MIN_MIX_ENERGY = 0.1;
const CROSS_FADE_SAMPLES = Math.round(SAMPLE_RATE * 0.008);

/** @typedef {import('./speech_detection.js').TimeSpan} TimeSpan in seconds of the whole recording */

/** Reference audio for cloning: a recording or a file, and its selected part. */
export class Reference {
  /**
   * Create reference audio from samples or a file, with all of it selected.
   *
   * @param {Object} given
   * @param {Int16Array|null} given.pcm     mono samples at 24 kHz, or null if they are not decoded
   * @param {Blob|null} [given.file]             file that is sent if there are no samples
   * @param {string} given.name
   * @param {'recording'|'upload'} given.source
   * @param {number} given.maxSeconds       maximum duration of the selection
   */
  constructor({ pcm, file = null, name, source, maxSeconds }) {
    this.pcm = pcm;
    this.file = file;
    this.name = name;
    this.source = source;
    this.maxSeconds = maxSeconds;
    this.start = 0;
    this.end = Math.min(this.seconds, maxSeconds);
    /** Spans that are removed from the selection, in order of time. @type {TimeSpan[]} */
    this.cuts = [];
    /** @type {Blob|null} */
    this.blob = null;
  }

  /** Duration of the whole recording in seconds, or 0 if it is unknown. */
  get seconds() {
    return this.pcm ? this.pcm.length / SAMPLE_RATE : 0;
  }

  /** True if the recording is longer than the maximum duration of a selection. */
  get isTooLong() {
    return this.seconds > this.maxSeconds;
  }

  /** True if the whole recording is selected. */
  get isWhole() {
    return this.start === 0 && this.end === this.seconds && this.cuts.length === 0;
  }

  /**
   * Move the start or the end of the selection.
   *
   * The other edge moves as well if the selection would otherwise be too long or too short.
   *
   * @param {'start'|'end'} edge @param {number} at position in seconds
   */
  move(edge, at) {
    if (edge === 'start') {
      this.start = Math.max(0, Math.min(at, this.seconds - MIN_HANDLE_DISTANCE_S));
      this.end = Math.min(Math.max(this.end, this.start + MIN_HANDLE_DISTANCE_S), this.start + this.maxSeconds);
    } else {
      this.end = Math.min(this.seconds, Math.max(at, MIN_HANDLE_DISTANCE_S));
      this.start = Math.max(Math.min(this.start, this.end - MIN_HANDLE_DISTANCE_S), this.end - this.maxSeconds);
    }
    this.blob = null;
  }

  /**
   * Remove a span of time from the selection.
   *
   * The span is merged with overlapping or adjacent removed spans.
   *
   * @param {TimeSpan} out
   */
  cutOut({ start, end }) {
    const cut = { start: Math.max(0, start), end: Math.min(this.seconds, end) };
    const apart = this.cuts.filter((one) => one.end < cut.start || one.start > cut.end);
    for (const one of this.cuts) {
      if (apart.includes(one)) continue;
      cut.start = Math.min(cut.start, one.start);
      cut.end = Math.max(cut.end, one.end);
    }
    this.select({ ...this.selection, cuts: [...apart, cut].sort((one, other) => one.start - other.start) });
  }

  /** Current selection (start, end and removed spans), as `select` accepts it. */
  get selection() {
    return { start: this.start, end: this.end, cuts: this.cuts };
  }

  /**
   * Select a part of the recording, without the spans in `cuts`.
   *
   * All times are in seconds.
   *
   * @param {{start: number, end: number, cuts?: TimeSpan[]}} choice
   */
  select({ start, end, cuts = [] }) {
    this.start = Math.max(0, Math.min(start, this.seconds));
    this.end = Math.max(this.start, Math.min(end, this.seconds, this.start + this.maxSeconds));
    this.cuts = cuts;
    this.blob = null;
  }

  /** Duration of the selection without the removed spans, in seconds. */
  get length() {
    return this.keptSpans().reduce((sum, { start, end }) => sum + end - start, 0);
  }

  /** Return the spans of the selection that are not removed. @returns {TimeSpan[]} */
  keptSpans() {
    const found = [];
    let { start } = this;
    for (const cut of this.cuts) {
      if (cut.end <= start || cut.start >= this.end) continue;
      if (cut.start > start) found.push({ start, end: cut.start });
      start = cut.end;
    }
    if (start < this.end) found.push({ start, end: this.end });
    return found;
  }

  /** Samples of the selection without the removed spans (mono, 24 kHz). */
  get selectedPcm() {
    const { pcm } = this;
    if (!pcm) return new Int16Array();
    const at = (/** @type {number} */ seconds) => Math.round(seconds * SAMPLE_RATE);
    return joined(this.keptSpans().map(({ start, end }) => pcm.subarray(at(start), at(end))));
  }

  /**
   * Return the selected audio as a WAV file, or the whole file if it is not decoded.
   *
   * The same object is returned while the selection is unchanged.
   *
   * @returns {Blob}
   */
  sent() {
    this.blob ??= this.pcm || !this.file ? wavBlob([this.selectedPcm]) : this.file;
    return this.blob;
  }

  /** Whole recording (up to `maxSeconds`) as a WAV file, or null if all is selected. */
  get surroundings() {
    const { pcm, start, end, maxSeconds, seconds } = this;
    const begin = Math.max(0, Math.min((start + end - maxSeconds) / 2, seconds - maxSeconds));
    return pcm && !this.isWhole ? wavBlob([pcm.slice(begin * SAMPLE_RATE, (begin + maxSeconds) * SAMPLE_RATE)]) : null;
  }
}

/** Join pieces of audio with cross-fades. @param {Int16Array[]} pieces */
function joined(pieces) {
  if (pieces.length < 2) return pieces[0] ?? new Int16Array();
  const seams = pieces.slice(1).map((piece, k) => Math.min(CROSS_FADE_SAMPLES, piece.length, pieces[k].length));
  const all = new Int16Array(pieces.reduce((sum, { length }) => sum + length, 0) - seams.reduce((sum, seam) => sum + seam, 0));
  let end = 0;
  pieces.forEach((piece, k) => {
    const seam = k > 0 ? seams[k - 1] : 0;
    const begin = end - seam;
    const before = all.slice(begin, end);
    all.set(piece, begin);
    for (let i = 0; i < seam; i++) {
      const share = (i + 1) / (seam + 1);
      all[begin + i] = Math.round(before[i] * (1 - share) + piece[i] * share);
    }
    end = begin + piece.length;
  });
  return all;
}

/** Error for a file that is too large or too long for the page. */
export class FileTooLarge extends Error {
  /**
   * Create the error for a file that exceeds a limit.
   *
   * @param {'large'|'long'} what @param {number} is size in bytes, or duration in seconds @param {number} limit
   */
  constructor(what, is, limit) {
    super(`The file is too ${what}: ${is}; the limit is ${limit}`);
    this.what = what;
    this.is = is;
    this.limit = limit;
  }
}

/**
 * Decode an audio file to mono samples at 24 kHz.
 *
 * @param {Blob} file
 * @returns {Promise<Int16Array|null>} samples at 24 kHz, or null if this browser cannot decode the file
 * @throws {FileTooLarge} The file is too large or too long for the page.
 */
export async function decoded(file) {
  if (file.size > MAX_FILE_BYTES) throw new FileTooLarge('large', file.size, MAX_FILE_BYTES);
  const buffer = await decodedBuffer(file);
  if (buffer && buffer.duration > MAX_DURATION_S) throw new FileTooLarge('long', buffer.duration, MAX_DURATION_S);
  return buffer && toInt16(mixed(buffer));
}

/**
 * Decode an audio file to 24 kHz.
 *
 * @param {Blob} file
 * @returns {Promise<AudioBuffer|null>} decoded audio, or null if this browser cannot decode the file
 */
async function decodedBuffer(file) {
  try {
    // `decodeAudioData` resamples to the rate of its context.
    return await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(await file.arrayBuffer());
  } catch {
    return null;
  }
}

/**
 * Mix the channels of an audio buffer to mono.
 *
 * The result is the mean of the channels. If the channels cancel each other out, as in phase-inverted stereo, it is the
 * loudest channel. `Downmix` in runtime/shared/audio/samples.py has the same rule.
 *
 * @param {Pick<AudioBuffer, 'numberOfChannels'|'length'|'getChannelData'>} buffer @returns {Float32Array}
 */
export function mixed(buffer) {
  const channels = Array.from({ length: buffer.numberOfChannels }, (_, channel) => buffer.getChannelData(channel));
  if (channels.length === 1) return channels[0];
  const mono = new Float32Array(buffer.length);
  for (const samples of channels) for (let i = 0; i < mono.length; i++) mono[i] += samples[i] / channels.length;
  const energies = channels.map(energy);
  const expected = energies.reduce((sum, one) => sum + one, 0) / channels.length ** 2;
  return energy(mono) < MIN_MIX_ENERGY * expected ? channels[energies.indexOf(Math.max(...energies))] : mono;
}

/** Return the sum of the squared samples. @param {Float32Array} samples */
function energy(samples) {
  return samples.reduce((sum, sample) => sum + sample * sample, 0);
}
