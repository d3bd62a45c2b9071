"""Child processes of the runtime: the server on a free port, and a memory check."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from runtime.errors import PortInUse
from runtime.shared.certificates import certificates
from runtime.shared.system import NEW_GROUP

# Folder that contains the packages of this repository. The working directory may be a different folder.
ROOT = str(Path(__file__).resolve().parents[2])
START_POLL_INTERVAL_S = 0.1
WATCH_INTERVAL_S = 2.0
# Timeout of a health check in seconds. After three consecutive timeouts, the runtime counts as hung.
HEALTH_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0  # Time in seconds within which the runtime closes its sockets and exits.
LAST_OUTPUT_TIMEOUT_S = 1.0  # Timeout in seconds for reading the last output of a process that has ended.
MAX_LOG_LINE_BYTES = 4096  # Maximum length of a log line in bytes.


@dataclass(frozen=True, slots=True)
class ReadyStatus:
    """Readiness and loading progress of the runtime, as returned by its route /ready.

    The runtime has loaded `loaded` of `of` models, and `step` describes the current step.
    """

    ready: bool = False
    loaded: int = 0
    of: int = 0
    step: str = ""

    @property
    def sentence(self) -> str:
        """Return the loading progress of the runtime as a sentence for the user.

        The result is an empty string if the progress is unknown.
        """
        which = f" {min(self.loaded + 1, self.of)} of {self.of}" if self.of > 1 else ""
        return f"Model{which}: {self.step}." if self.step and self.of else ""


class ChildProcess:
    """Child process whose log on stderr is copied to the stderr of the studio."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.last_line = ""
        assert process.stderr is not None
        self._listening = asyncio.create_task(self._pass_on(process.stderr))

    async def ended(self) -> int:
        """Wait until the process ends and return its exit status."""
        code = await self._process.wait()
        # The last output of the process may contain the reason for its exit.
        await asyncio.wait({self._listening}, timeout=LAST_OUTPUT_TIMEOUT_S)
        return code

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def end(self, timeout_s: float | None = None) -> None:
        """Terminate the child process, and kill it if it has not ended after `timeout_s` seconds."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S if timeout_s is None else timeout_s)
            except TimeoutError:
                self.kill()
                await self._process.wait()
        self._listening.cancel()

    async def _pass_on(self, words: asyncio.StreamReader) -> None:
        rest = b""
        while piece := await words.read(65536):
            sys.stderr.buffer.write(piece)
            sys.stderr.flush()
            *lines, rest = (rest[-MAX_LOG_LINE_BYTES:] + piece).split(b"\n")
            for line in filter(None, lines):
                self.last_line = line.decode("utf-8", "replace").removeprefix("voicewright: ")


class RuntimeProcess(ChildProcess):
    """Child process of the runtime, which serves the runtime's HTTP API at `url`."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        super().__init__(process)
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def lost_its_port(self) -> bool:
        """True if the runtime exited because another program had taken its port."""
        return f"[{PortInUse.code}]" in self.last_line and f" {self._port} " in self.last_line

    @classmethod
    async def start(cls, command: Sequence[str]) -> Self:
        """Start a runtime process that listens on a free local port.

        Raises:
            OSError, ValueError: The process cannot be started.
        """
        port = _free_port()
        # If stdout were open, the runtime would print its own URL instead of the studio's URL.
        process = await spawn([*command, "--host", "127.0.0.1", "--port", str(port)], asyncio.subprocess.DEVNULL)
        return cls(process, port)

    async def wait_until_ready(self, report: Callable[[ReadyStatus], None]) -> None:
        """Request the runtime's route /ready repeatedly until the runtime is ready.

        If the process ends before it is ready, this call never returns.

        Args:
            report: Callback that receives the loading progress.
        """
        async with httpx.AsyncClient(verify=certificates(), trust_env=False, timeout=HEALTH_TIMEOUT_S) as client:
            while not (answer := await query_runtime(client, f"{self.url}/ready")).ready:
                report(answer)
                await asyncio.sleep(START_POLL_INTERVAL_S)

    async def wait_until_loaded(self, report: Callable[[ReadyStatus], None]) -> None:
        """Wait until the runtime has loaded its checkpoints and is ready.

        `report` is a callback that receives the loading progress.

        Raises:
            Refused: The runtime ended before it was ready. The message has the reason.
        """
        ended = asyncio.create_task(self.ended())
        ready = asyncio.create_task(self.wait_until_ready(report))
        try:
            await asyncio.wait({ended, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise Refused(self.last_line or f"the runtime ended with status {ended.result()}.")
        finally:
            ended.cancel()
            ready.cancel()

    async def wait_until_hung(self) -> None:
        """Poll the runtime until it misses three consecutive health checks."""
        async with httpx.AsyncClient(verify=certificates(), trust_env=False, timeout=HEALTH_TIMEOUT_S) as client:
            missed = 0
            while missed < 3:
                await asyncio.sleep(WATCH_INTERVAL_S)
                missed = 0 if await is_responding(client, f"{self.url}/health") else missed + 1


class Refused(Exception):
    """Error for a failed command of the runtime.

    The message is one sentence with the reason.
    """


async def fits_alongside(command: Sequence[str]) -> bool:
    """Return True if new checkpoints fit into memory in addition to the current checkpoints.

    The option --check of the runtime's `command` measures this in a child process.

    Raises:
        Refused: The new checkpoints cannot be loaded at all.
        OSError, ValueError: The process cannot be started.
    """
    return bool(json.loads(await read_output([*command, "--check"]))["fits_alongside"])


async def read_output(command: Sequence[str]) -> bytes:
    """Run a command of the runtime in a child process, and return its output.

    The process is killed if the caller is cancelled.

    Raises:
        Refused: The command failed. The message has the reason.
        OSError, ValueError: The process cannot be started.
    """
    process = await spawn(command, asyncio.subprocess.PIPE)
    child = ChildProcess(process)
    try:
        assert process.stdout is not None
        output = await process.stdout.read()
        if await child.ended():
            raise Refused(child.last_line or "the check of them has ended without a word.")
        return output
    finally:
        child.kill()
        await process.wait()


async def spawn(command: Sequence[str], stdout: int) -> asyncio.subprocess.Process:
    """Start a Python module as a child process, which ends when this process ends.

    `stdout` is the target of the module's output. The module's stderr, which has its log, is a pipe.
    """
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "runtime.shared.child",
        *command,
        # When this process ends, the pipe is closed, and then the runtime also ends (runtime/shared/child.py).
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdout=stdout,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C reaches only this process, which then ends the child.
        creationflags=NEW_GROUP,  # On systems without sessions, this flag keeps Ctrl-C from the child.
    )


async def query_runtime(client: httpx.AsyncClient, url: str) -> ReadyStatus:
    """Request the runtime's route /ready, and return the readiness or the loading progress.

    `url` is the full URL of the route. If the request fails, the progress in the result is unknown.
    """
    try:
        reply = await client.get(url)
        if reply.status_code == httpx.codes.OK:
            return ReadyStatus(ready=True)
        body = reply.json()
        return ReadyStatus(loaded=int(body["loaded"]), of=int(body["of"]), step=str(body["step"]))
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return ReadyStatus()


async def is_responding(client: httpx.AsyncClient, url: str) -> bool:
    """Return True if a GET request of the URL returns status 200."""
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
