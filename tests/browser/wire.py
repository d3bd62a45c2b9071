"""WebSocket client for comparing the played audio with the served audio."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from websockets import Subprotocol
from websockets.sync.client import connect

from tests.support.app import App
from tests.support.timeouts import TEST_TIMEOUT_S


def speak(app: App, text: str, **config: Any) -> NDArray[np.int16]:
    """Generate speech for a text, and return the PCM samples."""
    url = f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"
    with connect(
        url, subprotocols=[Subprotocol("voicewright.speech.v1")], compression=None, open_timeout=TEST_TIMEOUT_S
    ) as socket:
        for message in (
            {"type": "session.config", **config},
            {"type": "input.text", "text": text},
            {"type": "input.done"},
        ):
            socket.send(json.dumps(message))
        sound = b""
        while True:
            heard = socket.recv()
            if isinstance(heard, bytes):
                sound += heard
                continue
            event = json.loads(heard)
            assert event["type"] != "error", event
            if event["type"] == "audio.done":
                return np.frombuffer(sound, "<i2")


def active_slots(app: App) -> int:
    """Return the number of engine slots in use, as reported by the runtime."""
    return int(httpx.get(f"{app.url}/ready", trust_env=False).json()["active"])


def sound_of(app: App, take_id: str) -> bytes:
    """Return the PCM of a stored take."""
    reply = httpx.get(f"{app.url}/studio/takes/{take_id}/audio?format=pcm", trust_env=False)
    assert reply.status_code == 200
    return reply.content
