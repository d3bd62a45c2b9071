/**
 * Calls functions for the tests: a line of JSON in ({body, value}), a line out ({result} or {error}). `import('/js/…')` in a body
 * is a module of the page, as it is in a browser.
 */

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const assets = pathToFileURL(`${process.argv[2]}/`).href;

for await (const line of createInterface({ input: process.stdin })) {
  const { body, value } = JSON.parse(line);
  const code = body.replace(/import\((['`])\/js\//g, (_, quote) => `import(${quote}${assets}js/`);
  let answer;
  try {
    answer = { result: await (0, eval)(`(${code})`)(value) };
  } catch (error) {
    answer = { error: error.stack ?? String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
