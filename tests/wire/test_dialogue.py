"""Tests for dialogues over HTTP: OpenAI's route, its events and disconnects."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from runtime.settings import DEMO_CHECKPOINT, EngineSettings
from tests.support.runtime_server import RunningServer, running_server
from voicewright import SpeechRefused
from voicewright.sync import connect

TURNS: list[Any] = [
    {"voice": "clara", "text": "Is the kettle on?"},
    {"voice": "angus", "text": "It has been on for a while."},
    {"voice": "clara", "text": "Good."},
]
BODY: dict[str, Any] = {"inputs": TURNS, "language": "English", "seed": 7, "response_format": "pcm"}


@pytest.fixture(scope="module")
def talking() -> Iterator[RunningServer]:
    """Run a server with the embedded voice and one slot, which is enough for a dialogue."""
    with running_server(DEMO_CHECKPOINT, engine=EngineSettings(threads=1, max_slots=1)) as running:
        yield running


def post(server: RunningServer, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.http}/v1/audio/speech", json={**BODY, **fields}, timeout=60)


def test_dialogue_audio_consists_of_its_turns_with_pauses(talking: RunningServer) -> None:
    whole = post(talking, stream=False, turn_pause_ms=400)
    alone = [post(talking, inputs=None, input=turn["text"], voice=turn["voice"]).content for turn in TURNS]
    assert whole.content == bytes(19_200).join(alone)
    assert whole.headers["x-seed"] == "7"
    assert whole.headers["x-stop-reason"] == "eos"


def test_events_time_the_words_of_all_turns(talking: RunningServer) -> None:
    reply = post(talking, stream_format="sse", timestamp_granularities=["word"])
    events = [json.loads(block.split("data: ")[1]) for block in reply.text.strip().split("\n\n")]
    pcm = b"".join(base64.b64decode(event["audio"]) for event in events if event["type"] == "speech.audio.delta")
    words = [word for event in events if event["type"] == "speech.audio.timestamps" for word in event["words"]]
    assert " ".join(word["word"] for word in words) == " ".join(turn["text"] for turn in TURNS)
    assert [word["input_index"] for word in words] == [0] * 4 + [1] * 7 + [2]
    edges = [time for word in words for time in (word["start"], word["end"])]
    assert edges == sorted(edges)
    assert abs(edges[-1] - len(pcm) / 48_000) < 0.001
    assert events[-1]["metrics"]["parts"] == 3


def test_disconnect_ends_the_dialogue(talking: RunningServer) -> None:
    before = talking.frames_made()
    with httpx.stream("POST", f"{talking.http}/v1/audio/speech", json={**BODY, "inputs": TURNS * 40}) as reply:
        next(reply.iter_bytes())
    talking.wait_until_idle()
    assert talking.frames_made() - before < 400  # The complete dialogue would have about 4,000 frames.
    assert post(talking).status_code == 200  # The next request can use the slot.


def test_quotes_in_a_narration_use_the_quoted_voice(talking: RunningServer) -> None:
    text = 'She waited. "Come in." He came.'
    fields = {"inputs": None, "turn_pause_ms": 0}
    narrated = post(talking, **fields, input=text, voice="clara", quoted_voice="angus")
    parts = [("clara", "She waited."), ("angus", '"Come in."'), ("clara", "He came.")]
    turns = [{"voice": voice, "text": part} for voice, part in parts]
    assert narrated.content == post(talking, inputs=turns, turn_pause_ms=0).content


def test_native_dialogue_has_the_same_audio_as_the_openai_route(talking: RunningServer) -> None:
    with connect(talking.socket) as client:
        with client.speak(inputs=[*TURNS], turn_pause_ms=400, language="English", seed=7) as speech:
            chunks = list(speech)
        pcm = b"".join(chunk.pcm for chunk in chunks)
        assert pcm == post(talking, stream=False, turn_pause_ms=400).content
        assert [chunk.first_sample for chunk in chunks] == [
            sum(len(chunk.pcm) for chunk in chunks[:index]) // 2 for index in range(len(chunks))
        ]
        assert speech.done is not None
        assert (speech.done.seed, speech.done.stats.parts) == (7, 3)

        with pytest.raises(SpeechRefused) as caught:
            client.speak(inputs=[*TURNS, {"voice": "nobody", "text": "No."}]).read()
        assert (caught.value.code, caught.value.param) == ("unknown_voice", "inputs.3.voice")
        assert client.speak("Still here.", voice="clara", seed=7).read()


def test_cancelled_native_dialogue_frees_its_slot(talking: RunningServer) -> None:
    before = talking.frames_made()
    with connect(talking.socket) as client:
        with client.speak(inputs=TURNS * 40, language="English", seed=7) as speech:
            next(iter(speech))
        talking.wait_until_idle()
        assert talking.frames_made() - before < 400
        assert client.speak("Still here.", voice="clara", seed=7).read()
