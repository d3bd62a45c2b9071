"""Cluster of real runtime processes on this machine, and load generators for it."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from runtime.cluster.haproxy import find_haproxy
from runtime.errors import InvalidSetting
from tests.support.replicas import runtimes
from voicewright import Client, ConnectionLost, SpeechRefused, connect

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-cluster" / "bin" / "python"  # Python environment that also contains Ray.
TEST_TIMEOUT_S = 120.0
CHANGE_S = 480.0  # Timeout in seconds for replacing all replicas in turn on a busy machine.
LONG = "It was a bright cold day in April, and the clocks were striking thirteen. " * 3
SHORT = "The clocks were striking."

Seen = TypeVar("Seen")


def require_haproxy() -> None:
    """Skip all tests of the calling module if HAProxy is not installed."""
    try:
        find_haproxy("")
    except InvalidSetting as missing:
        pytest.skip(str(missing), allow_module_level=True)


def require_cluster() -> None:
    """Skip all tests of the calling module if Ray or HAProxy is not installed."""
    pytest.importorskip("ray", reason=f"run it with {PYTHON.relative_to(ROOT)} -m pytest")
    require_haproxy()


def python_with_ray() -> str:
    """Return the path of a Python interpreter that has Ray.

    It is the current interpreter or that of `.venv-cluster`.
    """
    if importlib.util.find_spec("ray") is not None:
        return sys.executable
    if not PYTHON.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("get Ray with: make .venv-cluster/.ready")
    return str(PYTHON)


@dataclass(slots=True)
class RunningCluster:
    """Running cluster with its public URL and the address of Ray."""

    url: str
    address: str
    environment: dict[str, str]
    process: subprocess.Popen[str]
    key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"x-api-key": self.key} if self.key else {}

    def replicas(self) -> list[dict[str, Any]]:
        return list(httpx.get(f"{self.url}/cluster", headers=self.headers, timeout=10.0).json()["replicas"])

    def runtimes(self) -> dict[int, int]:
        """Return the process IDs of the cluster's runtime processes, keyed by port."""
        return runtimes(self.process.pid)

    def ready(self) -> list[str]:
        """Return the names of the replicas that accept requests and report their load."""
        return [replica["name"] for replica in self.replicas() if replica["state"] == "ready" and replica["load"]]

    async def until(self, count: int, *, without: str = "", seconds: float = 120.0) -> list[str]:
        """Wait until `count` replicas other than `without` are ready, and return their names."""
        end = time.monotonic() + seconds
        async with httpx.AsyncClient(headers=self.headers, timeout=10.0) as client:
            while time.monotonic() < end:
                with suppress(httpx.HTTPError):
                    listed = (await client.get(f"{self.url}/cluster")).json().get("replicas", [])
                    names = [one["name"] for one in listed if one["state"] == "ready" and one["load"]]
                    if len(names) == count and len(listed) == count and without not in names:
                        return names
                await asyncio.sleep(0.1)
        raise AssertionError(f"after {seconds:g} s there are {self.replicas()}")

    async def until_busy(self, *, active: int, waiting: int = 0) -> tuple[list[int], list[int]]:
        """Wait until the cluster has exactly `active` running and `waiting` queued requests.

        Returns:
            Sorted numbers of running requests and of queued requests per replica.
        """

        def seen(replicas: list[dict[str, Any]]) -> tuple[list[int], list[int]] | None:
            if not all(one["load"] for one in replicas):
                return None
            busy, queued = (sorted(one["load"][name] for one in replicas) for name in ("active", "waiting"))
            return (busy, queued) if (sum(busy), sum(queued)) == (active, waiting) else None

        return await self._until(seen)

    async def until_each_speaks(self) -> int:
        """Wait until each replica was seen generating speech, and return the number of replicas."""
        spoke: set[str] = set()

        def seen(replicas: list[dict[str, Any]]) -> int | None:
            spoke.update(one["name"] for one in replicas if one["load"] and one["load"]["active"])
            return len(replicas) if {one["name"] for one in replicas} <= spoke else None

        return await self._until(seen)

    async def _until(self, seen: Callable[[list[dict[str, Any]]], Seen | None]) -> Seen:
        end = time.monotonic() + TEST_TIMEOUT_S
        async with httpx.AsyncClient(headers=self.headers, timeout=10.0) as client:
            while time.monotonic() < end:
                found = seen(listed := (await client.get(f"{self.url}/cluster")).json()["replicas"])
                if found is not None:
                    return found
                await asyncio.sleep(0.05)
        raise AssertionError(f"after {TEST_TIMEOUT_S:g} s there are {listed}")

    async def change(self, *arguments: str) -> None:
        """Run the cluster's command-line tool with these arguments, and check that it succeeds."""
        process = await asyncio.create_subprocess_exec(
            *command(self.url, "--address", self.address, *arguments),
            env=self.environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, words = await asyncio.wait_for(process.communicate(), CHANGE_S)
        finally:
            with suppress(ProcessLookupError):
                process.kill()  # If it is not killed, the command may wait forever and outlive the tests.
        assert process.returncode == 0, words.decode()[-2000:]


def on_a_loop(test: Callable[[RunningCluster], Coroutine[None, None, None]]) -> Callable[[RunningCluster], None]:
    """Decorate an async test so that it runs in its own event loop."""

    @functools.wraps(test)
    def run(cluster: RunningCluster) -> None:
        asyncio.run(test(cluster))

    return run


def command(url: str, *arguments: str) -> list[str]:
    port = url.rpartition(":")[2]
    return [python_with_ray(), "-m", "runtime.cli", "cluster", "--port", port, "--max-slots", "4", *arguments]


@contextmanager
def running_cluster(
    folder: Path, *arguments: str, key: str = "", without: Collection[str] = (), **environment: str
) -> Iterator[RunningCluster]:
    """Start a cluster, and stop it on exit.

    Args:
        folder: Folder with the stored voices.
        arguments: Command-line arguments of the cluster.
        key: API key that requests need, or an empty string.
        without: Environment variables that the cluster does not inherit.
        environment: Additional environment variables.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"VOICEWRIGHT_VOICES": str(folder / "voices"), "VOICEWRIGHT_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    env = {name: value for name, value in env.items() if name not in without} | environment
    log = folder / "cluster.log"
    with open(log, "wb") as words:
        process = subprocess.Popen(
            command(url, *arguments), env=env, stdout=subprocess.PIPE, stderr=words, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        line = ""
        for line in process.stdout:  # The loop has no timeout. The test's timeout ends it.
            if line.startswith("Voicewright cluster ready"):
                break
        assert "(Ray at " in line, log.read_text()[-3000:]
        yield RunningCluster(url, line.partition("(Ray at ")[2].strip(" )\n"), env, process, key)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(90)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def hold_requests(url: str) -> AsyncIterator[None]:
    """Keep one slot of the engine at `url` busy until the block ends.

    It requests long speech and does not read the audio, so the request does not finish.
    """
    async with connect(url) as client, client.speak(LONG * 4) as speech:
        await anext(aiter(speech))
        yield


@dataclass(slots=True)
class StreamResult:
    """Audio bytes, error and durations of one speech request."""

    bytes: int = 0
    error: str = ""
    seconds: float = 0.0
    first_s: float = 0.0


@dataclass(slots=True)
class Load:
    """Load generator whose clients send speech requests until `end` is called.

    Each client sends one request after another.
    """

    url: str
    text: str = SHORT
    heard: list[StreamResult] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _stop: bool = False

    def begin(self, speakers: int) -> None:
        self._tasks = [asyncio.create_task(self._speak_on()) for _ in range(speakers)]

    async def end(self) -> list[StreamResult]:
        self._stop = True
        await asyncio.gather(*self._tasks)
        return self.heard

    async def _speak_on(self) -> None:
        while not self._stop:
            self.heard.append(await receive_stream(self.url, self.text))


async def receive_stream(url: str, text: str) -> StreamResult:
    """Request speech for `text` on a new WebSocket, and return its audio and durations.

    If the server refuses the request and reports a retry time, the function waits and retries for up to a minute.
    """
    heard, start = StreamResult(), time.monotonic()
    while True:
        try:
            async with connect(url) as client:
                await _listen(client, text, heard, start)
        except SpeechRefused as error:
            if error.retryable and not heard.bytes and time.monotonic() - start < 60:
                await asyncio.sleep(0.2)
                continue
            heard.error = error.code
        except ConnectionLost as error:
            heard.error = f"lost after {heard.bytes} bytes: {error}"
        heard.seconds = time.monotonic() - start
        return heard


async def _listen(client: Client, text: str, heard: StreamResult, start: float) -> None:
    async with client.speak(text) as speech:
        async for piece in speech:
            heard.first_s = heard.first_s or time.monotonic() - start
            heard.bytes += len(piece.pcm)
