"""Every suite once, short, on a tiny checkpoint: in process and over sockets from a process of their own."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import lanes, suites
from benchmarks.cast import new_reference, new_upload
from benchmarks.driver import DriveResult
from benchmarks.engine import Grid, measure_engine
from benchmarks.figures import Outcome, Trace
from benchmarks.host import measure_host
from benchmarks.lanes import Arm, Lane, opened, settings_of
from benchmarks.peers import Ours, measure
from benchmarks.plan import Manner, NewVoices, Plan, Rounds, closed_loop
from benchmarks.prompts import frames_of
from benchmarks.report import markdown
from benchmarks.suite import main
from runtime.request import Mode
from runtime.server.voices.uploads import read_upload
from runtime.settings import DEMO_CHECKPOINT, Limits

MODE = Mode.CUSTOM_VOICE
Row = dict[str, Any]


def shortened(text: str) -> int:
    """Frames of a text: fewer than it would be spoken for, more than it has tokens."""
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


ONE = Rounds(1, 1)


@pytest.fixture(scope="module")
def tables(endless: Path) -> dict[str, list[Row]]:
    async def all_of_them() -> dict[str, list[Row]]:
        async with opened([Arm("ours", {})], lanes.TRANSPORTS, environment_of(endless)) as doors:
            return {
                "closed": await suites.closed_loop(doors, [MODE], [2], 1, ONE),
                "open": await suites.open_loop(doors, [MODE], [2.0], 2.0, 0.5, [0]),
                "live": await suites.live_text(doors, [MODE], [1], 1, ONE),
                "abuse": await suites.abuse(doors, [MODE], 2, 2.0, 12.0, ONE),
            }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.plan.frames_of", shortened)
        return asyncio.run(all_of_them())


@pytest.mark.parametrize("suite", ["closed", "open", "live", "abuse"])
def test_nothing_fails_and_nothing_leaks(tables: dict[str, list[Row]], suite: str) -> None:
    for row in tables[suite]:
        assert (row["failed"], row["leaked_slots"]) == (0, 0), row


@pytest.mark.parametrize("suite", ["closed", "open", "live", "abuse"])
def test_both_transports_are_measured(tables: dict[str, list[Row]], suite: str) -> None:
    assert {row["lane"] for row in tables[suite]} == set(lanes.TRANSPORTS)
    for row in tables[suite]:
        assert 0 < row["first_pcm_p50_ms"] <= row["first_pcm_p95_ms"] <= 60_000
        assert row["first_pcm_p50_ms"] <= row["e2e_p95_ms"]


def test_clients_over_sockets_say_how_much_of_a_core_they_took(tables: dict[str, list[Row]]) -> None:
    shares = {row["lane"]: row.get("client_cpu") for row in tables["closed"]}
    assert shares["in_process"] is None
    assert 0 < shares["websocket"] < 1


def test_a_closed_loop_has_as_many_in_flight_as_clients(tables: dict[str, list[Row]]) -> None:
    for row in tables["closed"]:
        assert (row["peak_in_flight"], row["clients"]) == (2, 2)
        assert row["calls"] == 2


def test_live_text_is_written_before_its_end_is_counted(tables: dict[str, list[Row]]) -> None:
    texts = {
        lane: {row["text"] for row in tables["live"] if row["lane"] == lane} for lane in ("in_process", "websocket")
    }
    assert texts == {"in_process": {"words", "tokens"}, "websocket": {"words", "tokens", "halting", "silence"}}
    for row in tables["live"]:
        assert 0 < row["last_word_to_end_p50_ms"] < row["e2e_p95_ms"]


def test_those_who_find_no_place_are_refused_and_the_others_are_served(tables: dict[str, list[Row]]) -> None:
    for row in tables["abuse"]:
        assert row["refused"] > 0
        assert row["errors"] == "overloaded"
        assert row["cancel_calls"] > 0
        assert row["slow_calls"] > 0
        assert row["alone_first_pcm_p50_ms"] > 0


def test_every_call_of_new_voices_clones_a_recording_of_its_own(
    endless_cloner: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.plan.frames_of", shortened)
    kinds = [NewVoices(1.2, True), NewVoices(1.2, False)]
    traces = tmp_path / "traces"

    async def measured() -> list[Row]:
        async with opened([Arm("ours", {})], lanes.TRANSPORTS, environment_of(endless_cloner), traces) as doors:
            return await suites.new_voices(doors, kinds, [1, 2], 1, ONE)

    rows = asyncio.run(measured())
    assert [(row["voices"], row["clients"]) for row in rows if row["lane"] == "websocket"] == [
        (kind, clients) for kind in ("x-vector 1.2 s", "ICL 1.2 s") for clients in ("first", 1, 2)
    ]
    for row in rows:
        assert (row["failed"], row["leaked_slots"]) == (0, 0), row
        assert row.get("to_one") is None or row["to_one"] > 0
    for transport in lanes.TRANSPORTS:
        said = [json.loads(line) for line in traces.read_text().splitlines()]
        numbers = [trace["number"] for trace in said if trace["transport"] == transport]
        assert len(set(numbers)) == len(numbers) == 2 * (1 + 2 + 4)


def test_recordings_of_two_calls_differ_and_that_of_one_is_the_same() -> None:
    voices = NewVoices(1.0, False)
    first, again, other = (new_reference(voices, number) for number in (1, 1, 2))
    assert np.array_equal(first.samples, again.samples)
    assert not np.array_equal(first.samples, other.samples)
    assert first.text
    upload = new_upload(voices, 1)
    assert upload["ref_text"] == first.text
    read = read_upload(upload["ref_audio"], Limits())
    assert len(read) == len(first.samples)  # type: ignore[arg-type]


@pytest.mark.parametrize("transport", lanes.TRANSPORTS)
def test_a_voice_that_ends_by_itself_has_not_failed(transport: str) -> None:
    async def heard() -> list[Trace]:
        async with opened([Arm("ours", {})], [transport], environment_of(DEMO_CHECKPOINT)) as (lane,):
            return (await lane.endpoint.drive(closed_loop(MODE, 1, rounds=Rounds(0, 2)))).traces

    traces = asyncio.run(heard())
    assert all(trace.is_good for trace in traces), traces
    assert any(trace.stop == "eos" and trace.bytes < trace.wanted_bytes for trace in traces)


def test_a_reply_that_ends_before_its_text_has_failed(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def heard() -> list[Trace]:
        async with opened([Arm("ours", {})], ["in_process"], environment_of(endless)) as (lane,):
            return (await lane.endpoint.drive(closed_loop(MODE, 1, Manner.TOKENS, rounds=ONE))).traces

    monkeypatch.setattr("benchmarks.plan.frames_of", lambda text: 3)
    assert "ended_before_its_text" in {trace.code for trace in asyncio.run(heard())}  # the shortest may be written


class Noted:
    """A door that notes who came to it, and with which plan."""

    def __init__(self, name: str, came: list[tuple[str, Plan]]) -> None:
        self.name = name
        self.came = came

    async def drive(self, plan: Plan) -> DriveResult:
        self.came.append((self.name, plan))
        trace = Trace(0, wanted_bytes=2, sent_ns=1, end_ns=3, chunks=[(2, 2)], outcome=Outcome.DONE)
        return DriveResult([trace])

    async def busy(self) -> int:
        return 0


def noting(*names: str) -> tuple[list[Lane], list[tuple[str, Plan]]]:
    """Lanes of so many arms, and what they note."""
    came: list[tuple[str, Plan]] = []
    return [Lane(name, "in_process", Noted(name, came)) for name in names], came


def test_arms_are_measured_in_the_order_a_b_b_a() -> None:
    doors, came = noting("a", "b")
    rows = asyncio.run(suites.closed_loop(doors, [MODE], [1, 2], 1, ONE))
    assert [row["lane"] for row in rows] == 2 * ["a in_process", "b in_process"]
    assert [name for name, _ in came] == [*"abba", *"abba"]
    doors, came = noting("a")
    asyncio.run(suites.closed_loop(doors, [MODE], [1, 2], 1, ONE))
    assert [name for name, _ in came] == ["a", "a"]


def test_a_second_pass_of_new_voices_clones_other_recordings_and_the_same_in_both_arms() -> None:
    def numbers(*names: str) -> list[tuple[str, list[int]]]:
        doors, came = noting(*names)
        asyncio.run(suites.new_voices(doors, [NewVoices(1.0, True), NewVoices(1.0, False)], [1, 2], 1, ONE))
        return [(name, [call.number for call in plan.calls]) for name, plan in came]

    noted = numbers("a", "b")
    assert [name for name, _ in noted] == 6 * [*"abba"]
    of_a, of_b = (sorted(number for who, found in noted if who == name for number in found) for name in "ab")
    assert of_a == of_b == list(range(2 * 2 * (1 + 2 + 4)))
    assert all(noted[place][1] == noted[place + 1][1] for place in range(0, len(noted), 2))
    assert [number for _, found in numbers("a") for number in found] == list(range(2 * (1 + 2 + 4)))


class Held:
    """A door behind which one slot is never given back."""

    async def busy(self) -> int:
        return 1


def test_a_slot_that_is_never_given_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SETTLED_S", 0.1)
    assert asyncio.run(Lane("ours", "in_process", Held()).leaked()) == 1  # type: ignore[arg-type]


def test_the_parts_of_the_engine_are_timed_in_both_arms(endless: Path) -> None:
    settings = settings_of(environment_of(endless))
    grid = Grid(batches=(1, 2), contexts=(64, 4096), prompts=(16,), sounds=((1, 1), (2, 2)), counted=2)
    told: list[str] = []
    tables = measure_engine([("a", settings), ("b", settings)], grid, told.append)
    for name in ("frames", "predictor", "prefill"):
        points = sum(step.startswith(f"{name}: ") for step in told)  # minutes with many rows: each says that it begins
        assert 2 * points == len(tables[name])
    assert [(row["arm"], row["batch"], row["context"]) for row in tables["frames"]] == [
        *(("a", 1, 64), ("b", 1, 64), ("a", 2, 64), ("b", 2, 64))  # no slot is 4096 long
    ]
    for name, column in (
        ("frames", "frame_ms"),
        ("predictor", "predictor_ms"),
        ("prefill", "prefill_ms"),
        ("code2wav", "code2wav_ms"),
        ("start", "seconds"),
    ):
        assert tables[name]
        assert all(row[column] > 0 for row in tables[name])


def test_the_host_is_timed_for_several_numbers_of_rows_on_one_engine(endless: Path) -> None:
    rows = measure_host(settings_of(environment_of(endless)), (1, 3))
    assert [row["rows"] for row in rows] == [1, 3]
    assert all(row["turn_p50_ms"] > 0 for row in rows)


def test_our_own_row_beside_the_peers(endless: Path) -> None:
    row = measure(Ours(str(endless), "cpu"), lengths=(2, 8), repeats=1)
    assert math.isfinite(row["ms_a_frame"])  # a difference of two times: on a busy machine it may be anything
    assert row["first_sound_ms"] > 0


def test_an_arm_of_a_setting_that_does_not_exist_is_refused() -> None:
    assert Arm.parse("eager:VOICEWRIGHT_GUARD=0,VOICEWRIGHT_BASE_PREFILLS=1").environment == {
        "VOICEWRIGHT_GUARD": "0",
        "VOICEWRIGHT_BASE_PREFILLS": "1",
    }
    with pytest.raises(SystemExit, match="VOICEWRIGHT_GARD"):
        Arm.parse("eager:VOICEWRIGHT_GARD=0")


def test_the_command_writes_its_report(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.plan.frames_of", shortened)
    words = f"suite closed --model {endless} --device cpu --slots 2 --length 256 --transports in_process"
    words += " --clients 1 --calls 1"
    words += "".join(f" --{name} {tmp_path / 'a.'}{name}" for name in ("json", "markdown", "traces"))
    monkeypatch.setattr("sys.argv", words.split())
    assert main() == 0
    report = json.loads((tmp_path / "a.json").read_text())
    assert report["weights"] == "synthetic weights"
    assert report["tables"]["closed loop"][0]["calls"] == 4
    assert (tmp_path / "a.markdown").read_text() == markdown(report)
    traces = [json.loads(line) for line in (tmp_path / "a.traces").read_text().splitlines()]
    assert len(traces) == 6  # the warm-up is there too
    assert all(sum(size for _, size in trace["chunks"]) == trace["wanted_bytes"] for trace in traces)
    assert "synthetic weights" in capsys.readouterr().out


def test_lengths_are_those_of_the_text() -> None:
    """The tests above shorten them."""
    assert all(call.frames == frames_of(call.text) for call in closed_loop(MODE, 2).calls)
