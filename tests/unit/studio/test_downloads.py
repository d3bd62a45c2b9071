"""Tests for checkpoint downloads: status, pause, resume, failure and activation."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.settings import DEMO_CHECKPOINT
from studio.downloads import FILE, CheckpointDownload
from studio.fetching import Download, DownloadPart, DownloadRecord, Plan
from studio.routes.host import HostRoutes
from studio.routes.real_voices import RealVoiceRoutes, build_plan
from studio.runtimes.supervisor import ChildRuntime
from studio.settings import StoreSettings, StudioSettings
from tests.conftest import FolderOf
from tests.support.hub import Hub, serving
from tests.support.timeouts import TEST_TIMEOUT_S, becomes
from tests.unit.studio.serving import served

PATH = "/studio/host/downloads"
CUSTOM = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"
BASE = "Qwen/Qwen3-TTS-12Hz-0.6B-Base"
READY = ("tests.unit.studio.stand_in", "ready")
# Number of bytes, of nearly two million, after which the hub pauses a download so that tests can observe it.
HELD_AT = 600_000

DownloadStatus = dict[str, Any]


@asynccontextmanager
async def studio(
    folder: Path,
    args: list[str] | None = None,
    command: tuple[str, ...] = READY,
    machine: dict[str, Any] | None = None,
    plan: Plan | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[httpx.AsyncClient, ChildRuntime]]:
    runtime = ChildRuntime(["--model", str(DEMO_CHECKPOINT)] if args is None else args, command)

    async def cards() -> list[dict[str, Any]]:
        return [{"id": DEMO_CHECKPOINT.name, "modes": ["custom_voice", "voice_design", "base"]}]

    downloads = CheckpointDownload(runtime, folder, cards)
    kwargs, plan = StudioSettings(**settings), plan or Plan()
    plan.latest = machine
    routes = [
        *RealVoiceRoutes(runtime, kwargs, downloads, plan).routes(),
        *HostRoutes(runtime, kwargs, {}, downloads.forget).routes(),
    ]
    supervision = asyncio.create_task(runtime.run())
    async with (
        served(routes) as address,
        downloads.running(),
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        yield client, runtime
    supervision.cancel()
    await asyncio.gather(supervision, return_exceptions=True)


async def until(client: httpx.AsyncClient, holds: Callable[[DownloadStatus], bool]) -> DownloadStatus:
    async with asyncio.timeout(TEST_TIMEOUT_S):
        while True:
            state: DownloadStatus = (await client.get(PATH)).json()["download"]
            if holds(state):
                return state
            await asyncio.sleep(0.02)


def is_in(*states: str) -> Callable[[DownloadStatus], bool]:
    return lambda state: state["state"] in states


@pytest.fixture
def hub(folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folders = {CUSTOM: folder_of("brief", "custom_voice"), BASE: folder_of("brief", "base")}
    with serving(Hub(folders)) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        yield running


async def test_failed_download_plan_is_not_retried_immediately() -> None:
    """The page polls every second, and each attempt would start a process that imports torch."""
    plan = Plan(("json.tool", "--no-such-argument"))
    plan.update(())
    assert plan.is_running
    await becomes(lambda: not plan.is_running)
    plan.update(())
    assert not plan.is_running
    assert plan.latest is None
    plan.update((), changed_at=time.monotonic())
    assert plan.is_running, "what is here has changed"
    await plan.aclose()


def test_progress_of_an_unknown_repository_is_ignored() -> None:
    download = Download(DownloadRecord(parts=[DownloadPart(CUSTOM)]))
    for name, got in ((CUSTOM, 5), (BASE, 7)):
        download._on_event({"event": "progress", "id": name, "step": "fetching", "got": got, "of": 9})
    assert download.record.parts == [DownloadPart(CUSTOM, got=5, of=9, step="fetching")]


async def test_download_plan_is_computed_again_after_a_download(hub: Hub, tmp_path: Path) -> None:
    hub.rate, hub.hold_at = 400_000, HELD_AT
    plan = Plan(("json.tool", "--no-such-argument"))  # The command fails, and the latest plan is kept.

    async def is_asking() -> bool:
        return bool((await client.get(PATH, params={"plan": 1})).json()["plan"]["asking"])

    async with studio(tmp_path, machine=machine_of([], 1.0), plan=plan) as (client, _):
        assert await is_asking()
        await becomes(lambda: not plan.is_running)
        assert not await is_asking()
        await client.post(PATH, json={"models": [CUSTOM]})
        await until(client, lambda state: state["got"] > 200_000)
        assert not await is_asking(), "the page shows the progress instead"
        hub.rate = hub.hold_at = None
        await until(client, is_in("done"))
        assert await is_asking(), "the files are here now"
        await plan.aclose()


async def test_paused_download_resumes_after_a_restart_and_switches_checkpoints(hub: Hub, tmp_path: Path) -> None:
    hub.rate, hub.hold_at = 300_000, HELD_AT
    async with studio(tmp_path) as (client, runtime):
        began = await client.post(PATH, json={"models": [CUSTOM]})
        assert (began.status_code, began.json()["download"]["state"]) == (202, "fetching")
        again = await client.post(PATH, json={"models": [BASE]})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "out_of_order")
        await until(client, lambda state: state["got"] > 200_000)
        paused = (await client.post(f"{PATH}/pause")).json()["download"]
        assert paused["state"] == "paused"
        assert runtime.args == ("--model", str(DEMO_CHECKPOINT))
        before, hub.hold_at = -1, None
        while before != hub.sent:  # The hub still sends the pieces that it has started.
            before = hub.sent
            await asyncio.sleep(0.3)
        assert hub.sent < paused["of"], "nothing is fetched meanwhile"
        await client.post(f"{PATH}/resume")
        await until(client, lambda state: state["got"] > paused["got"])
    # The studio stops during the download. The next studio reports the download as paused and can resume it.
    hub.rate = None
    async with studio(tmp_path) as (client, runtime):
        assert (await until(client, is_in("paused")))["got"] > 200_000
        hub.asked.clear()
        await client.post(f"{PATH}/resume")
        done = await until(client, is_in("done", "failed"))
        assert (done["state"], done["problem"], done["can_go_back"]) == ("done", None, True)
        assert hub.weights_asked()[0].startswith("bytes="), "from where it stopped"
        rest = [word for mode in ("voice_design", "base") for word in ("--model", f"{mode}={DEMO_CHECKPOINT}")]
        assert runtime.args == ("--model", CUSTOM, *rest), "what it does not serve is served as before"
    # At the next start, the downloaded checkpoint is served again, unless the command line names other checkpoints.
    async with studio(tmp_path, []) as (client, runtime):
        await until(client, lambda _: runtime.args[:2] == ("--model", CUSTOM))
        await client.post(f"{PATH}/back")
        await until(client, lambda _: runtime.args[:2] == ("--model", str(DEMO_CHECKPOINT)))
    async with studio(tmp_path, []) as (client, runtime):
        assert (await until(client, is_in("none")))["parts"] == []
        assert runtime.args == ()


@pytest.mark.slow
async def test_failed_download_reports_its_reason_and_can_be_retried(hub: Hub, tmp_path: Path) -> None:
    async with studio(tmp_path) as (client, runtime):
        serves = runtime.args
        hub.status = 503
        await client.post(PATH, json={"models": [BASE]})
        failed = await until(client, is_in("failed"))
        assert failed["problem"]["code"] == "hub_unreachable"
        hub.status = None
        await client.post(f"{PATH}/resume")
        assert (await until(client, is_in("done", "failed")))["problem"] is None
        # If a checkpoint does not exist, the runtime keeps the checkpoints of the previous download.
        await client.post(PATH, json={"models": ["nobody/nothing"]})
        wrong = await until(client, is_in("failed"))
        assert wrong["problem"]["code"] == "checkpoint_missing"
        assert runtime.args != serves
        assert (await client.delete(PATH)).json()["download"]["state"] == "done"


@pytest.mark.slow
async def test_current_checkpoint_is_kept_if_the_downloaded_checkpoint_cannot_be_loaded(
    hub: Hub, tmp_path: Path
) -> None:
    async with studio(tmp_path, command=("tests.unit.studio.stand_in", "refuse")) as (client, runtime):
        serves = runtime.args
        await client.post(PATH, json={"models": [BASE]})
        failed = await until(client, is_in("failed"))
        assert failed["problem"]["code"] == "not_changed"
        assert "the checkpoint is missing" in failed["problem"]["message"]
        assert runtime.args == serves


async def test_stopped_download_ends_immediately_and_keeps_fetched_files(hub: Hub, tmp_path: Path) -> None:
    hub.rate, hub.hold_at = 200_000, HELD_AT  # At this rate, the download would not end during the test.
    async with studio(tmp_path) as (client, _):
        await client.post(PATH, json={"models": [BASE]})
        await until(client, lambda state: state["got"] > 100_000)
        assert (await client.delete(PATH)).json()["download"] == {
            **{"state": "none", "parts": [], "got": 0, "of": 0, "rate": None},
            **{"change": None, "problem": None, "can_go_back": False},
        }
        assert list((tmp_path / "home").rglob("*.incomplete"))
        assert (await client.delete(PATH)).status_code == 409


@pytest.mark.parametrize(
    "models", [None, [], "a/b", ["a"], ["/a/b"], ["../b"], ["a/b", "a/b"], ["--x/y"], ["a/b/c"], ["a/b"] * 4, [3]]
)
async def test_invalid_list_of_hub_ids_is_refused(tmp_path: Path, models: object) -> None:
    async with studio(tmp_path, command=("tests.unit.studio.stand_in", "loading")) as (client, _):
        answer = await client.post(PATH, json={"models": models})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "models")


async def test_download_routes_are_for_the_host_only(tmp_path: Path) -> None:
    each = StoreSettings(visitors="each")
    async with studio(tmp_path, store=each) as (client, _):
        for method, path in (("GET", ""), ("POST", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/back")):
            answer = await client.request(method, PATH + path, json={})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_only")


def test_unreadable_download_state_is_ignored(tmp_path: Path) -> None:
    for text in ("", "{}", "[]", json.dumps({"state": "strange", "parts": []}), '{"state": "paused", "parts": [{}]}'):
        (tmp_path / FILE).write_text(text)
        downloads = CheckpointDownload(ChildRuntime([]), tmp_path, lambda: asyncio.sleep(0, []))
        assert downloads.status()["state"] == "none"


def offer(name: str, memory: float, rtf: float, held: int = 0) -> dict[str, Any]:
    missing = {"same": 700, name: 2000 - held}
    bits = [{"weights": word, "memory": memory / by, "rtf": rtf / by} for word, by in (("off", 1), ("int8", 2))]
    return {"id": f"Qwen/Qwen3-TTS-12Hz-{name}", "shared": 2.0, "bits": bits, "chosen": "off", "missing": missing}


def machine_of(offers: list[dict[str, Any]], total: float) -> dict[str, Any]:
    return {"quantize": "auto", "total": total, "room": 1, "problem": None, "offers": offers}


def plan_for(offers: list[dict[str, Any]], total: float) -> dict[str, Any]:
    return build_plan(machine_of(offers, total))


NAMES = ["0.6B-CustomVoice", "1.7B-CustomVoice", "1.7B-VoiceDesign", "0.6B-Base", "1.7B-Base"]


def suggested(plan: dict[str, Any]) -> list[str]:
    return [one["id"].removeprefix("Qwen/Qwen3-TTS-12Hz-") for one in plan["offers"] if one["suggested"]]


def test_size_of_the_offered_checkpoints_depends_on_the_speed_of_the_machine() -> None:
    fast = plan_for([offer(name, 8.0, 0.1) for name in NAMES], total=80.0)
    assert suggested(fast) == ["1.7B-CustomVoice", "1.7B-VoiceDesign", "1.7B-Base"]
    slow = plan_for([offer(name, 8.0, 4.0) for name in NAMES], total=80.0)
    assert suggested(slow) == ["0.6B-CustomVoice", "0.6B-Base"]
    narrow = plan_for([offer(name, 8.0, 4.0) for name in NAMES], total=9.0)
    assert suggested(narrow) == ["0.6B-CustomVoice"]
    assert [one["fits"] for one in plan_for([offer(name, 8.0, 4.0) for name in NAMES], total=7.0)["offers"]] == [
        False
    ] * 5


def test_download_size_counts_missing_files_with_a_table_as_fallback() -> None:
    plan = plan_for([offer(name, 8.0, 1.0, held=500) for name in NAMES], total=80.0)
    assert {(one["download"], one["common"]) for one in plan["offers"]} == {(2200, 700)}
    assert plan["sizes"] == "hub"
    table = build_plan(None)
    assert table["sizes"] == "table"
    assert [round(one["download"] / 1e9, 1) for one in table["offers"]] == [2.5, 4.5, 4.5, 2.5, 4.5]
    assert all(one["rtf"] is None and one["fits"] is None for one in table["offers"])


async def test_quantization_chosen_by_the_host_applies_to_the_downloaded_checkpoint(hub: Hub, tmp_path: Path) -> None:
    async with studio(tmp_path) as (client, runtime):
        await client.post(PATH, json={"models": [CUSTOM], "quantize": "int8"})
        await until(client, is_in("done", "failed"))
        assert runtime.args[:2] == ("--model", CUSTOM)
        assert runtime.args[-1] == "--quantize=int8"
    async with studio(tmp_path, []) as (client, runtime):
        await until(client, lambda _: runtime.args[:2] == ("--model", CUSTOM))
        assert runtime.args[-1] == "--quantize=int8", "at the next start too"
        await client.post(f"{PATH}/back")
        await until(client, lambda _: runtime.args[:2] == ("--model", str(DEMO_CHECKPOINT)))
        assert not any("quantize" in word for word in runtime.args)


async def test_checkpoints_that_exceed_the_memory_with_their_quantization_are_refused(tmp_path: Path) -> None:
    machine = machine_of([offer(name, 8e9, 0.1) for name in NAMES], total=10e9)
    loading = ("tests.unit.studio.stand_in", "loading")
    async with studio(tmp_path, command=loading, machine=machine) as (client, _):
        wanted = {"models": [CUSTOM, BASE], "quantize": "float16"}
        assert (await client.post(PATH, json=wanted)).json()["error"]["param"] == "quantize"
        for quantize in ({"quantize": "off"}, {"quantize": ""}):
            answer = await client.post(PATH, json=wanted | quantize)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "memory_too_small")
            assert "16.0 GB" in answer.json()["error"]["message"]
        assert (await client.get(PATH)).json()["download"]["state"] == "none"
        assert (await client.post(PATH, json=wanted | {"quantize": "int8"})).status_code == 202


def test_download_plan_lists_all_quantizations_and_names_the_selected_quantization() -> None:
    machine = machine_of([offer(name, 8.0, 1.6) | {"chosen": "int8"} for name in NAMES], total=7.0)
    one = build_plan(machine)["offers"][0]
    assert (one["chosen"], one["rtf"], one["memory"], one["fits"]) == ("int8", 0.8, 4.0, True)
    assert [(kind["weights"], kind["fits"]) for kind in one["bits"]] == [("off", False), ("int8", True)]
