/**
 * Record the audio that the page sends to the loudspeaker.
 *
 * Every node that is connected to the destination of an audio context is also connected to the recorder.
 *
 * window.tap.samples() returns all samples from the first sample that is not silent. window.tap.lastLoud is the context
 * time of the last sample that was not silent.
 */
(() => {
  const source = `
    registerProcessor('tap', class extends AudioWorkletProcessor {
      process(inputs) {
        const heard = inputs[0][0];
        if (heard) this.port.postMessage({ at: currentTime, heard: heard.slice() });
        return true;
      }
    });`;
  const module = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  const blocks = [];
  window.tap = {
    context: null,
    lastLoud: 0,
    clear: () => (blocks.length = 0),
    samples: () => {
      const all = blocks.flatMap((block) => [...block]);
      return all.map((sample) => sample * 32768);
    },
  };
  const hear = ({ data: { at, heard } }) => {
    const loud = heard.findLastIndex((sample) => sample !== 0);
    if (loud >= 0) window.tap.lastLoud = at + loud / window.tap.context.sampleRate;
    if (loud >= 0 || blocks.length > 0) blocks.push(heard);
  };
  const { addModule } = AudioWorklet.prototype;
  AudioWorklet.prototype.addModule = async function (url) {
    await addModule.call(this, module);
    return addModule.call(this, url);
  };
  const { connect } = AudioNode.prototype;
  AudioNode.prototype.connect = function (target, ...rest) {
    const { context } = this;
    if (target === context.destination && context instanceof AudioContext) {
      window.tap.context = context;
      const tap = new AudioWorkletNode(context, 'tap', { numberOfOutputs: 0 });
      tap.port.onmessage = hear;
      connect.call(this, tap);
    }
    return connect.call(this, target, ...rest);
  };
})();
