"""Thread that validates requests before the engine thread receives them."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from runtime.errors import EngineDead, GenerationFailed, SpeechError
from runtime.shared.interpreter import TimeShare, yielding

log = logging.getLogger(__name__)

Refuse = Callable[[SpeechError], None]  # Function that receives the error of a job.

# Maximum fraction of a core that the validation of refused requests may use, apart from a first burst of `_BURST_S`.
# Above this fraction, refusals are sent later, so that clients send their next requests later.
_MAX_REFUSED_SHARE = 0.1
_BURST_S = 0.002
_MAX_DELAY_S = 1.0


class ValidationThread:
    """Thread that runs validation jobs, which take up to 0.1 s for a long text.

    Before `start`, jobs run on the caller's thread.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)  # Generator of the numbers of jobs.
        self._changed = threading.Condition()
        # Heap of jobs: priority, number, function to run, and function that receives an error. Short texts are
        # validated first, but only a limited number of jobs can overtake a long text.
        self._jobs: list[tuple[int, int, Callable[[], None], Refuse]] = []
        # Due time (`time.monotonic`) of each refusal, and function that sends it.
        self._refusals: deque[tuple[float, Callable[[], None]]] = deque()
        self._refused_share = TimeShare(_MAX_REFUSED_SHARE, _BURST_S, _MAX_DELAY_S)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run_jobs, name="validation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float | None = None) -> None:
        """Refuse all waiting and later jobs with EngineDead, and stop the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def add_job(self, chars: int, work: Callable[[], None], refuse: Refuse) -> None:
        """Queue a job.

        Args:
            chars: Length of the job's text in characters.
            work: Function to run. It may raise any exception.
            refuse: Function that receives the error of `work`, or EngineDead after `close`.

        Thread: any.
        """
        with self._changed:
            if self._thread.is_alive() and not self._is_closing:
                number = next(self._numbers)
                heapq.heappush(self._jobs, (number + chars, number, work, refuse))
                self._changed.notify()
                return
        if (error := self._run(work)) is not None:
            _call(refuse, error)

    def _run_jobs(self) -> None:
        """Run jobs and send due refusals until `close`, then refuse the waiting jobs."""
        while True:
            with self._changed:
                wait_s = self._refusals[0][0] - time.monotonic() if self._refusals else None
                self._changed.wait_for(lambda: self._jobs or self._is_closing, wait_s)
                job, is_closing = heapq.heappop(self._jobs) if self._jobs else None, self._is_closing
            while self._refusals and (is_closing or self._refusals[0][0] <= time.monotonic()):
                self._refusals.popleft()[1]()
            if job is not None:
                _, _, work, refuse = job
                began_s = time.thread_time()
                if (error := self._run(work)) is not None:
                    now = time.monotonic()
                    delay_s = self._refused_share.charge(time.thread_time() - began_s, now)
                    self._refusals.append((now + delay_s, partial(_call, refuse, error)))
                del job, work, refuse, error  # A waiting thread must not keep the request in memory.
            elif is_closing:
                return

    def _run(self, work: Callable[[], None]) -> SpeechError | None:
        """Run a job, and return its error or None."""
        if self._is_closing:
            return EngineDead()
        try:
            with yielding():
                work()
        except SpeechError as error:
            return error
        except Exception:
            log.exception("the engine failed at a request")
            return GenerationFailed()
        return None


def _call(refuse: Refuse, error: SpeechError) -> None:
    """Pass an error to a client's callback, and log the errors of the callback."""
    try:
        refuse(error)
    except Exception:
        log.exception("the sink of a request failed")
