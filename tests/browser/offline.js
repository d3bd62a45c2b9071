/**
 * Render a schedule of messages with worklet.js in an OfflineAudioContext.
 *
 * Rendering needs neither a loudspeaker nor real time. Each entry of the schedule is [seconds, message], where `pcm`
 * is a plain array. A message takes effect at the first render quantum (128 samples) that starts at its time or later.
 */
window.playSchedule = async (workletUrl, seconds, schedule) => {
  const rate = 24000;
  const context = new OfflineAudioContext(1, Math.round(seconds * rate), rate);
  await context.audioWorklet.addModule(workletUrl);
  const node = new AudioWorkletNode(context, 'voicewright-player', { numberOfInputs: 0, outputChannelCount: [1] });
  node.connect(context.destination);
  const reports = [];
  const answers = new Map();
  node.port.onmessage = ({ data }) => {
    reports.push(data);
    answers.get(data.id)?.();
  };
  let asked = 0;
  const deliver = async (messages) => {
    for (const message of messages) {
      const pcm = message.pcm && Int16Array.from(message.pcm);
      node.port.postMessage(pcm ? { ...message, pcm } : message);
    }
    // The response shows that the audio thread has received the messages before the time advances.
    const id = ++asked;
    const answered = new Promise((resolve) => answers.set(id, resolve));
    node.port.postMessage({ type: 'report', id });
    await answered;
  };
  // Query the audio thread again one render quantum before the end, because rendering may end before its reports
  // arrive.
  schedule.push([seconds - 256 / rate, { type: 'nothing' }]);
  const byTime = Map.groupBy(schedule, ([at]) => Math.ceil((at * rate) / 128) * 128);
  for (const [sample, entries] of byTime) {
    const messages = entries.map(([, message]) => message);
    if (sample === 0) await deliver(messages);
    else context.suspend(sample / rate).then(() => deliver(messages)).then(() => context.resume());
  }
  const rendered = await context.startRendering();
  return { samples: [...rendered.getChannelData(0)], reports };
};
