/**
 * Audio worklet that copies the microphone's samples to the page.
 *
 * The samples are mono and are posted in blocks of 4096.
 */

const BLOCK = 4096;

/** Audio processor that sends the microphone's samples to the page in blocks. */
class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(BLOCK);
    this.filled = 0;
  }

  /**
   * Collect the samples of one render quantum, and post each complete block to the page.
   *
   * @param {Float32Array[][]} inputs
   */
  process(inputs) {
    const channel = inputs[0][0];
    if (!channel) return true;
    // A block has a whole number of render quanta, so a quantum never belongs to two blocks.
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
