"""A share of what a machine can do for some moments, and what creeps."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks import lanes, steady
from benchmarks.driver import DriveResult
from benchmarks.figures import Outcome, Trace
from benchmarks.plan import Plan, Rounds, open_loop
from benchmarks.sockets import BenchRuntime
from benchmarks.stillness import watching
from runtime.request import Mode
from tests.unit.studio.serving import served


def test_moments_at_a_share_of_what_a_closed_loop_gets_through(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / "found.json"
    monkeypatch.setenv("VOICEWRIGHT_DEVICE", "cpu")
    monkeypatch.setattr(steady, "ROUNDS", Rounds(0, 3))
    asked = ["--minutes", "0", "--seconds", "4", "--slots", "2", "--length", "300", "--json", str(found)]
    monkeypatch.setattr(sys, "argv", ["steady", "--model", str(endless), *asked])
    steady.main()
    report = json.loads(found.read_text("utf-8"))
    assert report["rate"] == pytest.approx(0.8 * report["closed"]["req_per_s"], abs=0.01)
    (row,) = report["rows"]
    assert row["left"] == row["failed"] == row["refused"] == 0
    assert row["still_ms"] >= 0
    assert report["creep"]["calls"] == row["calls"]


class Gone:
    """Clients that have heard everything at once."""

    async def drive(self, plan: Plan) -> DriveResult:
        trace = Trace(0, wanted_bytes=2, sent_ns=1, end_ns=3, chunks=[(2, 2)], outcome=Outcome.DONE)
        return DriveResult([trace], 0.0)


@pytest.mark.parametrize(("looks", "left"), [(3, 0), (1000, 1)])
def test_what_is_busy_for_a_moment_after_the_last_reply_is_not_left(
    looks: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that is held for so many looks at the runtime."""
    monkeypatch.setattr(lanes, "SETTLED_S", 0.5)
    seen = 0

    async def ready(_: Request) -> JSONResponse:
        nonlocal seen
        seen += 1
        return JSONResponse({"active": int(seen <= looks), "waiting": 0})

    async def minute() -> dict[str, Any]:
        async with served([Route("/ready", ready)]) as address, watching() as watch:
            runtime = BenchRuntime(f"http://{address}", os.getpid())
            return await steady.minute(Gone(), runtime, watch, open_loop(Mode.CUSTOM_VOICE, 1, 1, 0), 0)

    assert asyncio.run(minute())["left"] == left


def row_of(minute: int, rss_mib: float, p99: float, underruns: int = 0) -> dict[str, Any]:
    wrong = {"failed": 0, "refused": 0, "underruns": underruns, "left": 0}
    return {"minute": minute, "calls": 10, "rss_mib": rss_mib, "first_pcm_p99_ms": p99, **wrong}


def test_what_fills_in_the_first_minutes_is_no_slope() -> None:
    filling = [row_of(0, 100, 9), row_of(1, 400, 9), row_of(2, 900, 9)]
    rows = [*filling, *(row_of(minute, 1000 + 2 * minute, 9 + minute, 1) for minute in range(3, 9))]
    found = steady.creep(rows)
    assert found["rss_mib_a_minute"] == 2
    assert (found["p99_first_third_ms"], found["p99_last_third_ms"]) == (9, 16)
    assert (found["minutes"], found["calls"], found["underruns"]) == (9, 90, 6)


def test_a_part_in_which_nothing_was_heard_has_no_p99() -> None:
    found = steady.creep([row_of(0, 100, 9) | {"first_pcm_p99_ms": None, "calls": 0}])
    assert found["p99_first_third_ms"] is None
