// The page's modules that have a DOM are read loosely: which element a selector finds, and what is put on elements,
// events and errors, is not declared. What modules without a DOM promise is checked strictly (strict.json).
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}
interface Element {
  [name: string]: any;
}
interface EventTarget {
  [name: string]: any;
  addEventListener(type: string, listener: (event: any) => void, options?: any): void;
}
interface Event {
  [name: string]: any;
}
interface Error {
  [name: string]: any;
}
interface Blob {
  name?: string;
}

// Globals of an audio worklet.
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new (options: any) => AudioWorkletProcessor): void;
declare const sampleRate: number;
declare const currentTime: number;
