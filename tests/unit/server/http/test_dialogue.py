"""Tests for dialogues over HTTP: one stream for all turns, limits and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runtime.errors import EmptyText, InvalidConfig, Overloaded, SpeechError, TextTooLong, UnknownVoice
from runtime.request import Mode, Refused, SpeechRequest
from runtime.server.engine_host import EngineHost
from runtime.server.openai.schema import read_speech
from runtime.server.openai.speech_responder import CompleteAudio, SpeechResponder
from runtime.settings import Settings
from tests.support.library import MemoryLibrary
from tests.support.scripted_engine import ScriptedEngine, chunk, finished, started

TURNS = [{"text": "Is it late?", "voice": "serena"}, {"text": "It is.", "voice": "ryan", "instructions": "Tired."}]


@asynccontextmanager
async def hosting(engine: ScriptedEngine) -> AsyncIterator[EngineHost]:
    host = EngineHost(Settings(), lambda *_: engine, MemoryLibrary())
    await host.load()
    try:
        yield host
    finally:
        host.close()


async def spoken(engine: ScriptedEngine, **fields: Any) -> CompleteAudio:
    async with hosting(engine) as host:
        body = {"inputs": TURNS, "stream": False, "response_format": "pcm", **fields}
        return await SpeechResponder(
            host, read_speech(body, is_in_batch=True), host.library, "r"
        ).generate_complete_audio()


def turns(count: int) -> dict[int, list[Any]]:
    return {number: [started(), chunk(2, number), finished(frames=2)] for number in range(1, count + 1)}


async def test_turns_of_a_dialogue_are_one_audio_stream_with_pauses() -> None:
    engine = ScriptedEngine(turns(2))
    whole = await spoken(engine, turn_pause_ms=10)
    assert whole.audio == chunk(2, 1).pcm + bytes(480) + chunk(2, 2).pcm
    assert (whole.end.stats.frames, whole.end.stats.prompt_tokens) == (4, 10)
    assert [(each.text, each.mode, each.voice, each.instruct) for each in engine.requests] == [
        ("Is it late?", Mode.CUSTOM_VOICE, "serena", None),
        ("It is.", Mode.CUSTOM_VOICE, "ryan", "Tired."),
    ]
    # All samples of both turns were acknowledged, so no row stays paused.
    assert engine.sent == [(1, 3840), (2, 3840)]


async def test_random_seed_is_used_for_all_turns() -> None:
    engine = ScriptedEngine(turns(2))
    assert (await spoken(engine)).seed == 3
    assert [each.seed for each in engine.requests] == [None, 3]


async def test_words_are_timed_from_the_start_of_the_audio() -> None:
    whole = await spoken(ScriptedEngine(turns(2)), timestamp_granularities=["word"], turn_pause_ms=1000, speed=1)
    assert [(word["word"], word["input_index"]) for word in whole.words] == [
        *(("Is", 0), ("it", 0), ("late?", 0), ("It", 1), ("is.", 1)),
    ]
    assert whole.words[0]["start"] == 0
    assert whole.words[2]["end"] == 0.16
    assert whole.words[3]["start"] == 1.16
    assert whole.words[4]["end"] == 1.32


@pytest.mark.parametrize(
    ("turn", "kind", "param"),
    [
        ({"text": "Hello.", "voice": "nobody"}, UnknownVoice, "inputs.2.voice"),
        ({"text": " ", "voice": "ryan"}, EmptyText, "inputs.2.text"),
        ({"text": "x" * 5000, "voice": "ryan"}, TextTooLong, "inputs"),
    ],
)
async def test_turn_errors_are_reported_before_any_speech(
    turn: dict[str, Any], kind: type[SpeechError], param: str
) -> None:
    engine = ScriptedEngine(turns(3))
    with pytest.raises(kind) as raised:
        await spoken(engine, inputs=[*TURNS, turn])
    assert raised.value.param == param
    assert engine.requests == []


async def test_number_of_turns_and_voices_of_a_dialogue_is_limited() -> None:
    with pytest.raises(InvalidConfig, match=r"inputs: it must have at most 128 entries|at most 128"):
        read_speech({"inputs": [TURNS[0]] * 129})
    with pytest.raises(InvalidConfig, match="at most 10 voices"):
        await spoken(ScriptedEngine(), inputs=[{"text": "Hello.", "voice": f"voice {number}"} for number in range(11)])
    with pytest.raises(InvalidConfig, match="exclude each other"):
        read_speech({"inputs": TURNS, "input": "Hello."})
    with pytest.raises(InvalidConfig, match=r"inputs\.1\.text"):
        read_speech({"inputs": [TURNS[0], {"voice": "ryan"}]})


async def test_later_turn_of_a_dialogue_waits_while_the_queue_is_full() -> None:
    full = Refused(Overloaded(slots=1, waiting=8, retry_after_s=0.01))
    script = {1: turns(1)[1], 2: [full], 3: [full], 4: turns(4)[4]}
    engine = ScriptedEngine(script)
    assert (await spoken(engine, turn_pause_ms=0)).audio == chunk(2, 1).pcm + chunk(2, 4).pcm
    with pytest.raises(Overloaded):
        await spoken(ScriptedEngine({1: [full]}))


async def test_cancelling_a_dialogue_stops_the_current_turn_and_starts_no_other_turn() -> None:
    engine = ScriptedEngine({1: turns(1)[1], 2: []})  # The second turn has no events.
    async with hosting(engine) as host:
        body = read_speech({"inputs": [*TURNS, TURNS[0]], "response_format": "pcm"})
        pieces = SpeechResponder(host, body, host.library, "r").as_audio()
        reading = asyncio.create_task(_all_of(pieces))
        while len(engine.requests) < 2:  # noqa: ASYNC110  The engine has no event for it.
            await asyncio.sleep(0.001)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert engine.cancelled == [2]
    assert [each.text for each in engine.requests] == ["Is it late?", "It is."]


async def _all_of(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass


async def test_single_text_is_one_request() -> None:
    engine = ScriptedEngine(turns(1))
    requests: list[SpeechRequest] = engine.requests
    assert (await spoken(engine, inputs=None, input="Hello.", voice="ryan")).audio == chunk(2, 1).pcm
    assert [(each.text, each.voice) for each in requests] == [("Hello.", "ryan")]


async def narrated(text: str, **fields: Any) -> list[tuple[str, str | None]]:
    """Send a narration, and return the text and voice of each engine request."""
    engine = ScriptedEngine(turns(9))
    await spoken(engine, inputs=None, input=text, voice="serena", **fields)
    return [(each.text.strip(), each.voice) for each in engine.requests]


async def test_quotes_and_actions_use_their_configured_voices() -> None:
    text = '<think>"Hm."</think>\nHe waited. "Come in," she said. *He sits.*'
    assert await narrated(text, quoted_voice="ryan", action_voice="serena", text_filter="markdown") == [
        ("He waited.", "serena"),
        ('"Come in,"', "ryan"),
        ("she said.", "serena"),
        ("He sits.", "serena"),
    ]
    assert await narrated("Plain.", quoted_voice="ryan") == [("Plain.", "serena")]
    with pytest.raises(UnknownVoice) as raised:
        await narrated('He said: "Yes."', quoted_voice="nobody")
    assert raised.value.param == "quoted_voice"
    with pytest.raises(InvalidConfig, match="each of inputs has its voice"):
        read_speech({"inputs": TURNS, "quoted_voice": "ryan"})
    with pytest.raises(InvalidConfig, match="changes more than 128 times"):
        await narrated('"One." two. ' * 100, quoted_voice="ryan")
    with pytest.raises(EmptyText):
        await narrated(" ", quoted_voice="ryan")
