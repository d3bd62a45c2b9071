/**
 * Node process that evaluates JavaScript functions for the tests.
 *
 * It reads one JSON value per line ({body, value}), and writes one per line ({result} or {error}). In a body,
 * `import('/js/…')` imports a module of the page, as in a browser.
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
