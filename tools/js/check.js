/**
 * Checks the types of the page's modules and of the client strictly, by the JSDoc in them.
 *
 *     node check.js          says what is wrong, and writes nothing
 *     node check.js --write  also writes the client's declarations, which the package ships
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import ts from 'typescript';

const HERE = import.meta.dirname;
const ROOT = resolve(HERE, '../..');
const CLIENT = resolve(ROOT, 'clients/js/voicewright.js');
const DECLARATIONS = CLIENT.replace(/\.js$/, '.d.ts');

const configuration = ts.getParsedCommandLineOfConfigFile(resolve(HERE, 'tsconfig.json'), {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (fault) => { throw new Error(String(fault.messageText)); } });
if (!configuration) throw new Error('tsconfig.json cannot be read');
const { fileNames, options } = configuration;

/** The client's declarations, as the compiler writes them. */
function declarations() {
  let written = '';
  const program = ts.createProgram([CLIENT], { ...options, noEmit: false, declaration: true, emitDeclarationOnly: true });
  program.emit(undefined, (_, text) => (written = text));
  return written;
}

const found = ts.getPreEmitDiagnostics(ts.createProgram(fileNames, options));
const host = { getCanonicalFileName: (/** @type {string} */ name) => name, getCurrentDirectory: () => ROOT, getNewLine: () => '\n' };
process.stdout.write(ts.formatDiagnostics(found, host));
let isWrong = found.length > 0;

const wanted = declarations();
if (process.argv.includes('--write')) writeFileSync(DECLARATIONS, wanted);
else if (readFileSync(DECLARATIONS, 'utf8') !== wanted) {
  console.log(`${relative(ROOT, DECLARATIONS)} is not what the module declares: node tools/js/check.js --write`);
  isWrong = true;
}
process.exitCode = isWrong ? 1 : 0;
