"""The lane beside the frames: Code2Wav on a thread of its own, most urgent work first.

All state of the streams of sound is touched by this thread only. What waits here may be withdrawn and replaced at
every turn of the engine, so that a first chunk never stands behind work that can wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """One call of Code2Wav. ``begin`` is called under the lane's lock, when nothing can withdraw it any more."""

    urgency: tuple[bool, float]  # as tuples sort: not a first chunk, deadline
    begin: Callable[[], Callable[[], None]]  # returns the work itself


class SoundLane:
    """A thread after ``start``; before it, work is done at once on the caller's thread (``speak``, tests)."""

    def __init__(self, prepare: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.RLock()
        self._prepare = prepare  # what the thread does first: it has its own number of torch threads
        self._waiting: dict[object, list[Work]] = {}  # by owner, most urgent first
        self._wake = threading.Condition(self.lock)
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sound", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish what is being done, drop what waits, end the thread."""
        with self.lock:
            self._closing = True
            self._waiting.clear()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def withdraw(self, owner: object) -> None:
        """Drop what waits of an owner, until it offers again."""
        with self.lock:
            self._waiting.pop(owner, None)

    def offer(self, owner: object, works: Callable[[], list[Work]]) -> None:
        """Replace what waits of an owner; ``works`` is called while nothing can begin."""
        with self.lock:
            self._waiting.pop(owner, None)
            if wanted := works():
                self._waiting[owner] = wanted
                self._wake.notify()
        if self._thread is None:
            while (run := self._next()) is not None:
                run()

    def _next(self) -> Callable[[], None] | None:
        with self.lock:
            if not self._waiting:
                return None
            owner = min(self._waiting, key=lambda one: self._waiting[one][0].urgency)
            work = self._waiting[owner].pop(0)
            if not self._waiting[owner]:
                del self._waiting[owner]
            return work.begin()

    def _run(self) -> None:
        self._prepare()
        while not self._closing:
            run = self._next()
            if run is None:
                with self.lock:
                    if not self._waiting and not self._closing:
                        self._wake.wait()
                continue
            try:
                run()
            except Exception:  # it reports its own failures; this one must not end everybody's sound
                log.exception("work on the lane of sound failed")
