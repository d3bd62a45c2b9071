"""Tests for loading other checkpoints while speech is generated: running requests finish."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.app import App, running_app
from tests.support.checkpoints import BRIEF, write_checkpoint

SPOKEN = ("audio.done", None)
WITHIN_S = 120.0  # Timeout of a start in seconds, on a machine whose processors are all busy.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    for name in ("first", "second", "torn"):
        write_checkpoint(folder / name, BRIEF, "custom_voice", seed=len(name))
    weights = folder / "torn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4096])
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[App]:
    # The timeout is long, because running requests must finish, and audio is generated no faster than it is played.
    with running_app(["--model", str(folder / "first")], VOICEWRIGHT_DRAIN_S="120") as running:
        yield running


@contextmanager
def speaking(app: App, frames: int) -> Iterator[ClientConnection]:
    """Yield a WebSocket on which `frames` frames are being generated.

    Speech from random weights never ends earlier.
    """
    url = f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"
    with connect(url, subprotocols=["voicewright.speech.v1"], max_queue=None, open_timeout=WITHIN_S) as socket:
        for message in (
            {"type": "session.config", "task_type": "custom_voice", "voice": "serena", "max_frames": frames},
            {"type": "input.text", "text": "A sentence that lasts."},
            {"type": "input.done"},
        ):
            socket.send(json.dumps(message))
        while not isinstance(socket.recv(timeout=WITHIN_S), bytes):
            pass
        yield socket


def end_of(socket: ClientConnection) -> tuple[str, str | None]:
    """Receive messages until the stream ends, and return the last message's type and code."""
    while True:
        message = socket.recv(timeout=WITHIN_S)
        if isinstance(message, str) and (said := json.loads(message))["type"] in {"audio.done", "error"}:
            return said["type"], said.get("code")


def load(app: App, *models: Path) -> list[dict[str, Any]]:
    """Request other checkpoints from a studio, and wait until their loading has ended.

    Returns:
        All states that the studio returned during the change.
    """
    with httpx.Client(base_url=app.url, trust_env=False, timeout=30) as client:
        answer = client.post("/studio/host/models", json={"models": [str(model) for model in models]})
        assert answer.status_code == 202, answer.text
        states = []
        deadline = time.monotonic() + WITHIN_S
        while not states or states[-1]["changing"]:
            states.append(client.get("/studio/host").json())
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return states


@pytest.mark.parametrize("name", ["nowhere", "torn"])
def test_failed_checkpoint_change_affects_no_request(app: App, folder: Path, name: str) -> None:
    with speaking(app, frames=250) as socket:
        states = load(app, folder / name)
        assert {status["runtime"]["state"] for status in states} == {"ready"}
        assert name in states[-1]["runtime"]["problem"]
        assert states[-1]["models"][0]["id"] == "first"
        assert end_of(socket) == SPOKEN


def test_checkpoint_change_finishes_running_requests_and_serves_throughout(app: App, folder: Path) -> None:
    before = app.runtime_pid
    with speaking(app, frames=250) as socket:
        states = load(app, folder / "second")
        assert {status["runtime"]["state"] for status in states} == {"ready"}
        assert states[-1]["runtime"]["problem"] is None
        with speaking(app, frames=5) as other:
            assert end_of(other) == SPOKEN
        assert end_of(socket) == SPOKEN
    models = httpx.get(f"{app.url}/v1/models", trust_env=False).json()
    assert models["data"][0]["id"] == "second"
    deadline = time.monotonic() + WITHIN_S
    while Path(f"/proc/{before}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    again = load(app, folder / "nowhere")
    assert "nowhere" in again[-1]["runtime"]["problem"], "the change after a change is tried as well"
    assert again[-1]["models"][0]["id"] == "second"
