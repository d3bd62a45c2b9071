"""What is measured side by side: a set of settings (an arm) behind a transport, opened for the length of a suite."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

import httpx

from benchmarks.cast import keep_voice
from benchmarks.driver import ClientProcess, DriveResult, client_process, drive
from benchmarks.plan import Plan
from benchmarks.sockets import runtime_process
from benchmarks.speakers import EngineSpeaker
from runtime.engine.engine import Engine
from runtime.settings import Settings
from runtime.variables import of_the_runtime

TRANSPORTS = ("in_process", "websocket")
SETTLED_S = 5.0  # in which every slot must be free again once the last reply has ended

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Arm:
    """A name and the settings that make it different, as variables of the environment."""

    name: str
    environment: Environment

    @classmethod
    def parse(cls, text: str) -> Self:
        """``NAME[:VARIABLE=VALUE,…]``.

        Raises:
            SystemExit: no setting has that variable: both arms would be the same.
        """
        name, _, rest = text.partition(":")
        pairs = dict(pair.split("=", 1) for pair in rest.split(",") if "=" in pair)
        if unknown := sorted(set(pairs) - of_the_runtime()):
            raise SystemExit(f"no setting is called {', '.join(unknown)}")
        return cls(name, pairs)


class Endpoint(Protocol):
    """What a lane leads to."""

    async def drive(self, plan: Plan) -> DriveResult: ...

    async def busy(self) -> int:
        """Requests that hold a slot or wait for one."""
        ...


@dataclass(frozen=True, slots=True)
class Lane:
    """An opened arm behind a transport."""

    arm: str
    transport: str
    endpoint: Endpoint
    record: Path | None = None  # a file that every trace is appended to, a line each

    async def drive(self, plan: Plan) -> DriveResult:
        """Carry a plan out."""
        heard = await self.endpoint.drive(plan)
        if self.record is not None:
            about = {"arm": self.arm, "transport": self.transport, "mode": plan.mode, "clients": plan.clients}
            with self.record.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({**about, **asdict(trace)}) + "\n" for trace in heard.traces)
        return heard

    async def leaked(self) -> int:
        """Slots that are still held, and requests that still wait, after all clients have gone."""
        return await settled(self.endpoint.busy)


async def settled(busy: Callable[[], Awaitable[int]]) -> int:
    """What is still busy after so long as it may take to become free."""
    for _ in range(round(SETTLED_S / 0.05)):
        if not await busy():
            break
        await asyncio.sleep(0.05)
    return await busy()


async def busy_at(url: str) -> int:
    """Requests that hold a slot of the runtime at an http address, or wait for one."""
    async with httpx.AsyncClient(trust_env=False) as http:
        load = (await http.get(f"{url}/ready")).json()
    return int(load["active"] + load["waiting"])


@asynccontextmanager
async def opened(
    arms: Sequence[Arm], transports: Sequence[str], base: Environment, record: Path | None = None
) -> AsyncIterator[list[Lane]]:
    """Every arm behind every transport, all at once; ``base`` are settings of all of them."""
    async with AsyncExitStack() as stack:
        voices = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        keep_voice(voices)
        lanes = []
        for arm in arms:
            environment = {**base, "VOICEWRIGHT_VOICES": str(voices), **arm.environment}
            for transport in transports:
                endpoint = _engine_endpoint(environment) if transport == "in_process" else _socket_endpoint(environment)
                lanes.append(Lane(arm.name, transport, await stack.enter_async_context(endpoint), record))
        yield lanes


def settings_of(environment: Environment) -> Settings:
    """The settings of a process that has these variables besides ours."""
    return Settings.from_env({**os.environ, **environment})


class _EngineDoor:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def drive(self, plan: Plan) -> DriveResult:
        speaker = EngineSpeaker(self._engine)
        await speaker.prepare(plan)
        return DriveResult(await drive(plan, speaker))

    async def busy(self) -> int:
        load = self._engine.load()
        return load.active + load.waiting


class _SocketDoor:
    def __init__(self, url: str, clients: ClientProcess) -> None:
        self._url = url
        self._clients = clients

    async def drive(self, plan: Plan) -> DriveResult:
        return await self._clients.drive(plan)

    async def busy(self) -> int:
        return await busy_at(self._url)


@asynccontextmanager
async def _engine_endpoint(environment: Environment) -> AsyncIterator[Endpoint]:
    engine = await asyncio.to_thread(Engine.open, settings_of(environment))
    engine.start()
    try:
        yield _EngineDoor(engine)
    finally:
        await asyncio.to_thread(engine.close)


@asynccontextmanager
async def _socket_endpoint(environment: Environment) -> AsyncIterator[Endpoint]:
    async with runtime_process([], environment) as runtime, client_process(runtime.url) as clients:
        yield _SocketDoor(runtime.url, clients)
