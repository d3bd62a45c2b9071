/**
 * Deliver the audio of a take to the page only after all of the audio has arrived.
 *
 * window.served() returns the audio messages that the server has sent since its last call.
 */
(() => {
  const { get, set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage');
  let served = [];
  window.served = () => served.splice(0).map((message) => [...new Uint8Array(message)]);
  const holding = (hear) => {
    let held = [];
    return (event) => {
      const isSound = event.data instanceof ArrayBuffer;
      if (isSound) served.push(event.data);
      held.push(event);
      if ((isSound || held.length > 1) && !String(event.data).includes('"audio.done"')) return;
      for (const each of held.splice(0)) hear(each);
    };
  };
  Object.defineProperty(WebSocket.prototype, 'onmessage', {
    get,
    set(hear) {
      set.call(this, hear && holding(hear));
    },
  });
})();
