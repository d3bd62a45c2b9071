"""app.py as a process: it starts, ends and dies with its runtime, and refuses what cannot work."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.app import ROOT, START_S, App, running_app
from tests.support.checkpoints import BRIEF, write_checkpoint
from tests.support.patience import PATIENCE_S


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


@contextmanager
def speaking(app: App) -> Iterator[ClientConnection]:
    """A socket in the middle of a sentence."""
    url = f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"
    with connect(url, subprotocols=["voicewright.speech.v1"], open_timeout=PATIENCE_S) as socket:
        for message in (
            {"type": "session.config", "task_type": "custom_voice", "voice": "serena", "max_frames": 4000},
            {"type": "input.text", "text": "A sentence that will not come to its end."},
            {"type": "input.done"},
        ):
            socket.send(json.dumps(message))
        while not isinstance(socket.recv(timeout=60), bytes):
            pass
        yield socket


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_processes_in_the_middle_of_a_sentence(checkpoint: Path, number: signal.Signals) -> None:
    with running_app(["--model", str(checkpoint)]) as app:
        runtime = app.runtime_pid
        with speaking(app) as socket:
            app.process.send_signal(number)
            assert app.process.wait(60) == 0
            assert gone(runtime, within_s=60)
            with pytest.raises(ConnectionClosed):
                collections.deque(iter(lambda: socket.recv(timeout=60), None))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_again_and_again_changes_nothing(checkpoint: Path, number: signal.Signals) -> None:
    with running_app(["--model", str(checkpoint)]) as app, speaking(app):
        while app.process.poll() is None:
            app.process.send_signal(number)
            time.sleep(0.02)
        assert app.process.returncode == 0


def test_a_killed_app_takes_its_runtime_along(checkpoint: Path) -> None:
    with running_app(["--model", str(checkpoint)]) as app:
        runtime = app.runtime_pid
        app.process.kill()
        assert gone(runtime, within_s=60)


def test_a_runtime_that_is_killed_under_streams_is_a_line_a_stream_in_the_log(checkpoint: Path, tmp_path: Path) -> None:
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
            with pytest.raises(httpx.RemoteProtocolError):  # nobody takes a part for the whole
                collections.deque(pieces, maxlen=0)
        more = Path(log.name).read_text().removeprefix(said).splitlines()
    lines = [line for line in more if "studio.supervisor" not in line]
    assert lines == ["WARNING studio.passage: the runtime went away in the middle of an answer"] * len(formats)


def test_a_runtime_that_runs_elsewhere_is_used_and_left_running(checkpoint: Path) -> None:
    with running_app(["--model", str(checkpoint)]) as first:
        with running_app(["--runtime-url", first.url]) as second:
            models = httpx.get(f"{second.url}/v1/models", trust_env=False).json()
            assert models["data"][0]["id"] == "tiny"
            with speaking(second):
                pass
            children = Path(f"/proc/{second.process.pid}/task/{second.process.pid}/children")
            assert children.read_text() == ""
        assert httpx.get(f"{first.url}/ready", trust_env=False).status_code == 200


def refused(*arguments: str) -> str:
    """Run app.py with arguments that cannot work, and return what it says."""
    command = [sys.executable, "app.py", "--port", "0", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_a_checkpoint_that_is_not_there_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    said = refused("--model", str(tmp_path / "nothing"))
    assert len(said.splitlines()) == 1
    assert "nothing" in said
    assert "[checkpoint_missing]" in said


def test_an_argument_that_nobody_knows_is_status_2() -> None:
    assert "--nonsense" in refused("--nonsense")
