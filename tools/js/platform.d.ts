// Properties of browsers that TypeScript does not declare.

interface HTMLElement {
  showPopover(options?: { source?: HTMLElement }): void;
}

// Global variables of an audio worklet that TypeScript does not declare.
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new (options: any) => AudioWorkletProcessor): void;
declare const sampleRate: number;
declare const currentTime: number;
