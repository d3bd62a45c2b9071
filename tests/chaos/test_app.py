"""Tests for the process app.py: start, exit, runtime crash and invalid options."""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from websockets import Subprotocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.app import ROOT, START_S, App, running_app
from tests.support.checkpoints import BRIEF, write_checkpoint
from tests.support.speech_client import PROTOCOL
from tests.support.timeouts import TEST_TIMEOUT_S


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    write_checkpoint(folder, BRIEF, "custom_voice", seed=1)
    return folder


def gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def socket_url(app: App) -> str:
    return f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"


@contextmanager
def speaking(app: App, max_frames: int = 4000) -> Iterator[ClientConnection]:
    """Yield a WebSocket on which speech is being generated.

    With some other seeds, the random weights end the speech early.
    """
    with connect(socket_url(app), subprotocols=[Subprotocol(PROTOCOL)], open_timeout=TEST_TIMEOUT_S) as socket:
        for message in (
            {
                "type": "session.config",
                "task_type": "custom_voice",
                "voice": "serena",
                "max_frames": max_frames,
                "seed": 1,
            },
            {"type": "input.text", "text": "A sentence that will not come to its end."},
            {"type": "input.done"},
        ):
            socket.send(json.dumps(message))
        while not isinstance(socket.recv(timeout=60), bytes):
            pass
        yield socket


def rest(socket: ClientConnection) -> tuple[list[dict[str, object]], int, str]:
    """Receive messages until the server closes the connection.

    Returns:
        The messages, the close code and the close reason.
    """
    messages = []
    with suppress(ConnectionClosed):
        while True:
            message = socket.recv(timeout=TEST_TIMEOUT_S)
            if isinstance(message, str):
                messages.append(json.loads(message))
    return messages, socket.close_code or 0, socket.close_reason or ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_both_processes_and_logs_interrupted_requests(checkpoint: Path, number: signal.Signals) -> None:
    with running_app(["--model", str(checkpoint)], VOICEWRIGHT_DRAIN_S="0.5") as app:
        runtime = app.runtime_pid
        with speaking(app) as socket:
            app.process.send_signal(number)
            messages, *closed = rest(socket)  # The last message may be about the end of the session.
            assert [messages[0][word] for word in ("code", "context_id", "partial_audio")] == [
                "draining",
                "default",
                True,
            ]
            assert closed == [1001, "draining"]
            assert app.process.wait(60) == 0
            assert gone(runtime, within_s=60)


def test_sigterm_drains_running_responses_and_refuses_new_requests(checkpoint: Path, tmp_path: Path) -> None:
    body = {"model": "tts-1", "voice": "serena", "input": "To its end.", "max_frames": 100, "response_format": "pcm"}
    with (
        (tmp_path / "log").open("w") as log,
        running_app(["--model", str(checkpoint)], log=log, VOICEWRIGHT_DRAIN_S="240") as app,
        httpx.Client(base_url=app.url, trust_env=False, timeout=60) as client,
        speaking(app, max_frames=1000) as socket,
        connect(socket_url(app), subprotocols=[Subprotocol(PROTOCOL)], open_timeout=TEST_TIMEOUT_S) as idle,
        client.stream("POST", "/v1/audio/speech", json=body) as answer,
    ):
        pieces = answer.iter_bytes()
        heard = len(next(pieces))
        app.process.send_signal(signal.SIGTERM)
        assert rest(idle)[1:] == (1001, "draining")
        refused = client.post("/v1/audio/speech", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        with connect(socket_url(app), subprotocols=[Subprotocol(PROTOCOL)], open_timeout=TEST_TIMEOUT_S) as late:
            messages, *closed = rest(late)
            assert (messages[-1]["code"], *closed) == ("draining", 1013, "draining")
        assert heard + sum(map(len, pieces)) == 100 * 1920 * 2
        assert "audio.done" in [message["type"] for message in rest(socket)[0]]
        assert app.process.wait(60) == 0
        assert app.process.stdout is not None
        # The runtime also prints this message, but the output contains it only once.
        assert (
            app.process.stdout.read() == "Finishing running speech, 240 s at most; press Ctrl-C again to end at once.\n"
        )
    assert "Traceback" not in Path(log.name).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_repeated_stop_signals_end_the_app_with_status_0(checkpoint: Path, number: signal.Signals) -> None:
    with running_app(["--model", str(checkpoint)]) as app, speaking(app):
        while app.process.poll() is None:
            app.process.send_signal(number)
            time.sleep(0.02)
        assert app.process.returncode == 0


def test_killed_app_also_ends_its_runtime(checkpoint: Path) -> None:
    with running_app(["--model", str(checkpoint)]) as app:
        runtime = app.runtime_pid
        app.process.kill()
        assert gone(runtime, within_s=60)


def test_killed_runtime_logs_a_line_about_interrupted_streams(checkpoint: Path, tmp_path: Path) -> None:
    body = {"model": "tts-1", "voice": "serena", "input": "It will not come to its end.", "max_frames": 4000}
    formats = ["pcm", "wav", "mp3", "opus"]
    with (
        (tmp_path / "log").open("w") as log,
        running_app(["--model", str(checkpoint)], log=log) as app,
        httpx.Client(base_url=app.url, trust_env=False, timeout=60) as client,
        ExitStack() as streams,
    ):
        heard = []
        for format_ in formats:
            asked = {**body, "response_format": format_, "stream": True}
            answer = streams.enter_context(client.stream("POST", "/v1/audio/speech", json=asked))
            heard.append(answer.iter_bytes())
            assert next(heard[-1])
        said = Path(log.name).read_text()
        os.kill(app.runtime_pid, signal.SIGKILL)
        for pieces in heard:
            with pytest.raises(httpx.RemoteProtocolError):  # Incomplete audio must end with an error.
                collections.deque(pieces, maxlen=0)
        more = Path(log.name).read_text().removeprefix(said).splitlines()
    lines = [line for line in more if "studio.runtimes.supervisor" not in line]
    warning = "WARNING studio.relay.proxy_response: the connection to the runtime was lost during a response"
    assert 1 <= len(lines) <= len(formats)  # The log has at most one such line per second.
    more_lines = re.compile(re.escape(warning) + r"( \([1-3] more like this in \d+ s\))?")
    assert [line for line in lines if not more_lines.fullmatch(line)] == []


def test_external_runtime_is_used_and_left_running(checkpoint: Path) -> None:
    with running_app(["--model", str(checkpoint)]) as first:
        with running_app(["--runtime-url", first.url]) as ending, speaking(ending, max_frames=100) as socket:
            ending.process.send_signal(signal.SIGTERM)
            messages, *closed = rest(socket)
            assert [messages[-2]["type"], messages[-1]["code"], *closed] == ["audio.done", "draining", 1001, "draining"]
            assert ending.process.wait(60) == 0
        with running_app(["--runtime-url", first.url]) as second:
            models = httpx.get(f"{second.url}/v1/models", trust_env=False).json()
            assert models["data"][0]["id"] == "tiny"
            with speaking(second):
                pass
            children = Path(f"/proc/{second.process.pid}/task/{second.process.pid}/children")
            assert children.read_text() == ""
        assert httpx.get(f"{first.url}/ready", trust_env=False).status_code == 200


def refused(*arguments: str) -> str:
    """Run app.py with invalid arguments, check its exit status 2, and return its error output."""
    command = [sys.executable, "app.py", "--port", "0", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_missing_checkpoint_prints_one_line_and_exits_with_status_2(tmp_path: Path) -> None:
    said = refused("--model", str(tmp_path / "nothing"))
    assert len(said.splitlines()) == 1
    assert "nothing" in said
    assert "[checkpoint_missing]" in said


def test_unknown_argument_exits_with_status_2() -> None:
    assert "--nonsense" in refused("--nonsense")
