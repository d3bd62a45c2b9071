/** What a script is called: its name, else the words that it begins with. Pure. */

import { readParts } from './parts.js';

const LONGEST_NAME = 40;

/** A script's name from its text. @param {string} text */
export function titleOf(text) {
  const [first] = text.trim().split('\n');
  return first.length <= LONGEST_NAME ? first : `${first.slice(0, LONGEST_NAME).replace(/\s+\S*$/u, '')} …`;
}

/** What a script is called; empty: nothing is written in it yet. @param {{name: string, begins?: string}} script  begins: the text of its first line with one */
export function calledBy({ name, begins = '' }) {
  const words = readParts(begins).parts.map(({ text = '' }) => text).join(' ');
  return name.trim() || titleOf(words);
}
