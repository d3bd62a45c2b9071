/**
 * Checks the types of the page's modules and of the client, by the JSDoc in them: strictly, but for the modules of
 * LOOSE, which hold the page's elements in their hands and are checked as TypeScript checks without `strict`.
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

/** A module goes from this list, and none comes to it. */
const LOOSE = new Set(JSON.parse(readFileSync(resolve(HERE, 'loose.json'), 'utf8')).map((/** @type {string} */ name) => resolve(ROOT, 'assets/js', name)));

const configuration = ts.getParsedCommandLineOfConfigFile(resolve(HERE, 'tsconfig.json'), {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (fault) => { throw new Error(String(fault.messageText)); } });
if (!configuration) throw new Error('tsconfig.json cannot be read');
const { fileNames, options } = configuration;

/** Files are read once for all three readings. @type {Map<string, ts.SourceFile|undefined>} */
const read = new Map();
const compiler = ts.createCompilerHost(options);
const readFile = compiler.getSourceFile;
compiler.getSourceFile = (name, ...more) => {
  if (!read.has(name)) read.set(name, readFile(name, ...more));
  return read.get(name);
};

/** @param {boolean} strict @param {(file: string) => boolean} chosen */
function faults(strict, chosen) {
  const program = ts.createProgram(fileNames, { ...options, strict }, compiler);
  const files = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(ROOT) && !fileName.includes('node_modules') && chosen(resolve(fileName)));
  return [...program.getGlobalDiagnostics(), ...files.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)])];
}

/** The client's declarations, as the compiler writes them. */
function declarations() {
  let written = '';
  const program = ts.createProgram([CLIENT], { ...options, strict: true, noEmit: false, declaration: true, emitDeclarationOnly: true });
  program.emit(undefined, (_, text) => (written = text));
  return written;
}

const found = [...faults(true, (file) => !LOOSE.has(file)), ...faults(false, (file) => LOOSE.has(file))];
const host = { getCanonicalFileName: (/** @type {string} */ name) => name, getCurrentDirectory: () => ROOT, getNewLine: () => '\n' };
process.stdout.write(ts.formatDiagnostics(found, host));
let isWrong = found.length > 0;

const missing = [...LOOSE].filter((name) => !ts.sys.fileExists(name));
if (missing.length > 0) {
  console.log(`loose.json names modules that are not there: ${missing.map((name) => relative(ROOT, name)).join(', ')}`);
  isWrong = true;
}

const wanted = declarations();
if (process.argv.includes('--write')) writeFileSync(DECLARATIONS, wanted);
else if (readFileSync(DECLARATIONS, 'utf8') !== wanted) {
  console.log(`${relative(ROOT, DECLARATIONS)} is not what the module declares: node tools/js/check.js --write`);
  isWrong = true;
}
process.exitCode = isWrong ? 1 : 0;
