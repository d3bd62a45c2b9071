import js from '@eslint/js';

const names = (/** @type {string} */ list) => Object.fromEntries(list.split(' ').map((name) => [name, 'readonly']));

// Global variables of both the page and Node, only of the page, of an audio worklet, and only of Node.
const BOTH = names('AbortController AbortSignal Blob CustomEvent Event EventTarget FormData Headers Response TextDecoder TextEncoder URL URLSearchParams WebSocket clearInterval clearTimeout console crypto fetch performance queueMicrotask setInterval setTimeout structuredClone globalThis');
const PAGE = names('AudioContext AudioWorkletNode BroadcastChannel CSS DOMException DOMParser Element File FileReader HTMLAnchorElement HTMLButtonElement HTMLCanvasElement HTMLDetailsElement HTMLDialogElement HTMLElement HTMLFormElement HTMLInputElement HTMLMeterElement HTMLOptionElement HTMLProgressElement HTMLSelectElement HTMLTemplateElement HTMLTextAreaElement Image IntersectionObserver KeyboardEvent MediaRecorder MutationObserver Node OfflineAudioContext Option ResizeObserver Text addEventListener cancelAnimationFrame confirm document getComputedStyle getSelection history indexedDB innerHeight innerWidth isSecureContext localStorage location matchMedia navigator removeEventListener requestAnimationFrame scrollTo sessionStorage window');
const WORKLET = names('AudioWorkletProcessor currentTime registerProcessor sampleRate');
const NODE = names('Buffer process');

export default [
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      'array-callback-return': 'error',
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-constructor-return': 'error',
      'no-promise-executor-return': 'off',
      'no-self-compare': 'error',
      'no-template-curly-in-string': 'error',
      'no-unmodified-loop-condition': 'error',
      'no-unreachable-loop': 'error',
      'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'all' }],
      'no-var': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
      radix: 'error',
    },
  },
  { files: ['assets/js/**'], ignores: ['assets/js/**/*worklet.js'], languageOptions: { globals: { ...BOTH, ...PAGE } } },
  { files: ['assets/js/**/*worklet.js'], languageOptions: { globals: WORKLET } },
  { files: ['clients/js/**'], ignores: ['**/*.d.ts'], languageOptions: { globals: BOTH } },
  { files: ['tools/js/**', 'tests/js/**'], languageOptions: { globals: { ...BOTH, ...NODE } } },
  { ignores: ['**/*.d.ts'] },
];
