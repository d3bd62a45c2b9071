"""Who waits for the device in the engine's place, so that its thread sleeps until there is something to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from runtime.device.interface import Moment, Track

log = logging.getLogger(__name__)


class Watcher:
    """A thread a track, which takes moments in order and calls ``wake`` when the device has come to each."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._queues: dict[Track, SimpleQueue[Moment | None]] = {}
        self._threads: list[threading.Thread] = []

    @property
    def is_running(self) -> bool:
        return bool(self._threads)

    def start(self, tracks: Sequence[Track]) -> None:
        for track in tracks:
            queue = self._queues[track] = SimpleQueue()
            thread = threading.Thread(target=self._run, args=(queue,), name=f"watch {track}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def expect(self, track: Track, moment: Moment) -> None:
        """Wake the engine at a moment. Without threads nobody is woken, and the engine waits by itself."""
        if (queue := self._queues.get(track)) is not None:
            queue.put(moment)

    def close(self) -> None:
        """End the threads, after what they were told to wait for."""
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, queue: SimpleQueue[Moment | None]) -> None:
        while (moment := queue.get()) is not None:
            try:
                moment.synchronize()
            except Exception:  # the engine meets the same when it reads, and knows whose it was
                log.exception("waiting for the device failed")
            self._wake()
