"""Threads that wait for the device and wake the engine thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from runtime.device.interface import Event, Stream

log = logging.getLogger(__name__)


class CompletionWaiter:
    """Threads that wait for device events, one per device stream.

    After each event, the thread calls `wake` to wake the engine thread.
    """

    def __init__(self, wake: Callable[[], None], prepare: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        # Function that each thread calls first. It is needed because some devices must be initialized in each thread.
        self._prepare = prepare
        self._queues: dict[Stream, SimpleQueue[Event | None]] = {}
        self.threads: list[threading.Thread] = []

    @property
    def is_running(self) -> bool:
        return bool(self.threads)

    def start(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            queue = self._queues[stream] = SimpleQueue()
            thread = threading.Thread(target=self._run, args=(queue,), name=f"wait for {stream}", daemon=True)
            self.threads.append(thread)
            thread.start()

    def expect(self, stream: Stream, event: Event) -> None:
        """Register a device event, after which the engine thread is woken.

        Without threads, this method does nothing, and the engine waits for the event.
        """
        if (queue := self._queues.get(stream)) is not None:
            queue.put(event)

    def close(self) -> None:
        """Wait for all remaining events, and end the threads."""
        for queue in self._queues.values():
            queue.put(None)
        for thread in self.threads:
            thread.join()

    def _run(self, queue: SimpleQueue[Event | None]) -> None:
        self._prepare()
        while (event := queue.get()) is not None:
            try:
                event.synchronize()
            # The exception is ignored here. The engine gets the same exception when it reads the result, and reports it
            # to the requests.
            except Exception:
                log.exception("waiting for the device failed")
            self._wake()
