"""Tests that the examples for other APIs in docs/api.md match the real server."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.support.runtime_server import RunningServer
from tests.support.speech_client import WAIT_S

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def conversation(heading: str) -> list[tuple[str, Any]]:
    """Return the messages in the first code block of a section of docs/api.md.

    Each message is a tuple of its direction and its JSON; the JSON is None for audio.
    """
    block = PAGE.split(f"\n## {heading}\n", 1)[1].split("```\n", 2)[1]
    turns = []
    for turn in re.findall(r"^([→←]) (.*(?:\n   .*)*)", block, re.MULTILINE):
        who, what = turn
        turns.append((who, None if what.startswith("<") else json.loads(what)))
    return turns


def shape(message: Any) -> Any:
    """Return the parts of a message that must be equal to those in the documentation.

    These are the names of all fields and the values of some fields.
    """
    if message is None or isinstance(message, bytes):
        return "sound"
    compared_fields = {
        "type",
        "context_id",
        "sentence_index",
        "utterance_index",
        "total_sentences",
        "code",
        "error_code",
        "done",
    }
    compared_fields |= {"contextId", "isFinal", "error"} if "type" not in message else set()
    return {name: value if name in compared_fields else ... for name, value in message.items()}


def is_sound(event: Any) -> bool:
    """Return True if this kind of message may occur any number of times."""
    if event == "sound" or "type" not in event:
        return event == "sound" or event.get("isFinal", ...) is None
    return event["type"] in {"chunk", "timestamps"}


@pytest.mark.parametrize(
    ("heading", "path"),
    [
        ("vLLM-Omni's WebSocket", "/v1/audio/speech/stream"),
        ("Cartesia's WebSocket", "/tts/websocket"),
        ("ElevenLabs' WebSockets", "/v1/text-to-speech/alloy/multi-stream-input"),
    ],
)
async def test_documented_conversations_match_the_server(server: RunningServer, heading: str, path: str) -> None:
    turns = conversation(heading)
    assert len(turns) > 8

    async def hold() -> tuple[list[Any], list[dict[str, Any]]]:
        heard: list[Any] = []
        metrics: list[dict[str, Any]] = []
        async with connect(f"ws://127.0.0.1:{server.port}{path}") as connection:
            for who, group in groupby(turns, key=lambda turn: turn[0]):
                shown = [what for _, what in group]
                if who == "→":
                    for message in shown:
                        await connection.send(json.dumps(message))
                    continue
                last = shape(shown[-1])
                while not heard or heard[-1] != last:
                    raw = await asyncio.wait_for(connection.recv(), WAIT_S)
                    message = json.loads(raw) if isinstance(raw, str) else raw
                    if isinstance(message, dict):
                        metrics.append(message.get("metrics", {}))
                    heard.append(shape(message))
        return heard, metrics

    heard, metrics = await hold()
    wanted = [shape(what) for who, what in turns if who == "←"]
    # The number of messages with audio or with word times may vary.
    kinds = [event for event in heard if is_sound(event)]
    assert all(kind in wanted for kind in kinds)
    assert [one for one, _ in groupby(event for event in heard if event not in kinds)] == [
        one for one, _ in groupby(expected for expected in wanted if expected not in kinds)
    ]
    for shown in (what["metrics"] for who, what in turns if who == "←" and what and "metrics" in what):
        assert all(set(shown) <= set(real) for real in metrics if real)
