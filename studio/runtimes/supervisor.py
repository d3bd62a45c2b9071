"""Supervisor of the runtime's child process.

The supervisor restarts the runtime after a crash, and replaces it to load other checkpoints. The proxy and the page get
the runtime's URL and status from the supervisor. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import httpx

from runtime.exits import Exit
from studio.checkpoint_arguments import missing_folder
from studio.runtimes.child_process import (
    START_POLL_INTERVAL_S,
    ReadyStatus,
    Refused,
    RuntimeProcess,
    fits_alongside,
    is_responding,
)

logger = logging.getLogger(__name__)

RUNTIME_COMMAND = ("runtime.cli", "runtime")  # Module and subcommand of the child process.
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
HEALTHY_S = 60.0  # Uptime in seconds after which the restart delay is reset.
LEAVE_S = 5.0  # Additional seconds for a replaced runtime to exit after its speech has finished.
UNKNOWN_STATUS = 255  # Exit status that is assumed if the real status of a child is unknown.
NO_ANSWER_REASON = "no_answer"  # Reason of a restart after failed health checks.


class RuntimeState(StrEnum):
    """State of the runtime: starting, ready or unavailable."""

    STARTING = "starting"
    READY = "ready"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Status:
    """State of the runtime for the page, with its progress and last error."""

    state: RuntimeState
    sentence: str
    starts: int = 0
    loaded: int | None = None  # Number of loaded checkpoints out of `of`, or None if unknown.
    of: int | None = None
    problem: str | None = None  # Error message of the last failed change of checkpoints.
    change: str | None = None  # Progress of the current change of checkpoints.


class Runtime(Protocol):
    """Interface of a runtime (speech engine process) for the proxy and the page."""

    @property
    def url(self) -> str | None: ...

    @property
    def status(self) -> Status: ...

    async def run(self) -> int: ...

    async def drain(self) -> None:
        """Refuse new requests for speech, and wait until the current requests have finished.

        If the runtime is a child process, wait until it has ended.
        """
        ...


class ChildRuntime:
    """Runtime in a child process, which is restarted after a crash.

    The child process listens on a free local port.
    """

    def __init__(self, args: Sequence[str], command: Sequence[str] = RUNTIME_COMMAND, drain_s: float = 0.0) -> None:
        """Create a supervisor of the runtime without starting the runtime.

        Args:
            args: Command-line arguments of the runtime.
            command: Command that starts the runtime.
            drain_s: Time in seconds for which a replaced runtime may continue its current requests.
        """
        self.args = tuple(args)
        self._command = tuple(command)
        self._drain_s = drain_s
        self._child: RuntimeProcess | None = None  # Child that is serving or starting.
        self._changing: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # Set while no change of checkpoints is running.
        self._makes_room = False  # True if the old child must end first, because there is not enough memory for both.
        self._leaving: dict[asyncio.Task[None], RuntimeProcess] = {}  # Replaced children that finish their speech.
        self._is_draining = False
        self._problem: str | None = None
        self.url: str | None = None
        self.status = Status(RuntimeState.STARTING, "The runtime is starting.")
        self.starts = 0
        self.restarts: Counter[str] = Counter()  # Number of restarts by reason.
        self._is_hung = False  # True while a hung child is being killed.
        self._lost_port = False  # True if another program had taken the last child's port.
        self.was_ready = False

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    async def run(self) -> int:
        """Run the child process, and restart it if it ends, until this task is cancelled.

        The call returns the exit status of the runtime only if the runtime refuses its settings before it was ever
        ready. A restart would not help then, and the reason is on stderr. If the task is cancelled, the child process
        is ended.
        """
        backoff = FIRST_BACKOFF_S
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                code = await self._run_once()
                if self._is_draining:
                    return code or 0
                if code is None:
                    backoff = FIRST_BACKOFF_S
                    continue
                if self._lost_port:
                    continue  # Try again: the next start chooses another port.
                if code == Exit.BAD_INPUT and not self.was_ready:
                    return code
                if loop.time() - began > HEALTHY_S:
                    backoff = FIRST_BACKOFF_S
                reason = NO_ANSWER_REASON if self._is_hung else reason_of(code)
                self._is_hung = False
                self.restarts[reason] += 1
                logger.warning("the runtime ended (%s); starting it again in %.1f s", reason, backoff)
                self._set_status(RuntimeState.AWAY, "The runtime has stopped. It is being started again.")
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_S)
        finally:
            await self._end_all()

    async def drain(self) -> None:
        """Refuse new requests for speech, and wait until all child processes have ended.

        The child processes finish their current requests first.
        """
        self._is_draining = True
        self.cancel_change()
        serving = [] if self._child is None else [self._child.end(self._drain_s + LEAVE_S)]
        await asyncio.gather(*self._leaving, *serving, return_exceptions=True)

    # --- Methods that run the child process which serves requests.

    async def _run_once(self) -> int | None:
        """Run the child until it ends and return its exit status.

        Supervision continues after any failure, because a later start may succeed.

        Returns:
            None if a change of checkpoints has replaced or ended the child.
        """
        if self._makes_room:
            await self._settled.wait()
        self._settled.clear()
        try:
            if self._child is None:
                child = await self._start(self.args)
                if self._settled.is_set() or self._makes_room:  # A change of checkpoints has started another child.
                    await child.end()
                    return None
                self._child = child
            return await self._attend(self._child)
        except Exception:
            logger.exception("the runtime could not be started or watched")
            if self._child is not None:
                await self._child.end()
            self._child = self.url = None
            return UNKNOWN_STATUS

    async def _attend(self, child: RuntimeProcess) -> int | None:
        ended = asyncio.create_task(child.ended())
        settled = asyncio.create_task(self._settled.wait())
        watching = asyncio.create_task(self._watch(child))
        try:
            await asyncio.wait({ended, settled}, return_when=asyncio.FIRST_COMPLETED)
            if self._makes_room:
                await settled
            if self._settled.is_set():
                return None
            self._child = self.url = None
            self._lost_port = child.lost_its_port
            return ended.result()
        finally:
            for task in (ended, settled, watching):
                task.cancel()

    async def _watch(self, child: RuntimeProcess) -> None:
        """Switch to the child when it is ready, and kill it if it hangs later."""
        if self.url != child.url:
            await child.wait_until_ready(self._set_progress)
            self._serve_with(child)
        await child.wait_until_hung()
        logger.error("the runtime does not respond any more and is stopped")
        self._is_hung = True
        child.kill()

    async def _start(self, args: Sequence[str]) -> RuntimeProcess:
        self.starts += 1
        return await RuntimeProcess.start([*self._command, *args])

    def _serve_with(self, child: RuntimeProcess) -> None:
        self._child = child
        self.url = child.url
        self.was_ready = True
        self._set_status(RuntimeState.READY, "Ready.")

    async def _end_all(self) -> None:
        """End every child, including replaced children that are finishing their speech."""
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.wait({self._changing})
        for leaving in self._leaving:
            leaving.cancel()
        children = [*self._leaving.values(), *([] if self._child is None else [self._child])]
        self.url = None
        await asyncio.gather(*(child.end() for child in children), return_exceptions=True)

    # --- Methods that replace the child process to load other checkpoints.

    @property
    def changing(self) -> bool:
        """True while the runtime is being replaced to load other checkpoints."""
        return self._changing is not None

    def change(self, args: Sequence[str]) -> None:
        """Start to replace the child process by a process with other arguments.

        The new arguments are checked first. If the checkpoints of both processes fit into memory, the current process
        serves requests until the new process is ready. If the change fails, the current process continues to serve, and
        `status` has the reason. Do not call this method while `changing` is True.
        """
        self._problem = None
        self._changing = asyncio.create_task(self._change(tuple(args)))
        self._set_change("The checkpoints are being checked.")

    def cancel_change(self) -> None:
        """Cancel a change of checkpoints.

        The runtime continues to serve the current checkpoints.
        """
        if self._changing is not None:
            self._changing.cancel()

    async def _change(self, args: tuple[str, ...]) -> None:
        why = None
        try:
            await self._try(args)
        except Refused as refusal:
            why = str(refusal)
        except asyncio.CancelledError:
            why = "it was cancelled."
        except Exception:
            logger.exception("a change of checkpoints failed")
            why = "the cause is in the studio's log."
        self._changing = None
        self._problem = None if why is None else f"The checkpoints could not be loaded: {why}"
        self.status = replace(self.status, change=None, loaded=None, of=None, problem=self._problem)

    async def _try(self, args: tuple[str, ...]) -> None:
        """Check the arguments, start a child with them, and switch to this child.

        Raises:
            Refused: The runtime refuses the arguments. The message has the reason.
        """
        # The check for missing folders is immediate. The complete check needs a child process and takes seconds.
        if (missing := missing_folder(args)) is not None:
            raise Refused(f"{missing} [{missing.code}]")
        if await fits_alongside([*self._command, *args]):
            self._take_over(await self._loaded(args), args)
            return
        self._makes_room = True
        try:
            if self._child is not None:
                self._set_change("The earlier checkpoints make room; speech that runs is let finish.")
                await self._child.end(self._drain_s + LEAVE_S)
            self._child = self.url = None
            self._set_status(RuntimeState.STARTING, "The runtime is starting with other checkpoints.")
            self._take_over(await self._loaded(args), args)
        finally:
            if self.url is None:
                self._set_status(RuntimeState.STARTING, "The earlier checkpoints are being loaded again.")
            self._makes_room = False
            self._settled.set()

    async def _loaded(self, args: tuple[str, ...]) -> RuntimeProcess:
        """Start a child with these arguments and return it when it is ready.

        Raises:
            Refused: The child ended before it was ready.
        """
        while True:
            child = await self._start(args)
            try:
                await child.wait_until_loaded(self._set_progress)
            except Refused:
                await child.end()
                if not child.lost_its_port:
                    raise
            except BaseException:
                await child.end()
                raise
            else:
                return child

    def _take_over(self, child: RuntimeProcess, args: tuple[str, ...]) -> None:
        """Switch to this child, and let the previous child exit after its current speech."""
        earlier, self.args = self._child, args
        if earlier is not None:
            leaving = asyncio.create_task(earlier.end(self._drain_s + LEAVE_S))
            self._leaving[leaving] = earlier
            leaving.add_done_callback(lambda done: self._leaving.pop(done, None))
        self._serve_with(child)
        self._settled.set()

    # --- Methods that update the status for the page.

    def _set_status(self, state: RuntimeState, sentence: str) -> None:
        self.status = Status(state, sentence, self.starts, problem=self._problem, change=self.status.change)

    def _set_change(self, sentence: str) -> None:
        self.status = replace(self.status, change=sentence, problem=None)

    def _set_progress(self, answer: ReadyStatus) -> None:
        """Report the loading progress of the first child or of a change of checkpoints."""
        if not answer.sentence:
            return
        if self._changing is not None:
            self._set_change(answer.sentence)
        if self.url is None:
            self._set_status(RuntimeState.STARTING, answer.sentence)
        self.status = replace(self.status, loaded=answer.loaded, of=answer.of)


def reason_of(code: int) -> str:
    """Return a label for the exit status of the runtime, for use in the metrics.

    The label is a known reason, the name of a signal, or the exit status.
    """
    if code in set(Exit):
        return Exit(code).name.lower()
    try:
        return signal.Signals(-code).name.lower()
    except ValueError:
        return f"status_{code}"


async def wait_until_responding(client: httpx.AsyncClient, url: str) -> None:
    """Poll a URL until it returns status 200."""
    while not await is_responding(client, url):  # noqa: ASYNC110 - another process cannot set our event
        await asyncio.sleep(START_POLL_INTERVAL_S)
