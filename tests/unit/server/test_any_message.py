"""Tests with random client messages in every API, each of which must get a response.

The messages are valid messages in which some fields are changed, so that many messages pass the first checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import SpeechError
from runtime.request import Finished, RequestStats, StopReason
from runtime.server.cartesia import schema as cartesia
from runtime.server.elevenlabs import schema as elevenlabs
from runtime.server.native import schema as native
from runtime.server.omni import schema as omni
from runtime.server.openai import schema as openai
from runtime.server.session.commands import Submit
from runtime.server.wyoming import schema as wyoming
from runtime.settings import Limits
from tests.unit.server import dialects
from tests.unit.server.dialects import DialectDriver

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["", "a", "english", "pcm"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

CARTESIA: dict[str, Any] = {
    "context_id": "a", "model_id": "sonic-2", "transcript": "Hello there.", "continue": True, "language": "en",
    "voice": {"mode": "id", "id": "anna"}, "add_timestamps": True, "duration": 1.5, "max_buffer_delay_ms": 100,
    "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}, "flush": False,
    "generation_config": {"speed": 1.0, "volume": 1.0, "emotion": "happy"},
}  # fmt: skip
ELEVENLABS: dict[str, Any] = {
    "text": "Hello there. ", "context_id": "a", "flush": True, "try_trigger_generation": True,
    "voice_settings": {"stability": 0.5, "speed": 1.1}, "generation_config": {"chunk_length_schedule": [50, 120]},
    "pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "x", "version_id": "y"}],
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "type": "session.config", "voice": "anna", "language": "english", "instructions": "Slowly.", "seed": 7,
    "task_type": "base", "ref_audio": "data:audio/wav;base64,AAAA", "ref_text": "Words.", "response_format": "pcm",
    "stream_audio": True, "split_granularity": "sentence", "streaming_mode": "token_level", "max_new_tokens": 50,
    "temperature": 0.9, "top_p": 0.8, "speed": 1.0,
}  # fmt: skip
OMNI = [CONFIG, {"type": "input.text", "text": "Hello there."}, {"type": "input.commit"}, {"type": "input.done"}]
WYOMING = [
    {"type": "describe", "data": {}},
    {"type": "ping", "data": {"text": "x"}},
    {"type": "synthesize", "data": {"text": "Hello there.", "voice": {"name": "anna", "language": "en"}}},
    {"type": "synthesize-start", "data": {"voice": {"name": "anna"}, "text_format": "text"}},
    {"type": "synthesize-chunk", "data": {"text": "Hello."}},
    {"type": "synthesize-stop", "data": {}},
]
SESSIONS: dict[str, tuple[Callable[[], DialectDriver], list[dict[str, Any]]]] = {
    "omni": (dialects.omni, OMNI),
    "cartesia": (
        dialects.cartesia,
        [CARTESIA, {"context_id": "a", "cancel": True}, {"context_id": "a", "flush": True}],
    ),
    "elevenlabs": (
        dialects.elevenlabs,
        [{**ELEVENLABS, "text": " "}, ELEVENLABS, {"context_id": "a", "close_context": True}, {"close_socket": True}],
    ),
    "elevenlabs of one": (lambda: dialects.elevenlabs(is_multi=False), [{"text": " "}, ELEVENLABS, {"text": ""}]),
    "wyoming": (dialects.wyoming, WYOMING),
}

SPEECH: dict[str, Any] = {
    "model": "tts-1", "input": "Hello there.", "voice": "anna", "response_format": "mp3", "speed": 1.0, "stream": True,
    "stream_format": "sse", "instructions": "Slowly.", "language": "english", "max_frames": 9, "seed": 3,
    "sample_rate": 8000, "tags": True, "pronunciations": [{"word": "a", "spoken": "b"}], "text_filter": "markdown",
}  # fmt: skip
LIMITS = Limits()
BODIES: dict[str, tuple[Callable[[dict[str, Any]], object], dict[str, Any]]] = {
    "native": (native.parse, CONFIG),
    "omni": (lambda fields: omni.read_config(fields, LIMITS), CONFIG),
    "openai": (openai.read_speech, SPEECH),
    "openai, batch": (lambda fields: openai.read_batch(fields, 32), {"items": [SPEECH], **SPEECH}),
    "cartesia": (lambda fields: cartesia.read(cartesia.BytesBody, fields, LIMITS), CARTESIA),
    "cartesia, events": (lambda fields: cartesia.read(cartesia.SseBody, fields, LIMITS), CARTESIA),
    "elevenlabs": (lambda fields: elevenlabs.read(elevenlabs.TextToSpeechBody, fields, LIMITS), ELEVENLABS),
    "wyoming": (wyoming.read, WYOMING[2]),
}


@st.composite
def changed(draw: st.DrawFn, message: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a message with some fields removed, added, or replaced at any depth."""
    result: dict[str, Any] = {}
    for name, value in message.items():
        match draw(st.integers(0, 7)):
            case 0:
                continue
            case 1:
                result[name] = draw(ANYTHING)
            case 2 if isinstance(value, dict):
                result[name] = draw(changed(value))
            case _:
                result[name] = value
    return {**result, **draw(st.dictionaries(st.text(max_size=6), ANYTHING, max_size=1))}


@pytest.mark.parametrize("name", list(SESSIONS))
@given(data=st.data())
def test_any_message_is_accepted_or_answered(name: str, data: st.DataObject) -> None:
    open_session, messages = SESSIONS[name]
    driver, ended = open_session(), 0
    for _ in range(data.draw(st.integers(1, 5))):
        message = data.draw(st.sampled_from(messages).flatmap(changed))
        driver.send(data.draw(st.just(message) | st.text(max_size=20) | ANYTHING.map(json.dumps)))
        for submitted in driver.submitted[ended:]:
            assert isinstance(submitted, Submit)
            if data.draw(st.booleans()):
                driver.start(submitted.utterance)
                driver.sound(submitted.utterance)
            reason = data.draw(st.sampled_from([StopReason.EOS, StopReason.CANCELLED]))
            driver.dialect.on_speech(submitted.utterance, Finished(stop_reason=reason, stats=RequestStats()))
            driver.gather()
        ended = len(driver.submitted)
        driver.heard()


@pytest.mark.parametrize("name", list(BODIES))
@given(data=st.data())
def test_any_body_is_accepted_or_refused(name: str, data: st.DataObject) -> None:
    read, body = BODIES[name]
    with suppress(SpeechError):
        read(data.draw(changed(body)))
