/**
 * Script that checks the JSDoc types of the page's modules and of the client.
 *
 *     node check.js          prints the errors and writes nothing
 *     node check.js --write  also writes the type declarations of the client, which the package contains
 */

import { writeFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import ts from 'typescript';

const HERE = import.meta.dirname;
const ROOT = resolve(HERE, '../..');
/** Modules of the client, sorted so that imported modules come first. */
const CLIENT = ['voicewright.js', 'routes.js'].map((name) => resolve(ROOT, 'clients/js', name));
const declarationsOf = (/** @type {string} */ module) => module.replace(/\.js$/, '.d.ts');

const configuration = ts.getParsedCommandLineOfConfigFile(resolve(HERE, 'tsconfig.json'), {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (fault) => { throw new Error(String(fault.messageText)); } });
if (!configuration) throw new Error('tsconfig.json cannot be read');
const { fileNames, options } = configuration;

/**
 * Return the type declarations of a module.
 *
 * For imported modules, the existing declaration files are read.
 *
 * @param {string} module
 */
function declarations(module) {
  let written = '';
  const program = ts.createProgram([module], { ...options, noEmit: false, declaration: true, emitDeclarationOnly: true });
  program.emit(undefined, (_, text) => (written = text));
  return written;
}

if (process.argv.includes('--write')) {
  for (const module of CLIENT) writeFileSync(declarationsOf(module), declarations(module));
}

const found = ts.getPreEmitDiagnostics(ts.createProgram(fileNames, options));
const host = { getCanonicalFileName: (/** @type {string} */ name) => name, getCurrentDirectory: () => ROOT, getNewLine: () => '\n' };
process.stdout.write(ts.formatDiagnostics(found, host));
let isWrong = found.length > 0;

for (const module of CLIENT) {
  if (ts.sys.readFile(declarationsOf(module)) === declarations(module)) continue;
  console.log(`${relative(ROOT, declarationsOf(module))} is not what the module declares: node tools/js/check.js --write`);
  isWrong = true;
}
process.exitCode = isWrong ? 1 : 0;
