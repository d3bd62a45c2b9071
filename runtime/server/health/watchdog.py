"""Watchdog that detects a dead engine thread, a missing frame or a failed canary.

Thread: event loop, which a hanging device does not block.
"""

from __future__ import annotations

import asyncio
import logging

from runtime.exits import Exit
from runtime.server.health.canary import Canary, CanaryOutcome
from runtime.server.metrics import ServerMetrics
from runtime.server.speech_engine import SpeechEngine
from runtime.settings import ServerSettings

log = logging.getLogger(__name__)

# Poll interval in seconds, which is short enough to report a failed engine to the clients within one second.
POLL_INTERVAL_S = 0.2
CANARY_RETRY_DELAY_S = 1.0
# Maximum duration of a step relative to the longest step so far. It is not a fixed time, because large checkpoints are
# slow on a CPU.
MAX_STEP_RATIO = 5


class Watchdog:
    """Watchdog of an engine.

    `verdict` is the detected failure, or None.
    """

    def __init__(self, engine: SpeechEngine, settings: ServerSettings, metrics: ServerMetrics) -> None:
        self._engine = engine
        self._settings = settings
        self._metrics = metrics
        self._canary = Canary(engine)
        # Event that is set after the first canary round, even if the round was interrupted.
        self._first_canaries_done = asyncio.Event()
        self._task: asyncio.Task[Exit] | None = None
        self.verdict: Exit | None = None

    async def start(self) -> None:
        """Start the watchdog, and wait until the first canary round has ended or a failure occurs."""
        self._task = asyncio.create_task(self._watch(), name="watchdog")
        status_task = asyncio.create_task(self._first_canaries_done.wait())
        await asyncio.wait({self._task, status_task}, return_when=asyncio.FIRST_COMPLETED)
        status_task.cancel()

    async def watch(self) -> Exit:
        """Wait until the engine fails and return the reason as an exit status."""
        assert self._task is not None, "it was started"
        return await asyncio.shield(self._task)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> Exit:
        looking = asyncio.create_task(self._watch_steps(), name="look")
        listening = asyncio.create_task(self._listen(), name="canary")
        try:
            done, _ = await asyncio.wait({looking, listening}, return_when=asyncio.FIRST_COMPLETED)
            self.verdict = min(task.result() for task in done)
            return self.verdict
        finally:
            looking.cancel()
            listening.cancel()

    async def _watch_steps(self) -> Exit:
        """Wait until the engine thread ends or a step is overdue, and return the reason.

        Time is counted in polls, so that a suspended process or machine does not make a step overdue.
        """
        since, looks, longest = None, 0, 0
        while self._engine.alive:
            await asyncio.sleep(POLL_INTERVAL_S)
            busy_since = self._engine.busy_since()
            if busy_since is not None and busy_since == since:
                looks += 1
            else:
                longest, looks = max(longest, looks), 0
            since = busy_since
            if 0 < self._settings.frame_s <= looks * POLL_INTERVAL_S and looks >= MAX_STEP_RATIO * longest:
                log.critical(
                    "the device has returned no result for %.1f s:\n%s", looks * POLL_INTERVAL_S, self._engine.stacks()
                )
                return Exit.FRAME_OVERDUE
        return Exit.ENGINE_DIED

    async def _listen(self) -> Exit:
        """Run canary rounds until the audio codes differ from the codes of the first run."""
        while self._settings.canary_s:
            outcome = await self._canary.run_round()
            self._first_canaries_done.set()
            if outcome is not CanaryOutcome.INTERRUPTED:
                self._metrics.count_canary_run(outcome)
            if outcome is CanaryOutcome.DIFFERENT:
                return Exit.CANARY_DIFFERS
            await asyncio.sleep(
                CANARY_RETRY_DELAY_S if outcome is CanaryOutcome.INTERRUPTED else self._settings.canary_s
            )
        self._first_canaries_done.set()
        return await asyncio.Future()
