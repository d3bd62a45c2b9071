"""Tests for vLLM-Omni's session: message formats, texts and the end of a session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import BadReferenceAudio, Draining, GenerationFailed, Overloaded, QueueTimeout, UnsupportedLanguage
from runtime.request import Broken, Layout, Mode, Queued, RequestStats, Split
from runtime.server.session.commands import AudioMessage, Close, DecodeReference, ReadStoredVoice
from runtime.settings import Limits
from tests.unit.server.dialects import REFERENCE, STORED, Clock, DialectDriver, omni

STREAM = {"stream_audio": True, "response_format": "pcm"}


def configured(limits: Limits | None = None, clock: Clock | None = None, **fields: Any) -> DialectDriver:
    driver = omni(limits, clock)
    driver.send({"type": "session.config", **fields})
    assert driver.pop_messages() == []
    return driver


def say(driver: DialectDriver, *texts: str) -> None:
    for text in texts:
        driver.send({"type": "input.text", "text": text})
    driver.send({"type": "input.done"})


def text_of(driver: DialectDriver) -> list[str]:
    return [item["message"] if isinstance(item, dict) else f"close {item.code}" for item in driver.pop_messages()]


# --- Tests of a single utterance.


def test_streamed_utterance_gets_vllm_omni_messages() -> None:
    driver = configured(**STREAM)
    say(driver, "Hello ", "there.")
    assert driver.pop_messages() == [
        {
            "type": "audio.start",
            "utterance_index": 0,
            "sentence_index": 0,
            "sentence_text": "Hello there.",
            "format": "pcm",
            "sample_rate": 24000,
            "channels": 1,
        }
    ]
    (submit,) = driver.submitted
    driver.start(submit.utterance, seed=5, notes=("It is another voice.",))
    pcm = driver.send_audio(submit.utterance, frames=4)
    messages = driver.pop_messages()
    assert b"".join(messages) == pcm
    assert [len(piece) for piece in messages] == [12_000, 3_360]
    driver.finish(submit.utterance, notes=("A letter was strange.",))
    done, end = driver.pop_messages()
    metrics = done.pop("metrics")
    assert done == {
        "type": "audio.done",
        "utterance_index": 0,
        "sentence_index": 0,
        "total_bytes": len(pcm),
        "error": False,
        "notes": ["It is another voice.", "A letter was strange."],
    }
    assert (metrics["stop_reason"], metrics["seed"], metrics["frames"]) == ("eos", 5, 1)
    assert end == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}


def test_single_segment_requires_split_granularity_none() -> None:
    for fields, split in (({}, Split.AUTO), ({"split_granularity": "none"}, Split.NONE)):
        driver = configured(**fields)
        say(driver, "Hello.")
        assert driver.submitted[0].request.split is split


def test_each_sentence_is_one_file_if_stream_audio_is_off() -> None:
    driver = configured()
    say(driver, "Hello.")
    (start,) = driver.pop_messages()
    assert (start["format"], "sample_rate" in start) == ("wav", False)
    (submit,) = driver.submitted
    assert not submit.request.acknowledged  # No audio is sent before the file is complete.
    driver.start(submit.utterance)
    pcm = driver.send_audio(submit.utterance) + driver.send_audio(submit.utterance, first=1)
    assert driver.pop_messages() == []
    driver.finish(submit.utterance)
    sound = driver.dialect.pop_message()
    assert isinstance(sound, AudioMessage)
    assert (sound.data, sound.number, sound.samples) == (b"[wav@1:" + pcm + b"]", submit.utterance, 3840)
    done, end = driver.pop_messages()
    assert done["total_bytes"] == len(sound.data)
    assert end["type"] == "session.done"


def test_formats_and_speeds_reach_the_encoder() -> None:
    driver = configured(response_format="opus", speed=1.5)
    say(driver, "Hello.")
    driver.finish(1)
    assert driver.pop_messages()[1] == b"[opus@1.5:]"


def test_request_has_the_configured_fields() -> None:
    driver = configured(
        speaker="ANNA",
        task_type="CustomVoice",
        language="English",
        instructions="Softly.",
        max_new_tokens=21,
        initial_codec_chunk_frames=2,
        non_streaming_mode=False,
        seed=9,
        unheard_of={"a": 1},
        context_id="not ours!",
        frames=7,
        **STREAM,
    )
    say(driver, "Hello.")
    request = driver.submitted[0].request
    assert (request.mode, request.voice, request.language) == (Mode.CUSTOM_VOICE, "anna", "English")
    assert (request.instruct, request.seed, request.max_frames) == ("Softly.", 9, 20)
    assert (request.layout, request.first_chunk_frames, request.split) == (Layout.STREAMING, 2, Split.AUTO)
    assert request.bans_eos
    assert request.acknowledged
    assert not request.open_text


def test_newer_streaming_field_name_is_accepted() -> None:
    driver = configured(streaming_mode="token_level")
    say(driver, "Hello.")
    assert driver.pop_messages()[0]["sample_rate"] == 24000


def test_utterance_without_text_ends_immediately() -> None:
    driver = configured()
    say(driver, "")
    say(driver, " \n")
    ends = [{"type": "session.done", "utterance_index": index, "total_sentences": 0} for index in (0, 1)]
    assert driver.pop_messages() == ends


# --- Tests of splitting text into sentences.


def test_sentences_are_requests_with_one_seed_and_the_next_sentence_is_prefetched() -> None:
    driver = configured(split_granularity="sentence", **STREAM)
    driver.send({"type": "input.text", "text": "One. Two. Three"})
    assert [submit.request.text for submit in driver.submitted] == ["One."]
    driver.start(1, seed=33)
    assert [submit.request.text for submit in driver.submitted] == ["One.", "Two."]
    driver.send({"type": "input.done"})
    driver.start(2, seed=33)
    first = driver.send_audio(1)
    second = driver.send_audio(2)
    assert driver.kinds() == ["audio.start", "sound"]  # The second sentence's audio waits.
    driver.finish(2)
    assert driver.kinds() == []
    assert len(driver.submitted) == 2  # At most one sentence is prefetched.
    driver.finish(1)
    messages = driver.pop_messages()
    assert [item["type"] if isinstance(item, dict) else item for item in messages] == [
        "audio.done",
        "audio.start",
        second,
        "audio.done",
        "audio.start",
    ]
    assert first != b""
    assert [submit.request.text for submit in driver.submitted] == ["One.", "Two.", "Three"]
    assert [submit.request.seed for submit in driver.submitted] == [None, 33, 33]
    driver.finish(3)
    assert driver.pop_messages()[-1] == {"type": "session.done", "utterance_index": 0, "total_sentences": 3}


@pytest.mark.parametrize("how", ["refused", "broken"])
def test_sentence_that_cannot_be_prefetched_waits_for_its_turn(how: str) -> None:
    driver = configured(split_granularity="sentence", **STREAM)
    say(driver, "One. Two.")
    driver.start(1)
    if how == "refused":
        driver.dialect.on_refused(2, Overloaded(slots=1, waiting=1, retry_after_s=1.0))
    else:
        driver.dialect.on_speech(2, Queued(0))
        driver.dialect.on_speech(2, Broken(QueueTimeout(limit=1.0, retry_after_s=1.0), RequestStats()))
    driver.send_audio(1)
    assert len(driver.submitted) == 2
    driver.finish(1)
    assert [submit.request.text for submit in driver.submitted] == ["One.", "Two.", "Two."]
    driver.send_audio(3)
    driver.finish(3)
    assert driver.kinds().count("audio.done") == 2


def test_refused_sentence_is_reported_in_its_turn() -> None:
    driver = configured(**STREAM)
    say(driver, "One.")
    driver.dialect.on_refused(1, Overloaded(slots=1, waiting=1, retry_after_s=1.0))
    assert driver.kinds() == ["audio.start", "overloaded", "audio.done", "session.done"]


def test_sentences_of_an_unusable_voice_are_finished_in_small_batches() -> None:
    driver = configured(split_granularity="sentence", task_type="Base", ref_audio="AAAA", x_vector_only_mode=True)
    say(driver, "One. " * 100)
    driver.dialect.on_reference(driver.uploads[0].upload, BadReferenceAudio(why="it is silent"))
    heard = [driver.kinds()]
    while driver.dialect.has_work:
        driver.dialect.work()
        heard.append(driver.kinds())
    assert max(map(len, heard)) <= 48
    assert [kind for kinds in heard for kind in kinds][-1] == "session.done"
    assert sum(kinds.count("audio.done") for kinds in heard) == 100


def test_next_utterance_may_be_sent_while_one_is_speaking() -> None:
    driver = configured(**STREAM)
    say(driver, "One.")
    # The configuration arrives between two utterances.
    driver.send({"type": "session.config", "speaker": "anna", "seed": 4, **STREAM})
    say(driver, "Two.")
    driver.start(1)
    driver.finish(1)
    driver.finish(2)
    ends = [item for item in driver.pop_messages() if item["type"] == "session.done"]
    assert [end["utterance_index"] for end in ends] == [0, 1]
    assert [submit.request.seed for submit in driver.submitted] == [None, 4]


# --- Tests of the selection of a voice.


def test_reference_audio_is_decoded_once_and_awaited() -> None:
    driver = configured(task_type="Base", ref_audio="AAAA", ref_text="The words.", **STREAM)
    assert driver.uploads == [DecodeReference(1, "AAAA")]
    say(driver, "One.")
    assert driver.submitted == []
    driver.dialect.on_reference(1, REFERENCE)
    driver.gather()
    reference = driver.submitted[0].request.reference
    assert reference is not None
    assert (reference.samples is REFERENCE.samples, reference.text) == (True, "The words.")
    driver.finish(1)
    say(driver, "Two.")
    assert len(driver.uploads) == 1
    assert len(driver.submitted) == 2


def test_stored_voice_uses_its_own_transcript() -> None:
    driver = configured(voice="grandmother", **STREAM)
    assert driver.uploads == [ReadStoredVoice(1, "v1")]
    driver.dialect.on_reference(1, STORED)
    say(driver, "One.")
    request = driver.submitted[0].request
    assert request.mode is Mode.BASE
    assert request.voice is None
    assert request.reference is not None
    assert request.reference.text == "Stored words."


def test_unusable_reference_fails_each_sentence_of_the_utterance() -> None:
    driver = configured(ref_audio="AAAA", ref_text="x", split_granularity="sentence", **STREAM)
    say(driver, "One. Two.")
    driver.dialect.on_reference(1, BadReferenceAudio(why="it is silent"))
    messages = driver.pop_messages()
    assert [item["type"] for item in messages] == ["audio.start", "error", "audio.done"] * 2 + ["session.done"]
    prefix = "Generation failed for utterance 0, sentence 1: The reference audio cannot be used"
    assert messages[4]["message"].startswith(prefix)


# --- Tests of the error messages that a client receives.


def test_failure_is_sent_between_start_and_done_and_the_session_continues() -> None:
    driver = configured(**STREAM)
    say(driver, "One.")
    driver.start(1)
    driver.send_audio(1)
    driver.dialect.on_speech(1, Broken(GenerationFailed(), RequestStats()))
    _, sound, error, done, end = driver.pop_messages()
    assert error == {
        "type": "error",
        "message": f"Generation failed for utterance 0, sentence 0: {GenerationFailed()}",
        "code": "generation_failed",
        "retryable": True,
        "partial_audio": True,
        "action": "discard",
    }
    assert done["error"] is True
    assert done["total_bytes"] == len(sound)
    assert end["total_sentences"] == 1
    say(driver, "Two.")
    assert len(driver.submitted) == 2


def test_incomplete_file_is_not_sent() -> None:
    driver = configured()
    say(driver, "One.")
    driver.send_audio(1)
    driver.dialect.on_speech(1, Broken(UnsupportedLanguage(known="english"), RequestStats()))
    _, error, done, _ = driver.pop_messages()
    assert "partial_audio" not in error
    assert (error["code"], done["total_bytes"], done["error"]) == ("unsupported_language", 0, True)


FIRST = [
    ("{", "Invalid JSON message"),
    ("[1]", "WebSocket messages must be JSON objects"),
    ('"x"', "WebSocket messages must be JSON objects"),
    ('{"type":"input.text","text":"x"}', "Expected session.config, got: input.text"),
    ('{"no":"type"}', "Expected session.config, got: None"),
    ('{"type":"session.config","speed":9}', "Invalid session config: speed is not valid: "),
    ('{"type":"session.config","stream_audio":true}', "Invalid session config: stream_audio is not valid: "),
    (
        '{"type":"session.config","stream_audio":true,"response_format":"pcm","speed":2}',
        "Invalid session config: stream_audio is not valid: ",
    ),
    ('{"type":"session.config","word_timestamps":true}', "Invalid session config: word_timestamps is not valid: "),
    ('{"type":"session.config","response_format":"ogg"}', "Invalid session config: response_format is not valid: "),
    (
        '{"type":"session.config","speaker_embedding":[1],"task_type":"CustomVoice"}',
        "Invalid session config: speaker_embedding is not valid: only Base uses one",
    ),
    ('{"type":"session.config","voice":"nobody"}', "Invalid session config: There is no voice of that name"),
    ('{"type":"session.config","model":"nothing"}', "Invalid session config: No model of that name is loaded"),
    ('{"type":"session.config","task_type":"VoiceDesign"}', "Invalid session config: No loaded checkpoint"),
    ('{"type":"session.config","max_new_tokens":9999}', "Invalid session config: max_new_tokens is not valid: "),
    (json.dumps({"type": "session.config", "ref_audio": "A" * 2**22}), "session.config message too large"),
    (json.dumps({"type": "input.text", "text": "A" * 2**17}), "input.text message too large"),
]


@pytest.mark.parametrize(("message", "text"), FIRST, ids=[text[:60] for _, text in FIRST])
def test_only_an_error_in_the_first_message_ends_the_session(message: str, text: str) -> None:
    driver = omni()
    driver.send(message)
    error, close = driver.pop_messages()
    assert error["message"].startswith(text)
    assert error["message"] == text or text.startswith("Invalid session config")
    assert close == Close(1000, error["code"])
    assert driver.dialect.closed
    if not text.startswith("Expected"):
        later = configured()
        later.send(message)
        (error,) = later.pop_messages()
        assert error["message"].startswith(text)
        assert not later.dialect.closed


def test_configuration_during_an_utterance_is_refused() -> None:
    driver = configured(**STREAM)
    driver.send({"type": "input.text", "text": "One"})
    driver.send({"type": "session.config", "response_format": "mp3"})
    text = "session.config cannot be applied while an utterance is in progress; send input.done first"
    assert text_of(driver) == [text]
    driver.send({"type": "input.done"})
    assert driver.pop_messages()[0]["format"] == "pcm"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "input.text", "text": 7}, "input.text requires a string value"),
        ({"type": "input.text", "txt": "Hello."}, "input.text requires a string value"),
        ({"type": "input.text", "text": None}, "input.text requires a string value"),
        ({"type": "context.cancel"}, "Unknown message type: context.cancel"),
        ({"type": "x" * 100}, "Unknown message type: " + "x" * 64),
    ],
)
def test_error_messages_equal_the_messages_of_vllm_omni(message: dict[str, Any], text: str) -> None:
    driver = configured()
    driver.send(message)
    assert text_of(driver) == [text]


def test_text_over_the_limit_is_refused_once_and_later_text_is_ignored() -> None:
    driver = configured(Limits(max_text_chars=20), **STREAM)
    say(driver, "x" * 15, "x" * 15, "x" * 15)
    assert driver.kinds() == ["audio.start", "text_too_long", "audio.done", "session.done"]
    assert driver.submitted == []
    say(driver, "Short.")
    assert len(driver.submitted) == 1


def test_socket_is_not_read_while_its_queue_is_full() -> None:
    driver = configured(split_granularity="sentence", **STREAM)
    driver.send({"type": "input.text", "text": "A. " * 300})
    assert driver.dialect.is_congested
    for number in range(1, 60):
        driver.start(number)
        driver.finish(number)
    driver.pop_messages()
    assert not driver.dialect.is_congested


# --- Tests of timeouts and of the end of a connection.


def test_timeouts_equal_the_timeouts_of_vllm_omni() -> None:
    clock = Clock()
    driver = omni(clock=clock)
    assert driver.dialect.deadline == 10
    clock.now = 10
    driver.dialect.tick()
    assert text_of(driver) == ["Timeout waiting for session.config", "close 1000"]
    clock.now = 0
    driver = configured(clock=clock, **STREAM)
    clock.now = 5
    say(driver, "One.")
    driver.pop_messages()
    clock.now = 200
    driver.dialect.tick()
    assert driver.pop_messages() == []  # A session that is speaking is not idle.
    driver.finish(1)
    driver.pop_messages()
    assert driver.dialect.deadline == 230
    clock.now = 230
    driver.dialect.tick()
    assert text_of(driver) == ["Idle timeout: no message received", "close 1000"]


def test_session_has_a_maximum_duration_even_while_speaking() -> None:
    clock = Clock()
    driver = configured(Limits(session_s=100), clock, **STREAM)
    say(driver, "One.")
    driver.start(1)
    driver.pop_messages()
    assert driver.dialect.deadline == 100
    clock.now = 100
    driver.dialect.tick()
    driver.gather()
    assert driver.cancelled == [1]
    assert driver.kinds() == ["session_timeout", "audio.done", "session_timeout", "close 1008"]


def test_session_close_waits_for_pending_speech() -> None:
    driver = configured(**STREAM)
    say(driver, "One.")
    driver.send({"type": "session.close"})
    driver.send({"type": "input.text", "text": "Not heard."})
    driver.send({"type": "input.done"})
    driver.finish(1)
    assert driver.kinds() == ["audio.start", "audio.done", "session.done", "close 1000"]
    assert len(driver.submitted) == 1


def test_server_shutdown_is_reported_with_a_reason() -> None:
    driver = configured(**STREAM)
    say(driver, "One.")
    driver.pop_messages()
    driver.dialect.close_with(Draining(), 1001)
    driver.gather()
    assert driver.cancelled == [1]
    assert driver.kinds() == ["draining", "audio.done", "draining", "close 1001"]


def test_binary_messages_are_refused() -> None:
    driver = configured()
    driver.dialect.receive_bytes()
    assert driver.kinds() == ["invalid_json", "close 1003"]
