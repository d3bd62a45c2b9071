/**
 * When each sentence of a text sounds: estimated by how long sentences take, and set right by the pauses in the sound.
 * No dialect says it: the models have no clock of words. Pure.
 *
 * @typedef {{from: number, to: number}} Stretch  of a text in characters, or of sound in seconds
 */

import { sentencesIn } from './sentence_ends.js';

const CLAUSE = /(?<=[,;:—–…](?=\s)|[，；：、—…])/u;
const SPOKEN = /[\p{L}\p{N}]/u;
const BIN_S = 0.01; // Bin width of Peaks.
const QUIET = 0.06; // Share of the loudest bin below which a bin is silent.
const SHORTEST_PAUSE_S = 0.1;
const LONG_PAUSE_S = 0.5; // Longer pauses carry no more information.
const KNOWN_S = 2; // Weight of the usual pace against the measured one.
// What an end may cost: one without a pause, and how much a pause of LONG_PAUSE_S is worth.
const UNHEARD = 0.3;
const WORTH = 0.4;
const NEAR_S = 1; // Minimum search distance around an expected end, added to a share of the time until then.
const FAR = 0.25;

/** The sentences of a text; what holds no letter belongs to the one before. @param {string} text @returns {Stretch[]} */
export function sentencesOf(text) {
  /** @type {Stretch[]} */
  const sentences = [];
  for (const sentence of sentencesIn(text)) {
    const last = sentences.at(-1);
    const from = last?.to ?? 0;
    if (!last || SPOKEN.test(sentence)) sentences.push({ from, to: from + sentence.length });
    else last.to += sentence.length;
  }
  return sentences;
}

/** A sentence cut where a voice may rest: what is between two pauses is found sooner than the whole of it. @param {string} sentence */
export function clausesOf(sentence) {
  return sentence.split(CLAUSE).filter((clause) => SPOKEN.test(clause));
}

/** Where a take is silent. @param {{low: number[], high: number[]}} peaks @returns {Stretch[]} */
export function pausesOf({ low, high }) {
  let loudest = 0;
  for (let bin = 0; bin < low.length; bin++) loudest = Math.max(loudest, high[bin] - low[bin]);
  /** @type {Stretch[]} */
  const pauses = [];
  let begun = -1;
  for (let bin = 0; bin <= low.length; bin++) {
    const isQuiet = bin < low.length && high[bin] - low[bin] < QUIET * loudest;
    if (isQuiet && begun < 0) begun = bin;
    if (isQuiet || begun < 0) continue;
    if ((bin - begun) * BIN_S >= SHORTEST_PAUSE_S) pauses.push({ from: begun * BIN_S, to: bin * BIN_S });
    begun = -1;
  }
  return pauses;
}

/**
 * When each clause begins: of all ways to end them at pauses, or where none is, the one in which each takes most nearly
 * the time that it should.
 *
 * @param {number[]} lengths  seconds that each clause takes at an ordinary pace
 * @param {Stretch[]} pauses
 * @param {number|null} whole  seconds of the take; null: it is still being made
 * @param {number} [usual]  the voice's own pace, where it was heard before: its seconds for each of an ordinary one
 * @returns {number[]} in seconds
 */
export function beginningsOf(lengths, pauses, whole, usual = 1) {
  const sum = lengths.reduce((all, length) => all + length, 0);
  if (whole !== null) return path(lengths, pauses, whole / sum);
  // Of what grows the first way tells its pace, and the pace the second.
  const first = path(lengths, pauses, usual);
  const heard = first.findLastIndex((at) => at > 0 && pauses.some(({ to }) => to === at));
  if (heard < 0) return first;
  const said = lengths.slice(0, heard).reduce((all, length) => all + length, 0);
  return path(lengths, pauses, (first[heard] + KNOWN_S * usual) / (said + KNOWN_S));
}

/** @typedef {{at: number, cost: number, before: End|null}} End */

/** @param {number[]} lengths @param {Stretch[]} pauses @param {number} pace @returns {number[]} */
function path(lengths, pauses, pace) {
  /** @type {End[]} */
  let ends = [{ at: 0, cost: 0, before: null }];
  let guess = 0;
  for (const length of lengths.slice(0, -1)) {
    guess += length * pace;
    const reach = NEAR_S + FAR * guess;
    const places = pauses.filter(({ to }) => Math.abs(to - guess) <= reach).map(({ from, to }) => ({ at: to, cost: -WORTH * Math.min(1, (to - from) / LONG_PAUSE_S) }));
    /** @type {End[]} */
    const next = [...places, { at: NaN, cost: UNHEARD }].flatMap((place) => cheapest(ends, place, length * pace));
    ends = next.length > 0 ? next : cheapest(ends, { at: NaN, cost: UNHEARD }, length * pace);
  }
  /** @type {End|null} */
  let end = ends.reduce((one, other) => (other.cost < one.cost ? other : one));
  const found = [];
  for (; end; end = end.before) found.unshift(end.at);
  return found;
}

/**
 * The best way to an end. One without a pause stands where its clause should end.
 *
 * @param {End[]} ends  of the clause before @param {{at: number, cost: number}} place @param {number} expected seconds
 * @returns {End[]} one, or none
 */
function cheapest(ends, { at, cost }, expected) {
  /** @type {End|null} */
  let best = null;
  for (const before of ends) {
    const here = Number.isNaN(at) ? before.at + expected : at;
    if (here <= before.at) continue;
    const away = Math.log((here - before.at) / expected);
    const sum = before.cost + cost + away * away * Math.min(4, 1 + expected);
    if (!best || sum < best.cost) best = { at: here, cost: sum, before };
  }
  return best ? [best] : [];
}
