"""Tests that run short versions of the measurements of `make proof`."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
from pathlib import Path

from benchmarks.common.servers import runtime_process
from tests.conftest import FolderOf
from tests.fuzz.__main__ import FIGURE as FUZZED
from tests.proof.__main__ import ELSEWHERE, forms
from tests.proof.clients import bombs, disconnects, drain
from tests.proof.concurrency import busy_loop, reconnects, unfair_client
from tests.proof.crash import STREAMS, crash
from tests.proof.crowd import TOGETHER, crowd, overload, queue
from tests.proof.floods import floods
from tests.proof.idle_sockets import SPARE, SPEAKERS, measure_idle_sockets
from tests.proof.memory import short_of_memory
from tests.support.app import running_app
from tests.support.promises import PAGE, read_promises, record_figures
from tests.support.runtime_server import FREED_FRAMES

THREADS = 2  # Number of threads (decoder and encoder) that start on demand and do not end.


async def test_mixed_load_of_all_client_kinds_leaks_no_resources(folder_of: FolderOf) -> None:
    assert TOGETHER > 4
    async with asyncio.timeout(300):
        model = str(folder_of("brief", "custom_voice"))
        async with runtime_process(["--model", model, "--max-slots", "4"], {"VOICEWRIGHT_THREADS": "1"}) as runtime:
            report = await crowd(runtime, 200)
        first, last = report.held[0], report.held[-1]
        assert sum(report.ends.values()) == 200
        assert set(report.ends) == {"polite", "cancelled", "hung up", "slow"}
        assert [held.busy for held in report.held] == [0] * 11
        assert last.threads <= first.threads + THREADS
        assert last.files <= first.files + 2
        assert last.resident_kib - report.held[2].resident_kib < 32 * 1024


async def test_fourfold_overload_is_partly_served_and_otherwise_refused_immediately(folder_of: FolderOf) -> None:
    async with asyncio.timeout(300):
        arguments = ["--model", str(folder_of("brief", "custom_voice")), "--max-slots", "2"]
        settings = {"VOICEWRIGHT_THREADS": "1", "VOICEWRIGHT_MAX_WAITING": "0"}
        async with runtime_process(arguments, {"VOICEWRIGHT_THREADS": "1"}) as runtime:
            assert "; 0 after a wait; " in await queue(runtime, 2, 4.0)
        async with runtime_process(arguments, settings) as runtime:
            report = await overload(runtime, 2, 5.0)
        for load in (report.overload, report.pressed):
            assert load.served_ms
            assert load.estimates == len(load.refused_ms)
        assert len(report.overload.served_ms) > 5
        assert len(report.pressed.refused_ms) > 5
        # The limit is generous, because clients and runtime share the cores of this machine with other processes.
        assert statistics.median(report.pressed.refused_ms) < max(50, statistics.median(report.alone.served_ms))


async def test_killed_runtime_is_reported_to_ten_streams_and_restarts(folder_of: FolderOf) -> None:
    model = str(folder_of("brief", "custom_voice"))
    with running_app(["--model", model, "--max-slots", str(STREAMS)]) as app:
        report = await asyncio.wait_for(crash(app), 300)
    assert len(report.notified_s) == STREAMS
    assert max(report.notified_s) < 2
    assert report.spoken_s - report.ready_s < 2


def test_recorded_result_replaces_only_its_own_entry(tmp_path: Path) -> None:
    path = tmp_path / "artifacts" / "proof.json"
    record_figures({"T1": "1 of 7", "E11": "2 of 7"}, path)
    record_figures({"T1": "7 of 7"}, path)
    assert json.loads(path.read_text("utf-8")) == {"T1": "7 of 7", "E11": "2 of 7"}


async def test_disconnects_decompression_bombs_and_sigterm_are_measured(folder_of: FolderOf) -> None:
    async with asyncio.timeout(300):
        model = str(folder_of("brief", "base"))
        async with runtime_process(["--model", model, "--max-slots", "4"], {"VOICEWRIGHT_THREADS": "1"}) as runtime:
            assert (await bombs(runtime, 4)).startswith("4 recordings of ")
        model = str(folder_of("brief", "custom_voice"))
        async with runtime_process(["--model", model, "--max-slots", "4"], {"VOICEWRIGHT_THREADS": "1"}) as runtime:
            report = await disconnects(runtime, 5)
            assert (len(report.freed_ms), len(report.cancelled_ms), report.after) == (5, 5, 0)
            assert max(report.wasted) <= FREED_FRAMES
            assert "3 finished" in await drain(runtime, 3)


async def test_idle_sockets_are_accepted_up_to_the_limit_and_refused_above(folder_of: FolderOf) -> None:
    async with asyncio.timeout(300):
        arguments = ["--model", str(folder_of("brief", "custom_voice")), "--max-slots", str(SPEAKERS)]
        settings = {"VOICEWRIGHT_THREADS": "1", "VOICEWRIGHT_MAX_CONNECTIONS": str(30 + SPEAKERS + SPARE)}
        async with runtime_process(arguments, settings) as runtime:
            figure = await measure_idle_sockets(runtime, 30, times=1)
        assert figure.startswith("30 idle sockets")
        assert "20 of 20 refused" in figure


async def test_clients_are_served_after_reconnects_and_next_to_an_unfair_client(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    async with asyncio.timeout(300):
        arguments = ["--model", str(folder_of("brief", "custom_voice")), "--max-slots", "2"]
        settings = {"VOICEWRIGHT_THREADS": "1", "VOICEWRIGHT_MAX_WAITING": "3", "VOICEWRIGHT_VOICES": str(tmp_path)}
        async with runtime_process(arguments, settings) as runtime:
            assert "12 of 12 replies bitwise correct" in await reconnects(runtime, 12)
            figure = await unfair_client(runtime, running=5, seconds=2.0)
            assert re.search(r"next to 5 requests of one client: (\d+) of \1 requests heard", figure), figure


async def test_event_loop_delay_is_measured_during_speech_and_voice_uploads(
    folder_of: FolderOf, tmp_path: Path
) -> None:
    async with asyncio.timeout(300):
        arguments = ["--model", str(folder_of("brief", "custom_voice")), "--max-slots", "64"]
        settings = {"VOICEWRIGHT_THREADS": "1", "VOICEWRIGHT_VOICES": str(tmp_path)}
        async with runtime_process(arguments, settings) as runtime:
            figure = await busy_loop(runtime, 3.0)
        assert all(int(kept) for kept in re.findall(r"with (\d+) voices", figure)), figure


async def test_studio_and_runtime_serve_another_client_during_floods(folder_of: FolderOf) -> None:
    async with asyncio.timeout(300):
        arguments = ["--model", str(folder_of("brief", "custom_voice")), "--max-slots", "4"]
        async with runtime_process(arguments, {"VOICEWRIGHT_THREADS": "1"}) as runtime:
            figure = await floods(runtime, 3, ("headers", "pings", "messages"))
        assert figure.count("(runtime)") == figure.count("(studio)") == 3


async def test_out_of_memory_error_ends_only_the_affected_request(folder_of: FolderOf) -> None:
    async with asyncio.timeout(300):
        arguments = ["--model", str(folder_of("brief", "base")), "--max-slots", "8"]
        async with runtime_process(arguments, {"VOICEWRIGHT_THREADS": "1"}) as runtime:
            assert (await short_of_memory(runtime, 1)).startswith("1 of 1 requests")


def test_every_promise_and_measurement_has_a_recorded_result(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    measured = re.findall(r"^\| ([A-Z][a-z][\w ]*) \|", page.split("\n## Measurements\n")[1], re.MULTILINE)
    assert {*measured, *read_promises()} == {*forms(tmp_path, short=True), *ELSEWHERE, FUZZED, "Soak"}
