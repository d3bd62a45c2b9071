"""The runtime that the studio uses: a child that is started again when it dies, or one that runs elsewhere.

Both say where they are and how they are; the relay and the page need no more. Thread: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import httpx

logger = logging.getLogger(__name__)

ROOT = str(Path(__file__).resolve().parent.parent)  # where the packages lie, wherever we were started
RUNTIME = ("runtime.cli", "runtime")  # module and its arguments
POLL_S = 0.1  # while it starts
WATCH_S = 2.0  # while it runs
HEALTH_S = 10.0  # a runtime that answers nothing for so long three times over is hung
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
HEALTHY_S = 60.0  # having run for so long, its next death starts the backoff anew
STOP_S = 5.0  # for the runtime to close its sockets and leave
LAST_WORDS_S = 1.0  # for what a child that has ended still had to say
REFUSED_SETTINGS = 2  # the runtime's exit status for an operator's mistake


class State(StrEnum):
    """How the runtime is."""

    STARTING = "starting"
    READY = "ready"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Status:
    """What the page is told."""

    state: State
    sentence: str
    starts: int = 0
    loaded: int | None = None  # checkpoints that are there, of `of`; None: it has not said yet
    of: int | None = None
    problem: str | None = None  # why the last change of checkpoints came to nothing


class Runtime(Protocol):
    """What relay and page know of the runtime."""

    @property
    def url(self) -> str | None: ...

    @property
    def status(self) -> Status: ...

    async def run(self) -> int: ...


class GivenRuntime:
    """A runtime that someone else keeps alive."""

    def __init__(self, url: str) -> None:
        self.url: str | None = url
        self.status = Status(State.STARTING, "Looking for the runtime.")

    async def run(self) -> int:
        """Ask it for ever how it is."""
        async with httpx.AsyncClient(trust_env=False, timeout=HEALTH_S) as client:
            while True:
                ready = await _answers(client, f"{self.url}/ready")
                self.status = (
                    Status(State.READY, "Ready.")
                    if ready
                    else Status(State.AWAY, "The runtime does not answer. It is asked again and again.")
                )
                await asyncio.sleep(WATCH_S if ready else 10 * POLL_S)


class ChildRuntime:
    """A runtime of our own, on a free port of this machine."""

    def __init__(self, args: Sequence[str], command: Sequence[str] = RUNTIME) -> None:
        self.args = tuple(args)
        self._command = tuple(command)
        self._earlier: tuple[str, ...] | None = None  # arguments that served, while others are tried
        self._problem: str | None = None
        self._last_words = ""
        self._tried = False  # the running child has the arguments of a change
        self._process: asyncio.subprocess.Process | None = None
        self.url: str | None = None
        self.status = Status(State.STARTING, "The runtime is starting.")
        self.starts = 0
        self.was_ready = False
        self.pid: int | None = None

    async def run(self) -> int:
        """Keep a child alive until cancelled; then end it.

        Returns only where starting again cannot help: the exit status of a runtime that refused its settings
        before it was ever ready. The sentence why is on its standard error.
        """
        backoff = FIRST_BACKOFF_S
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            code = await self._run_once()
            if self._changed():
                continue
            if code == REFUSED_SETTINGS and not self.was_ready:
                return code
            if loop.time() - began > HEALTHY_S:
                backoff = FIRST_BACKOFF_S
            logger.warning("the runtime ended with status %s; starting it again in %.1f s", code, backoff)
            self._say(State.AWAY, "The runtime has stopped. It is being started again.")
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF_S)

    @property
    def changing(self) -> bool:
        """Whether other arguments are being tried."""
        return self._earlier is not None

    def change(self, args: Sequence[str]) -> None:
        """Start again with other arguments. If they do not serve, the earlier ones come back and `status` says why.

        Not while it is `changing`.
        """
        self._earlier, self.args, self._problem = self.args, tuple(args), None
        self._say(State.STARTING, "The runtime is starting with other checkpoints.")
        if self._process is not None:
            self._ending = asyncio.create_task(_end(self._process))

    def give_up(self) -> None:
        """Abandon a change that takes too long; the earlier arguments come back."""
        if self.changing and self._process is not None:
            self._last_words = "it was given up."
            self._ending = asyncio.create_task(_end(self._process))

    def _changed(self) -> bool:
        """What a child's end means to a change: the new one's turn, or the new one's failure."""
        if self._earlier is None:
            return False
        if self._tried:
            self._problem = f"The checkpoints could not be loaded: {self._last_words or 'the runtime has ended.'}"
            self.args, self._earlier = self._earlier, None
            self._say(State.STARTING, "The earlier checkpoints are being loaded again.")
        return True

    async def _run_once(self) -> int:
        port = _free_port()
        self.starts += 1
        self._tried = self.changing
        process = self._process = await self._spawn(port)
        assert process.stderr is not None
        watcher = asyncio.create_task(self._watch(process, f"http://127.0.0.1:{port}"))
        listening = asyncio.create_task(self._pass_on(process.stderr))
        try:
            code = await process.wait()
            await asyncio.wait({listening}, timeout=LAST_WORDS_S)  # they may say why
            return code
        finally:
            self.url = None
            watcher.cancel()
            await _end(process)
            listening.cancel()

    async def _pass_on(self, words: asyncio.StreamReader) -> None:
        """Its standard error to ours, line by line."""
        rest = b""
        while piece := await words.read(65536):
            sys.stderr.buffer.write(piece)
            sys.stderr.flush()
            *lines, rest = (rest[-4096:] + piece).split(b"\n")
            for line in filter(None, lines):
                self._last_words = line.decode("utf-8", "replace").removeprefix("voicewright: ")

    async def _spawn(self, port: int) -> asyncio.subprocess.Process:
        path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "studio.child",
            *self._command,
            *self.args,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            stdin=asyncio.subprocess.PIPE,  # held open for as long as we live, see studio/child.py
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,  # it would tell its own address; the user's is ours
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is ours; the child is told when we are ready to go
        )
        self.pid = process.pid
        return process

    async def _watch(self, process: asyncio.subprocess.Process, url: str) -> None:
        """Say when it is ready, then end it if it hangs; its death is seen by the one who waits for it."""
        async with httpx.AsyncClient(trust_env=False, timeout=HEALTH_S) as client:
            while not (answer := await _asked(client, f"{url}/ready")).ready:
                self._tell_loading(answer)
                await asyncio.sleep(POLL_S)
            self.url = url
            self.was_ready, self._earlier = True, None
            self._say(State.READY, "Ready.")
            missed = 0
            while missed < 3:
                await asyncio.sleep(WATCH_S)
                missed = 0 if await _answers(client, f"{url}/health") else missed + 1
        logger.error("the runtime does not answer any more; ending it")
        process.kill()

    def _say(self, state: State, sentence: str) -> None:
        self.status = Status(state, sentence, self.starts, problem=self._problem)

    def _tell_loading(self, answer: Answer) -> None:
        """Pass on how far its checkpoints are."""
        if answer.step and answer.of:
            which = f" {min(answer.loaded + 1, answer.of)} of {answer.of}" if answer.of > 1 else ""
            sentence = f"Model{which}: {answer.step}."
            self.status = Status(State.STARTING, sentence, self.starts, answer.loaded, answer.of, self._problem)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a runtime says of itself at /ready."""

    ready: bool = False
    loaded: int = 0
    of: int = 0
    step: str = ""


async def _asked(client: httpx.AsyncClient, url: str) -> Answer:
    """Ask /ready; while it loads, the answer is a refusal that says how far it is."""
    try:
        reply = await client.get(url)
        if reply.status_code == httpx.codes.OK:
            return Answer(ready=True)
        said = reply.json()
        return Answer(loaded=int(said["loaded"]), of=int(said["of"]), step=str(said["step"]))
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return Answer()


async def until_answers(client: httpx.AsyncClient, url: str) -> None:
    """Wait until a URL gives 200."""
    while not await _answers(client, url):  # noqa: ASYNC110 - another process cannot set our event
        await asyncio.sleep(POLL_S)


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    """Tell whether a URL gives 200 now."""
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask, wait, insist."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
