"""Tests for inline tags and pronunciations in every API that supports them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.runtime_server import RunningServer
from tests.support.speech_client import Take, same_sound, speak_text, talk
from tests.wire.test_cartesia import said, sound_of, speaker
from tests.wire.test_elevenlabs import MANY, ONE, chars_of, closed, post, send, socket, until_final
from tests.wire.test_elevenlabs import sound_of as eleven_sound
from tests.wire.test_omni import STREAM, omni, replies, say

CAST: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
TAGGED = "[pause:250ms] [excited] Ask Nguyen."
WORDS: list[dict[str, str]] = [{"word": "Nguyen", "say_as": "Win"}]
PAUSE = bytes(2 * 6000)


def native(server: RunningServer, text: str, *, size: int = 1000, **config: Any) -> Take:
    async def speak() -> Take:
        async with talk(server.socket, **{**CAST, "split_granularity": "sentence", **config}) as session:
            for start in range(0, len(text), size):
                await session.send("input.text", text=text[start : start + size])
            await session.send("input.done")
            return await session.receive_take()

    return asyncio.run(speak())


def openai(server: RunningServer, text: str, **fields: Any) -> bytes:
    body = {"input": text, "response_format": "pcm", **CAST, **fields}
    return httpx.post(server.http + "/v1/audio/speech", json=body, timeout=60).raise_for_status().content


def of_omni(server: RunningServer, text: str, **fields: Any) -> bytes:
    async def speak() -> bytes:
        async with omni(server, **{**CAST, **STREAM, **fields}) as connection:
            await say(connection, text)
            found, _ = await replies(connection)
            return b"".join(sound for reply in found for sound in reply.sound)

    return asyncio.run(speak())


@pytest.fixture(scope="module")
def excited(server: RunningServer) -> bytes:
    """Return the audio of a separate request with the style "excited"."""
    return asyncio.run(speak_text(server.socket, "Ask Win.", **CAST, instructions="excited")).pcm


@pytest.mark.parametrize("speak", [native, openai, of_omni])
def test_pronunciations_are_applied_to_text_with_tags(
    server: RunningServer, excited: bytes, speak: Callable[..., Take | bytes]
) -> None:
    heard = speak(server, TAGGED, tags=True, pronunciations=WORDS)
    pcm = heard if isinstance(heard, bytes) else heard.pcm
    assert pcm.startswith(PAUSE)
    assert same_sound(pcm.removeprefix(PAUSE), excited)


def test_style_applies_to_the_following_sentences(server: RunningServer) -> None:
    """vLLM-Omni's dialect creates one request per sentence."""
    fields = {"split_granularity": "sentence"}
    heard = of_omni(server, "[excited. Very] Ask him. And Win.", tags=True, **fields)
    alone = of_omni(server, "Ask him. And Win.", instructions="excited. Very", **fields)
    assert same_sound(heard, alone)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"Hello [style: {'a' * 501}] you.", "tag_too_long"),
        ("Hello [pause 31s] you.", "pause_too_long"),
        ("[pause 30s] " * 5 + "you", "pauses_too_long"),
    ],
)
def test_excessive_tags_are_refused(server: RunningServer, text: str, code: str) -> None:
    reply = httpx.post(server.http + "/v1/audio/speech", json={"input": text, "tags": True, **CAST}, timeout=30)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, code)
    assert native(server, text, tags=True, size=7).end["code"] == code


# --- Tests of ElevenLabs' tags, which have other brackets.


def eleven(server: RunningServer, kind: str, text: str, size: int = 1000, **fields: Any) -> list[dict[str, Any]]:
    """Send a text to ElevenLabs' socket in pieces, and return all received messages."""

    async def speak() -> list[dict[str, Any]]:
        async with socket(server, kind, speaker(server)) as connection:
            cast = {"seed": CAST["seed"], "max_frames": CAST["max_frames"], "text_filter": "none"}
            name = {"context_id": "c"} if kind == MANY else {}
            await send(connection, " ", **cast, **name, **fields)
            for start in range(0, len(text), size):
                await send(connection, text[start : start + size], **name)
            if kind == MANY:
                await send(connection, close_context=True, **name)
                return (await until_final(connection, "c"))["c"]
            await send(connection, "")
            return (await closed(connection))[0]

    return asyncio.run(speak())


@pytest.mark.parametrize(("kind", "size"), [(ONE, 1000), (MANY, 3), pytest.param(ONE, 1, marks=pytest.mark.slow)])
def test_elevenlabs_sockets_support_tags_and_pronunciations(server: RunningServer, kind: str, size: int) -> None:
    plain = eleven(server, kind, "Ask Win.", instructions="excited")
    heard = eleven(server, kind, TAGGED, size, tags=True, pronunciations=WORDS)
    assert same_sound(eleven_sound(heard), PAUSE + eleven_sound(plain))
    assert chars_of(heard).strip() == "Ask Win."


def test_elevenlabs_routes_support_tags_and_pronunciations(server: RunningServer) -> None:
    plain = post(server, text="Ask Win.", instructions="excited")
    fields = {"text": TAGGED, "tags": True, "pronunciations": WORDS}
    assert same_sound(post(server, **fields).content, PAUSE + plain.content)
    times = post(server, "/with-timestamps", **fields).json()["alignment"]
    assert "".join(times["characters"]).strip() == "Ask Win."
    too_long = post(server, text=f"Hello [style: {'a' * 501}] you.", tags=True)
    assert (too_long.status_code, too_long.json()["detail"]["status"]) == (400, "tag_too_long")


# --- Tests of Cartesia's tags.


def test_cartesia_clients_can_send_pronunciations(server: RunningServer) -> None:
    recorder = asyncio.run(said(server, "Ask Nguyen.", pronunciations=WORDS, add_timestamps=True))
    assert same_sound(sound_of(recorder), sound_of(asyncio.run(said(server, "Ask Win."))))
    times = [message for message in recorder if message["type"] == "timestamps"]
    assert times
    assert all(message["estimated"] is True for message in times)


@pytest.mark.parametrize(
    "words", [[{"word": " ", "say_as": "x"}], [{"word": "x"}], WORDS * 201, [{**WORDS[0], "word": 3}]]
)
def test_invalid_pronunciation_lists_are_refused(server: RunningServer, words: list[Any]) -> None:
    body = {"input": "Hello.", "pronunciations": words, **CAST}
    reply = httpx.post(server.http + "/v1/audio/speech", json=body, timeout=30)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_config")
