"""Tests for the load generator, with a short run of each kind of load."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.common import servers
from benchmarks.common.metrics import RequestOutcome, RequestTrace
from benchmarks.common.servers import busy_slots
from benchmarks.common.texts import frames_of
from benchmarks.common.variants import Variant
from benchmarks.common.voices import NewVoices
from benchmarks.serve import load as measuring
from benchmarks.serve.__main__ import main
from benchmarks.serve.load import measure, measure_closed, measure_open, summarize_windows
from benchmarks.serve.plan import ClientBehaviour, Plan, Rounds, Workload, closed_loop, open_loop
from benchmarks.serve.targets import Target, open_targets
from runtime.request import Mode
from runtime.server.voices.uploads import read_upload
from runtime.settings import Limits
from tests.unit.studio.serving import served

pytestmark = pytest.mark.slow

LOAD = Workload(Mode.CUSTOM_VOICE)
ONE = Rounds(1, 1)
OURS = Variant("ours", {})
Row = dict[str, Any]


def shortened(text: str) -> int:
    """Return a number of frames that is lower than the text needs, but more than its tokens."""
    return 4 + len(text) // 4


def environment_of(folder: Path) -> dict[str, str]:
    return {
        "VOICEWRIGHT_MODEL": str(folder),
        "VOICEWRIGHT_DEVICE": "cpu",
        "VOICEWRIGHT_MAX_SLOTS": "2",
        "VOICEWRIGHT_MAX_MODEL_LEN": "256",
        "VOICEWRIGHT_MAX_WAITING": "0",
        "VOICEWRIGHT_THREADS": "1",
    }


@pytest.fixture(scope="module")
def tables(endless: Path) -> dict[str, list[Row]]:
    async def measured() -> dict[str, list[Row]]:
        async with open_targets([OURS], environment_of(endless)) as targets:
            live = [replace(LOAD, manner=manner) for manner in (ClientBehaviour.WORDS, ClientBehaviour.TOKENS)]
            abuse = replace(LOAD, cancels=0.5, slow=0.1)
            return {
                "closed": await measure_closed(targets, [LOAD], [2], 1, ONE),
                "open": await measure_open(targets, [LOAD], [2.0], 2.0),
                "live": await measure_closed(targets, live, [1], 1, ONE),
                # This load has no warm-up, so all calls that get a slot are counted.
                "abuse": await measure(targets, [open_loop(abuse, 12.0, 2.0, seed=0)], {}),
            }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.common.texts.frames_of", shortened)
        return asyncio.run(measured())


@pytest.mark.parametrize("kind", ["closed", "open", "live", "abuse"])
def test_benchmark_run_has_no_failures_or_leaks(tables: dict[str, list[Row]], kind: str) -> None:
    for row in tables[kind]:
        assert (row["failed"], row["leaked_slots"]) == (0, 0), row
        assert 0 < row["ttfa_p50_ms"] <= row["ttfa_p95_ms"] <= 60_000
        assert row["ttfa_p50_ms"] <= row["e2e_p95_ms"]


def test_closed_loop_keeps_one_call_in_flight_per_client(tables: dict[str, list[Row]]) -> None:
    for row in tables["closed"]:
        assert (row["peak_in_flight"], row["clients"], row["calls"]) == (2, 2, 2)


def test_streamed_text_is_sent_completely_before_its_end_is_counted(tables: dict[str, list[Row]]) -> None:
    assert [row["text"] for row in tables["live"]] == ["words", "tokens"]
    for row in tables["live"]:
        assert 0 < row["last_text_to_end_p50_ms"] < row["e2e_p95_ms"]


def test_requests_beyond_the_queue_are_refused(tables: dict[str, list[Row]]) -> None:
    for row in tables["abuse"]:
        assert row["refused"] > 0
        assert row["errors"] == "overloaded"


async def test_every_new_voice_call_clones_its_own_recording(
    endless_cloner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.common.texts.frames_of", shortened)
    loads = [Workload(Mode.BASE, voices=NewVoices(1.2, only)) for only in (True, False)]

    async with open_targets([OURS], environment_of(endless_cloner), processes=2) as targets:
        rows = await measure_closed(targets, loads, [1, 2], 1, ONE)
    assert [(row["voices"], row["clients"]) for row in rows] == [
        (kind, clients) for kind in ("x-vector 1.2 s", "ICL 1.2 s") for clients in (1, 2)
    ]
    assert not any(row["failed"] or row["leaked_slots"] for row in rows)


def test_recordings_differ_between_calls_and_are_reproducible() -> None:
    voices = NewVoices(1.0, False)
    first, again, other = (voices.upload(number) for number in (1, 1, 2))
    assert first == again
    assert first["ref_audio"] != other["ref_audio"]
    assert len(read_upload(first["ref_audio"], Limits())) == 24_000  # type: ignore[arg-type]


async def test_reply_ending_before_its_text_is_a_failure(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.common.texts.frames_of", lambda text: 3)
    async with open_targets([OURS], environment_of(endless)) as (target,):
        traces = await target.drive(closed_loop(replace(LOAD, manner=ClientBehaviour.TOKENS), 1, ONE))
    # The shortest text may be sent completely in time.
    assert "ended_before_its_text" in {trace.code for trace in traces}


class Noted:
    """Fake benchmark target that appends its name and the plan of every run to a list."""

    start_s = 0.0

    def __init__(self, name: str, noted: list[tuple[str, Plan]]) -> None:
        self.name = name
        self.noted = noted

    async def drive(self, plan: Plan) -> list[RequestTrace]:
        self.noted.append((self.name, plan))
        return [RequestTrace(0, wanted_bytes=2, sent_ns=1, end_ns=3, chunks=[(2, 2)], outcome=RequestOutcome.DONE)]

    async def busy(self) -> int:
        return 0

    def usage(self) -> dict[str, Any]:
        return {}


def noting(*names: str) -> tuple[list[Target], list[tuple[str, Plan]]]:
    noted: list[tuple[str, Plan]] = []
    return [Noted(name, noted) for name in names], noted  # type: ignore[misc]


async def test_variants_are_measured_in_the_order_a_b_b_a() -> None:
    targets, noted = noting("a", "b")
    rows = await measure_closed(targets, [LOAD], [1, 2], 1, ONE)
    assert [row["target"] for row in rows] == 2 * ["a", "b"]
    assert [name for name, _ in noted] == [*"abba", *"abba"]
    targets, noted = noting("a")
    await measure_closed(targets, [LOAD], [1, 2], 1, ONE)
    assert [name for name, _ in noted] == ["a", "a"]


async def test_second_pass_clones_new_recordings_identical_in_both_variants() -> None:
    targets, noted = noting("a", "b")
    loads = [Workload(Mode.BASE, voices=NewVoices(1.0, only)) for only in (True, False)]
    await measure_closed(targets, loads, [1, 2], 1, ONE)
    assert [name for name, _ in noted] == 4 * [*"abba"]
    numbers = [(name, [call.number for call in plan.calls]) for name, plan in noted]
    of_a, of_b = (sorted(number for who, found in numbers if who == name for number in found) for name in "ab")
    assert of_a == of_b == list(range(2 * 2 * (2 + 4)))
    assert all(numbers[place][1] == numbers[place + 1][1] for place in range(0, len(numbers), 2))


@pytest.mark.parametrize(("looks", "left"), [(3, 0), (1000, 1)])
async def test_slot_released_shortly_after_the_last_reply_is_not_a_leak(
    looks: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "SETTLE_TIMEOUT_S", 0.5)
    seen = 0

    async def ready(_: Request) -> JSONResponse:
        nonlocal seen
        seen += 1
        return JSONResponse({"active": int(seen <= looks), "waiting": 0})

    async with served([Route("/ready", ready)]) as address:
        assert await busy_slots(f"http://{address}") == left


def row_of(minute: int, rss_mib: float, p99: float | None, underruns: int = 0) -> Row:
    wrong = {"failed": 0, "refused": 0, "underruns": underruns, "leaked_slots": 0}
    return {"minute": minute, "calls": 10, "rss_mib": rss_mib, "ttfa_p99_ms": p99, **wrong}


def test_memory_growth_during_warm_up_does_not_count_as_a_leak() -> None:
    filling = [row_of(0, 100, 9), row_of(1, 400, 9), row_of(2, 900, 9)]
    rows = [*filling, *(row_of(minute, 1000 + 2 * minute, 9 + minute, 1) for minute in range(3, 9))]
    found = summarize_windows(rows)
    assert found["rss_mib_a_minute"] == 2
    assert (found["ttfa_p99_first_third_ms"], found["ttfa_p99_last_third_ms"]) == (9, 16)
    assert (found["windows"], found["calls"], found["underruns"]) == (9, 90, 6)
    assert summarize_windows([row_of(0, 100, None)])["ttfa_p99_first_third_ms"] is None


def test_unknown_setting_is_refused() -> None:
    assert Variant.parse("eager:VOICEWRIGHT_GUARD=0,BASE_PREFILLS=1").environment == {
        "VOICEWRIGHT_GUARD": "0",
        "VOICEWRIGHT_BASE_PREFILLS": "1",
    }
    with pytest.raises(SystemExit, match="VOICEWRIGHT_GARD"):
        Variant.parse("eager:GARD=0")


def test_benchmark_command_writes_its_report(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.common.texts.frames_of", shortened)
    monkeypatch.setattr(measuring, "WARM_UP_MINUTES", 0)
    words = f"serve --model {endless} --device cpu --slots 2 --length 256  --concurrency 1 --calls 1"
    words += f" --load .5 --minutes .001 --seconds 1 --json {tmp_path / 'json'}"
    monkeypatch.setattr("sys.argv", words.split())
    main()
    report = json.loads((tmp_path / "json").read_text())
    assert report["weights"] == "synthetic"
    assert report["tables"]["closed loop"][0]["calls"] == 4
    assert report["tables"]["minutes"][0]["rss_mib"] > 0
    assert report["tables"]["all minutes"][0]["windows"] == 1
    assert "### closed loop" in capsys.readouterr().out


def test_frame_count_follows_from_the_text() -> None:
    assert all(call.frames == frames_of(call.text) for call in closed_loop(LOAD, 2, ONE).calls)
