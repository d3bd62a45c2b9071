/**
 * Audio worklet of the microphone, which posts copies of the input.
 *
 * The input is mono, and is posted in blocks of 4096 samples.
 */

const BLOCK = 4096;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(BLOCK);
    this.filled = 0;
  }

  /** @param {Float32Array[][]} inputs */
  process(inputs) {
    const channel = inputs[0][0];
    if (!channel) return true;
    // A block is a whole number of render quanta, so one never straddles two blocks.
    this.block.set(channel, this.filled);
    this.filled += channel.length;
    if (this.filled === BLOCK) {
      this.port.postMessage(this.block.slice());
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor('voicewright-capture', Capture);
