/**
 * Record every AudioBufferSourceNode that is started.
 *
 * The record contains the start time, the end time and the samples of the node.
 */
(() => {
  window.scheduled = [];
  const { start, stop } = AudioScheduledSourceNode.prototype;
  const notes = new WeakMap();
  const noting = (at, node) => {
    const note = {
      at,
      end: at + node.buffer.duration,
      samples: [...node.buffer.getChannelData(0)],
      stopped: false,
      now: () => node.context.currentTime,
    };
    notes.set(node, note);
    window.scheduled.push(note);
  };
  AudioBufferSourceNode.prototype.start = function (at) {
    noting(at, this);
    return start.call(this, at);
  };
  AudioScheduledSourceNode.prototype.stop = function (...when) {
    notes.get(this).stopped = true;
    return stop.apply(this, when);
  };
})();
