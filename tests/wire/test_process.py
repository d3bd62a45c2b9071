"""Tests for the runtime process: start, readiness, exit and HTTP routes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import PROTOCOL, Talk, speak_text, talk
from tests.support.timeouts import TEST_TIMEOUT_S, until

ROOT = Path(__file__).resolve().parents[2]
LONG = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}


def start(*arguments: str, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runtime.cli", "runtime", *arguments],
        cwd=ROOT,
        env={**os.environ, "VOICEWRIGHT_THREADS": "1", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def process(folder_of: FolderOf) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a runtime process, and yield the process and its URL."""
    child = start("--model", str(folder_of("brief", "custom_voice")), "--port", "0", VOICEWRIGHT_DRAIN_S="0.5")
    assert child.stdout is not None
    line = child.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    assert found, (line, child.stderr and child.stderr.read())
    try:
        yield child, found[0]
    finally:
        child.kill()
        child.communicate()


def test_health_and_ready_routes_return_the_server_state(server: RunningServer) -> None:
    server.wait_until_idle()  # Requests of earlier tests may still be running.
    for method in ("GET", "HEAD"):
        assert httpx.request(method, f"{server.http}/health").status_code == 200
        assert httpx.request(method, f"{server.http}/ready").status_code == 200
    assert httpx.get(f"{server.http}/health").json() == {"status": "ok"}
    assert httpx.get(f"{server.http}/ready").json() == {
        "status": "ready",
        **{"slots": 12, "active": 0, "waiting": 0, "waiting_for_text": 0, "short_of_text": 0, "ports": {}},
    }


def test_http_and_session_list_the_same_models(server: RunningServer) -> None:
    reply = httpx.get(f"{server.http}/v1/models").json()
    assert reply["object"] == "list"
    assert sorted(mode for card in reply["data"] for mode in card["modes"]) == ["base", "custom_voice", "voice_design"]
    assert set(reply["data"][0]) == {
        "id", "object", "created", "owned_by", "modes", "speakers", "languages", "layouts", "takes_instruct", "speaks",
        "styles_voices", "grafts_voices", "sample_rate", "samples_per_frame", "part_chars", "device", "dtype",
        "adapters", "fingerprint", "loaded", "slots", "sampling",
    }  # fmt: skip
    assert not any("/" in card["id"] for card in reply["data"])  # The ID of a model is a name and never a path.
    assert sum(card["slots"] for card in reply["data"]) == httpx.get(f"{server.http}/ready").json()["slots"]

    async def created() -> dict[str, object]:
        async with talk(server.socket) as session:
            return session.created

    assert asyncio.run(created())["models"] == reply["data"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "unknown_route"),
        ("GET", "/v1/models/", 404, "unknown_route"),
        ("GET", "/v1/audio/voices/", 404, "unknown_route"),
        ("POST", "/v1/audio/speech/", 404, "unknown_route"),
        ("GET", "/v1/audio/speech/stream", 426, "websocket_only"),
        ("POST", "/v1/audio/speech/stream", 426, "websocket_only"),
        ("GET", "/v1/audio/speech/stream/", 404, "unknown_route"),
        ("GET", "/v1/nothing/", 404, "unknown_route"),
        ("POST", "/docs", 405, "method_not_allowed"),
        ("GET", "/openapi.yaml", 404, "unknown_route"),
        ("POST", "/v1/nothing/at/all", 404, "unknown_route"),
        ("GET", "/../../etc/passwd", 404, "unknown_route"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("DELETE", "/ready", 405, "method_not_allowed"),
    ],
)
def test_unknown_routes_return_json_errors(
    server: RunningServer, method: str, path: str, status: int, code: str
) -> None:
    reply = httpx.request(method, server.http + path)
    assert reply.status_code == status
    assert reply.headers.get("upgrade") == ("websocket" if status == 426 else None)
    error = reply.json()["error"]
    assert (error["code"], error["type"], error["retryable"]) == (code, "invalid_request_error", False)
    # The message mentions a trailing slash only if the path without it exists.
    assert ("slash" in error["message"]) == (path.endswith("/") and path != "/v1/nothing/")


def bare(server: RunningServer, request: str) -> tuple[bytes, bytes]:
    """Send a raw HTTP request, and return the header section and the body of the response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=TEST_TIMEOUT_S) as connection:
        connection.sendall(request.encode().replace(b"\n", b"\r\n"))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../metrics",
        "/v1/x/../audio/speech",
        "/v1/%2e%2e/metrics",
        "/v1/./models",
        "/v1/..%5cmetrics",
        "/v1/audio/voices/a%0ab",
    ],
)
def test_dot_segments_and_line_breaks_in_a_path_are_refused(either: RunningServer, path: str) -> None:
    head, body = bare(either, f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["error"]["code"] == "unknown_route"


def test_unknown_host_name_for_this_address_is_refused(either: RunningServer) -> None:
    for name in ("localhost", "127.0.0.1:80"):
        assert httpx.get(f"{either.http}/v1/models", headers={"host": name}).status_code == 200
    reply = httpx.get(f"{either.http}/v1/models", headers={"host": "evil.example"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "host_refused")
    assert httpx.get(f"{either.http}/health", headers={"host": "evil.example"}).status_code == 200

    async def knock() -> int:
        address = urlsplit(either.socket)
        evil = address._replace(netloc=f"evil.example:{address.port}").geturl()
        with pytest.raises(InvalidStatus) as refused:
            await connect(evil, host=address.hostname, port=address.port)
        return refused.value.response.status_code

    assert asyncio.run(knock()) == 403


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/audio/voices", "GET, HEAD, POST"),
        ("PUT", "/v1/audio/voices/nobody", "GET, HEAD, PATCH, DELETE"),
        ("GET", "/v1/audio/speech", "POST"),
        ("PATCH", "/v1/models", "GET, HEAD"),
    ],
)
def test_allow_header_lists_every_method_of_a_route(
    either: RunningServer, method: str, path: str, allowed: str
) -> None:
    reply = httpx.request(method, either.http + path)
    assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
    assert allowed in reply.json()["error"]["message"]


@pytest.mark.logs_errors
async def test_dead_engine_is_reported_to_all_requests_and_ends_the_process(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice")) as server:
        engine = server.engine
        assert engine is not None

        def broken() -> bool:
            raise RuntimeError("the device is gone")

        async with talk(server.socket, **LONG) as session, talk(server.socket) as idle:
            await session.send_text("Speak for a long time.")
            await session.first_audio()
            engine.tick = broken  # type: ignore[method-assign]
            context_and_code = [(error := await session.receive_until("error"))["context_id"], error["code"]]
            error = await idle.receive_until("error")
            assert (error["code"], error["context_id"]) == ("engine_dead", None)
            assert await idle.closed() == (1011, "engine_dead")
            assert (context_and_code, await session.closed()) == (["default", "engine_dead"], (1011, "engine_dead"))
        until(lambda: server.exit_status is not None)
        assert server.exit_status == 70


async def test_health_and_ready_routes_report_a_loading_checkpoint(folder_of: FolderOf) -> None:
    """The server starts to listen before the checkpoint is loaded.

    In this test, loading waits until a lock is released.
    """
    from runtime.engine.engine import Engine
    from runtime.server.launch import listen
    from runtime.server.serve import run
    from runtime.server.speech_engine import Progress
    from runtime.settings import ServerSettings, Settings

    gate, reached = threading.Event(), threading.Event()
    settings = Settings(models=(str(folder_of("brief", "custom_voice")),), server=ServerSettings(port=0))

    def open_when_released(settings: Settings, progress: Progress) -> Engine:
        progress(0, 1, "waiting to be told")
        reached.set()
        gate.wait(TEST_TIMEOUT_S)
        return Engine.open(settings, progress)

    async with asyncio.timeout(60):
        listener = listen(settings.server)
        port = listener.getsockname()[1]
        serving = asyncio.create_task(run(settings, listener, open_when_released))
        assert await asyncio.to_thread(reached.wait, TEST_TIMEOUT_S)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            reply = await client.get("/ready")
            assert (reply.status_code, reply.json().pop("error")["code"]) == (503, "loading")
            assert reply.headers["retry-after"] == "2"
            await_step = {"status": "loading", "loaded": 0, "of": 1, "step": "waiting to be told"}
            assert {**reply.json(), **await_step} == reply.json()
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/v1/models")).json()["data"] == []
            url = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"
            async with connect(url, subprotocols=[PROTOCOL]) as connection:
                error = await Talk(connection).receive()
                assert isinstance(error, dict)
                assert (error["code"], error["retryable"]) == ("loading", True)
                assert await Talk(connection).closed() == (1013, "loading")
            gate.set()
            while (await client.get("/ready")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert (await speak_text(url, "Now.", task_type="custom_voice", max_frames=2)).end["type"] == "audio.done"
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest.mark.slow("2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_during_speech_ends_the_process(
    process: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    child, url = process

    async with talk(url.replace("http", "ws") + "/v1/audio/speech/stream", **LONG) as session:
        await session.send_text("Speak for a long time.")
        await session.first_audio()
        start_s = time.monotonic()
        child.send_signal(number)
        error = await session.receive_until("error")
        assert (error["code"], error["context_id"], error["partial_audio"]) == ("draining", "default", True)
        assert await session.closed() == (1001, "draining")
        assert time.monotonic() - start_s > 0.4
    assert child.wait(60) == 0
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.read() == "Finishing running speech, 0.5 s at most; press Ctrl-C again to end at once.\n"
    assert child.stderr.read() == ""


@pytest.mark.slow
async def test_signal_to_an_idle_process_prints_no_output(process: tuple[subprocess.Popen[str], str]) -> None:
    child, url = process

    async with talk(url.replace("http", "ws") + "/v1/audio/speech/stream", **LONG, voice="serena") as session:
        child.send_signal(signal.SIGINT)
        await session.receive_until("error")
        assert await session.closed() == (1001, "draining")
    assert child.wait(60) == 0
    assert child.stdout is not None
    assert child.stderr is not None
    assert (child.stdout.read(), child.stderr.read()) == ("", "")


@pytest.mark.slow
async def test_signal_ends_the_process_if_its_output_is_not_read(process: tuple[subprocess.Popen[str], str]) -> None:
    """Ctrl-C also ends the reader of the pipe, before the process prints its last line."""
    child, url = process
    assert child.stdout is not None
    child.stdout.close()

    async with talk(url.replace("http", "ws") + "/v1/audio/speech/stream", **LONG) as session:
        await session.send_text("Speak for a long time.")
        await session.first_audio()
        child.send_signal(signal.SIGINT)
        assert await session.closed() == (1001, "draining")
    assert child.wait(60) == 0
    assert child.stderr is not None
    assert child.stderr.read() == ""


@pytest.mark.slow
def test_signal_during_loading_ends_the_process(folder_of: FolderOf) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    child = start("--model", str(folder_of("brief", "custom_voice")), "--port", str(port))
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.01)
        child.terminate()
        assert child.wait(60) == 0
        assert child.stderr is not None
        assert "Traceback" not in child.stderr.read()
    finally:
        child.kill()
        child.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT] * 2, [signal.SIGTERM] * 3], ids=len)
def test_signals_during_a_forward_pass_end_the_process_cleanly(
    folder_of: FolderOf, signals: list[signal.Signals]
) -> None:
    """The thread that loads the checkpoint runs torch.

    If the interpreter ended during that call, torch would abort the process.
    """
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    models = [word for mode in ("custom_voice", "base") for word in ("--model", str(folder_of("brief", mode)))]
    child = start(*models, "--port", str(port))
    try:
        step, end = "", time.monotonic() + 120
        while not step.startswith("loading") and time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                step = httpx.get(f"http://127.0.0.1:{port}/ready").json().get("step", "loading")
        for number in signals:
            child.send_signal(number)
        assert child.wait(60) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""
    finally:
        child.kill()
        child.communicate()


@pytest.mark.slow
def test_verbose_option_may_follow_the_command(folder_of: FolderOf) -> None:
    child = start("-v", "--model", str(folder_of("brief", "custom_voice")), "--port", "0")
    try:
        assert child.stdout is not None
        url = child.stdout.readline().split()[-1]
        body = {"input": "Hello.", "voice": "serena", "max_frames": 2}
        assert httpx.post(f"{url}/v1/audio/speech", json=body, timeout=60).status_code == 200
        child.terminate()
        _, errors = child.communicate(timeout=60)
        assert "request ended" in errors
    finally:
        child.kill()
        child.communicate()


def one_sentence(child: subprocess.Popen[str]) -> str:
    """Wait for exit status 2, and return the only line of the process's standard error."""
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 2, errors
    assert len(errors.splitlines()) == 1, errors
    return errors


def test_used_port_error_is_printed_before_torch_is_imported(folder_of: FolderOf, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        child = start("--model", str(folder_of("brief", "custom_voice")), "--port", str(port), PYTHONPATH=str(tmp_path))
        sentence = one_sentence(child)
        assert "port_in_use" in sentence
        assert str(port) in sentence


@pytest.mark.slow
def test_non_local_host_error_is_one_line() -> None:
    assert "invalid_setting" in one_sentence(start("--host", "192.0.2.1", "--port", "0"))
    assert "invalid_setting" in one_sentence(start("--host", "no such host", "--port", "0"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["runtime", "say"])
def test_missing_weights_file_error_is_one_line(folder_of: FolderOf, tmp_path: Path, command: str) -> None:
    folder = Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "weightless"))
    (folder / "model.safetensors").unlink()
    words = ["--port", "0"] if command == "runtime" else ["Hello.", "--device", "cpu"]
    child = subprocess.Popen(
        [sys.executable, "-m", "runtime.cli", command, *words, "--model", str(folder)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    sentence = one_sentence(child)
    assert "model.safetensors" in sentence
    assert "[checkpoint_missing]" in sentence


@pytest.mark.slow
def test_missing_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    child = start("--model", str(tmp_path / "nowhere"), "--port", "0")
    assert "nowhere" in one_sentence(child)
