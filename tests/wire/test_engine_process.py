"""Tests for a runtime whose engine runs in a separate process."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.common.servers import with_child_processes
from runtime.exits import Exit
from runtime.settings import EngineSettings, Limits, ServerSettings
from runtime.voices.voice_file import read_voice
from tests.conftest import FolderOf
from tests.support.audio_files import audio_file
from tests.support.processes import runs
from tests.support.runtime_server import RunningServer, running_server
from tests.support.signals import voice
from tests.support.speech_client import same_sound, speak_text, talk
from tests.support.timeouts import TEST_TIMEOUT_S, becomes, until
from tests.wire.test_process import ROOT, start

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks the kernel about processes")

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}
WORDS = "A few words that could be said here."
ONE_SLOT = EngineSettings(threads=1, max_slots=1, max_waiting=0, max_model_len=256)
OWN = {"VOICEWRIGHT_ENGINE_PROCESS": "own"}


@pytest.fixture(scope="module")
def apart(folder_of: FolderOf) -> Iterator[RunningServer]:
    """Run a server like the fixture `server`, but with the engine in a separate process."""
    folders = [folder_of("brief", mode) for mode in ("custom_voice", "voice_design", "base")]
    with running_server(*folders, engine=EngineSettings(threads=1, max_slots=4), apart=True) as running:
        yield running


def post(server: RunningServer, text: str = "Hello.", **fields: Any) -> httpx.Response:
    body = {"input": text, "response_format": "pcm", "seed": 11, "max_frames": 12, **fields}
    return httpx.post(f"{server.http}/v1/audio/speech", json=body)


def recording(seconds: float) -> bytes:
    return audio_file(voice(seconds, 5))


# --- Tests of speech with a separate engine process.


def test_engine_runs_in_a_child_process_and_only_the_child_loads_torch(folder_of: FolderOf) -> None:
    with started("--model", str(folder_of("brief", "custom_voice"))) as (child, engine, url):
        assert httpx.post(f"{url}/v1/audio/speech", json={"input": "Hello.", "max_frames": 2}).status_code == 200
        assert "libtorch" in Path(f"/proc/{engine}/maps").read_text()
        assert "libtorch" not in Path(f"/proc/{child.pid}/maps").read_text()


@pytest.mark.parametrize("fields", [{}, {"stream": False, "response_format": "wav"}], ids=["pcm", "wav"])
def test_seed_gives_the_same_audio_over_http(
    server: RunningServer, apart: RunningServer, fields: dict[str, Any]
) -> None:
    here, there = (post(one, max_frames=20, **fields) for one in (server, apart))
    assert (here.status_code, there.status_code) == (200, 200)
    assert len(here.content) >= 20 * 3840
    assert same_sound(here.content, there.content)
    assert here.headers["x-seed"] == there.headers["x-seed"]


async def test_seed_gives_the_same_audio_over_the_websocket(server: RunningServer, apart: RunningServer) -> None:
    takes = [await speak_text(one.socket, "Good morning.", **VOICE) for one in (server, apart)]
    assert same_sound(*(take.pcm for take in takes))
    starts, ends = [take.start for take in takes], [take.end for take in takes]
    assert starts[0].keys() == starts[1].keys()
    assert ends[0].keys() == ends[1].keys()
    assert ends[0]["metrics"].keys() == ends[1]["metrics"].keys()
    assert (ends[0]["type"], ends[0]["total_bytes"]) == (ends[1]["type"], ends[1]["total_bytes"])


def test_ten_second_recording_is_sent_to_the_engine_process(server: RunningServer, apart: RunningServer) -> None:
    sound = "data:audio/wav;base64," + base64.b64encode(recording(10.0)).decode()
    replies = [post(one, task_type="Base", ref_audio=sound, ref_text=WORDS) for one in (server, apart)]
    assert [reply.status_code for reply in replies] == [200, 200]
    assert same_sound(*(reply.content for reply in replies))


def test_stored_voice_speaks_and_its_prompt_is_saved(apart: RunningServer) -> None:
    with httpx.Client(base_url=apart.http) as client:
        form = {"name": "Clara", "consent": "I am Clara and I allow this.", "ref_text": WORDS}
        made = client.post("/v1/audio/voices", data=form, files={"audio_sample": recording(4.0)}).json()
        file = f"/v1/audio/voices/{made['id']}/file"
        prompts = until(lambda: read_voice(client.get(file).content).prompts)
        (base,) = [card for card in client.get("/v1/models").json()["data"] if "base" in card["modes"]]
        assert list(prompts) == [base["fingerprint"]]
        assert prompts[base["fingerprint"]].codes is not None
        by_prompt = post(apart, voice="Clara")
        assert by_prompt.status_code == 200
        assert any(by_prompt.content)


# --- Tests of requests that the server refuses.


@pytest.fixture(scope="module")
def narrow(folder_of: FolderOf) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Run two servers with one slot and no queue, and yield both.

    The engine of the second server is in a separate process.
    """
    folder = folder_of("brief", "custom_voice")
    with running_server(folder, engine=ONE_SLOT) as one, running_server(folder, engine=ONE_SLOT, apart=True) as two:
        yield one, two


def refusal_of(reply: httpx.Response) -> tuple[int, dict[str, Any], bool]:
    """Return the status, the error without its estimated wait, and True if Retry-After is set."""
    error = reply.json()["error"]
    return reply.status_code, without_estimate(error), "retry-after" in reply.headers


def without_estimate(error: dict[str, Any]) -> dict[str, Any]:
    """Return an error without its estimated waiting time."""
    facts = {name: fact for name, fact in error.get("facts", {}).items() if name != "retry_after_s"}
    return {
        **error,
        "message": re.sub(r"[\d.]+ s\b", "N s", error["message"]),
        "facts": facts,
        "retry_after_s": "retry_after_s" in error,
    }


def counted(server: RunningServer) -> tuple[dict[str, float], dict[str, float]]:
    """Return the number of refusals by error code, and of requests by outcome."""
    page = server.metrics()
    return (
        {code: float(n) for code, n in re.findall(r'^voicewright_refusals_total{code="(\w+)"} (\S+)', page, re.M)},
        {name: float(n) for name, n in re.findall(r"^voicewright_requests_total{(.*)} (\S+)", page, re.M)},
    )


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("empty_text", {"input": " "}),
        ("does_not_fit", {"max_frames": 300}),
        ("does_not_fit", {"max_frames": 300, "stream": False, "response_format": "wav"}),
        ("does_not_fit", {"max_frames": 300, "stream_format": "sse"}),
        ("does_not_fit", {"input": "Many words. " * 40, "split": "off", "max_frames": 200}),
        ("unknown_voice", {"voice": "nobody"}),
        ("model_not_loaded", {"task_type": "VoiceDesign", "instructions": "Calm."}),
    ],
)
def test_http_refusal_is_identical_with_a_separate_engine_process(
    narrow: tuple[RunningServer, RunningServer], code: str, fields: dict[str, Any]
) -> None:
    before = [counted(server) for server in narrow]
    here, there = (post(server, **fields) for server in narrow)
    assert refusal_of(here) == refusal_of(there)
    assert here.json()["error"]["code"] == code
    for server, (refusals, requests) in zip(narrow, before, strict=True):
        assert counted(server) == ({**refusals, code: refusals.get(code, 0) + 1}, requests)


# --- Tests of the end of the server and of the engine process.


def heard_at_the_end(server: RunningServer, number: signal.Signals) -> tuple[list[Any], list[tuple[int, str]]]:
    """Send a signal to the engine process, and return the last messages of two clients.

    One client receives speech and the other is idle.
    """
    assert server.engine_pid is not None
    pid = server.engine_pid

    async def scenario() -> tuple[list[Any], list[tuple[int, str]]]:
        async with talk(server.socket, **LONG) as session, talk(server.socket) as idle:
            await session.send_text("Speak for a long time.")
            await session.first_audio()
            os.kill(pid, number)
            errors = [await session.receive_until("error"), await idle.receive_until("error")]
            return (
                [(error["code"], error["context_id"]) for error in errors],
                [await session.closed(), await idle.closed()],
            )

    return asyncio.run(scenario())


TOLD = ([("engine_dead", "default"), ("engine_dead", None)], [(1011, "engine_dead")] * 2)


@pytest.mark.logs_errors
def test_killed_engine_is_reported_to_all_requests_and_ends_the_server(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice"), apart=True) as server:
        assert heard_at_the_end(server, signal.SIGKILL) == TOLD
        until(lambda: server.exit_status is not None)
        assert server.exit_status == Exit.ENGINE_DIED


@pytest.mark.slow
@pytest.mark.logs_errors
def test_stopped_engine_is_detected_and_killed(folder_of: FolderOf, caplog: pytest.LogCaptureFixture) -> None:
    settings = ServerSettings(frame_s=2)
    patient = Limits(config_s=TEST_TIMEOUT_S)  # The server waits for a client that sends nothing.
    with running_server(folder_of("brief", "custom_voice"), server=settings, limits=patient, apart=True) as server:
        assert heard_at_the_end(server, signal.SIGSTOP) == TOLD
        until(lambda: server.exit_status is not None)
        assert server.exit_status == Exit.FRAME_OVERDUE
        assert server.engine_pid is not None
        assert not runs(server.engine_pid)
    assert any(str(server.engine_pid) in record.getMessage() for record in caplog.records)


@pytest.mark.slow
async def test_engine_ignores_the_signals_that_end_the_server(folder_of: FolderOf) -> None:
    """A service manager sends SIGTERM to both processes.

    The engine must ignore the signal, so that running requests finish.
    """
    with running_server(folder_of("brief", "custom_voice"), apart=True) as server:
        assert server.engine_pid is not None

        async with talk(server.socket, **{**VOICE, "max_frames": 40}) as session:
            await session.send_text("Let me finish.")
            await session.first_audio()
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(server.engine_pid or 0, number)
            assert (await session.receive_take()).end["type"] == "audio.done"
        pid = server.engine_pid
    assert not runs(pid)  # The server has closed the engine process.


@contextmanager
def loading(*arguments: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a runtime in its own process group.

    Yields:
        The runtime process and the process ID of its engine.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "runtime.cli", "runtime", *arguments, "--port", "0"],
        cwd=ROOT,
        env={**os.environ, "VOICEWRIGHT_THREADS": "1", **OWN, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        yield child, until(lambda: with_child_processes(child.pid)[1:])[0]
    finally:
        child.kill()
        child.communicate()


@contextmanager
def started(*arguments: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """Start a runtime, and yield it when it is ready.

    Yields:
        The runtime process, the process ID of its engine, and the URL of the server.
    """
    with loading(*arguments, **settings) as (child, engine):
        assert child.stdout is not None
        yield child, engine, child.stdout.readline().rpartition(" ")[2].strip()


async def test_killed_server_leaves_no_engine_process(folder_of: FolderOf) -> None:
    with started("--model", str(folder_of("brief", "custom_voice"))) as (child, engine, url):
        async with talk(url.replace("http", "ws") + "/v1/audio/speech/stream", **LONG) as session:
            await session.send_text("Speak for a long time.")
            await session.first_audio()
            assert runs(engine)
            child.kill()
            await becomes(lambda: not runs(engine))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_server_that_ends_while_loading_leaves_no_engine_process(
    folder_of: FolderOf, tmp_path: Path, number: signal.Signals
) -> None:
    """The checkpoint's config.json is a pipe without a writer, so loading never ends."""
    folder = Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "endless"))
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with loading("--model", str(folder)) as (child, engine):
        until(lambda: "libtorch" in Path(f"/proc/{engine}/maps").read_text())
        child.send_signal(number)
        assert child.wait(60) == (0 if number == signal.SIGTERM else -number)
        until(lambda: not runs(engine))
        assert child.stderr is not None
        assert child.stderr.read() == ""


@pytest.mark.parametrize(
    "action",
    [lambda pid: os.kill(pid, signal.SIGTERM), lambda pid: os.killpg(pid, signal.SIGINT)],
    ids=["TERM", "Ctrl-C"],
)
@pytest.mark.slow
async def test_signal_ends_both_processes_in_order_after_running_requests(folder_of: FolderOf, action: Any) -> None:
    folder = str(folder_of("brief", "custom_voice"))
    with started("--model", folder, VOICEWRIGHT_DRAIN_S="240") as (child, engine, url):
        async with talk(url.replace("http", "ws") + "/v1/audio/speech/stream", **VOICE) as session:
            await session.send_text("Let me finish.")
            await session.first_audio()
            action(child.pid)
            end = (await session.receive_take()).end
            assert (end["type"], end["metrics"]["frames"]) == ("audio.done", 12)
            assert await session.closed() == (1001, "draining")
        assert child.wait(60) == 0
        assert not runs(engine)
        assert child.stderr is not None
        assert child.stderr.read() == ""


@pytest.mark.slow
def test_ctrl_c_during_engine_start_ends_both_processes_without_output(folder_of: FolderOf) -> None:
    with loading("--model", str(folder_of("brief", "custom_voice"))) as (child, engine):
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(60) == 0
        until(lambda: not runs(engine))
        assert child.stderr is not None
        assert child.stderr.read() == ""


# --- Tests of the start of a server with an engine process.


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_checkpoint_load_error_is_identical_with_and_without_an_engine_process(
    folder_of: FolderOf, tmp_path: Path, damage: str
) -> None:
    folder = Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "broken"))
    weights = folder / "model.safetensors"
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(b"\x08" + bytes(40))
    said = []
    for choice in ("shared", "own"):
        child = start("--model", str(folder), "--port", "0", VOICEWRIGHT_ENGINE_PROCESS=choice)
        _, errors = child.communicate(timeout=60)
        said.append((child.returncode, errors))
    assert said[0] == said[1]
    assert said[0][0] == Exit.BAD_INPUT
    assert len(said[0][1].splitlines()) == 1


@pytest.mark.slow
def test_engine_uses_the_same_program_from_any_working_directory(folder_of: FolderOf, tmp_path: Path) -> None:
    """A folder ``runtime`` in the working directory must not be imported."""
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "__init__.py").write_text("raise SystemExit('somebody else')")
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from runtime.cli import main; sys.exit(main())"
    words = ("runtime", "--model", str(folder_of("brief", "custom_voice")), "--port", "0")
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", program, *words],
        cwd=tmp_path,
        env={**os.environ, "VOICEWRIGHT_THREADS": "1", **OWN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert "ready" in child.stdout.readline()
    finally:
        child.terminate()
        _, errors = child.communicate(timeout=60)
    assert errors == ""
