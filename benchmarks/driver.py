"""Clients that do what a plan says, in one event loop; and the process of its own that they run in for sockets.

`python -m benchmarks.driver URL` reads a plan a line from stdin and answers each with a line: its traces, and how much
of one core the clients took.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

import httpx

from benchmarks.child import Child, started
from benchmarks.figures import Outcome, Trace
from benchmarks.plan import Call, Plan
from benchmarks.speakers import SocketSpeaker, Speaker

LINE_BYTES = 2**28  # of traces, at most
HEAD_START_S = 0.05  # before the first arrival of an open loop


@dataclass(frozen=True, slots=True)
class DriveResult:
    """What became of a plan. ``client_cpu``: share of one core that its clients took; None: not told apart."""

    traces: list[Trace]
    client_cpu: float | None = None


async def drive(plan: Plan, speaker: Speaker) -> list[Trace]:
    """Make every call of a plan; returns when all have ended."""
    gc.collect()
    gc.freeze()  # a pause of our own collector would be taken for one of the server
    if plan.clients:
        return await _closed(plan, speaker)
    began = time.perf_counter_ns() + round(1e9 * HEAD_START_S)
    return list(await asyncio.gather(*(_at_its_time(call, plan, speaker, began) for call in plan.calls)))


async def _closed(plan: Plan, speaker: Speaker) -> list[Trace]:
    calls, traces = iter(plan.calls), []

    async def client() -> None:
        for call in calls:
            traces.append(await speaker.speak(call, plan.mode))

    await asyncio.gather(*(client() for _ in range(plan.clients)))
    return traces


async def _at_its_time(call: Call, plan: Plan, speaker: Speaker, began: int) -> Trace:
    due = began + round(1e9 * call.at_s)
    await asyncio.sleep((due - time.perf_counter_ns()) / 1e9)
    trace = await speaker.speak(call, plan.mode)
    trace.due_ns = due
    return trace


class ClientProcess:
    """Clients in a process of their own, so that they share no interpreter with what is measured."""

    def __init__(self, child: Child) -> None:
        self._child = child

    async def drive(self, plan: Plan) -> DriveResult:
        """Have a plan carried out.

        Raises:
            SystemExit: the process has died; its error is on stderr.
        """
        line = await self._child.ask(json.dumps(plan.as_json()))
        if not line:
            raise SystemExit("the clients' process died; its error is above")
        answer = json.loads(line)
        return DriveResult([_trace(fields) for fields in answer["traces"]], answer["client_cpu"])


@asynccontextmanager
async def client_process(url: str) -> AsyncIterator[ClientProcess]:
    """Start one for the runtime at an http address."""
    async with started("benchmarks.driver", url, is_asked=True, line_bytes=LINE_BYTES) as child:
        yield ClientProcess(child)


def _trace(fields: dict[str, object]) -> Trace:
    trace = Trace(**fields)  # type: ignore[arg-type]
    trace.outcome = Outcome(trace.outcome)
    return trace


async def serve(url: str) -> None:
    """Carry out the plans that come on stdin."""
    async with httpx.AsyncClient(trust_env=False) as http:
        cards = (await http.get(f"{url}/v1/models")).json()["data"]
    stream = url.replace("http", "ws", 1) + "/v1/audio/speech/stream"
    while line := await asyncio.to_thread(sys.stdin.readline):
        plan = Plan.from_json(json.loads(line))
        speaker = SocketSpeaker(stream, next(card for card in cards if plan.mode in card["modes"]))
        await speaker.prepare(plan)
        wall, cpu = time.perf_counter(), time.process_time()
        traces = await drive(plan, speaker)
        share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        print(json.dumps({"traces": [asdict(t) for t in traces], "client_cpu": round(share, 3)}), flush=True)
        await speaker.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
