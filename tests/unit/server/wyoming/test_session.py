"""Tests for Wyoming's session: complete and streamed texts, and the list of voices."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.errors import Draining, VoiceNotFound
from runtime.request import Finished, Mode, RequestStats, StopReason
from runtime.server.session.commands import Append, Flush, Submit
from runtime.settings import Limits
from tests.unit.server.dialects import STORED, Clock, DialectDriver, wyoming


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def in_pieces(driver: DialectDriver, *pieces: str, **voice: Any) -> None:
    driver.send(event("synthesize-start", voice=voice or None))
    for piece in pieces:
        driver.send(event("synthesize-chunk", text=piece))


# --- Tests of the requests that the engine receives.


def test_complete_text_is_one_request() -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="Hello *there*.", voice={"name": "bert"}, context={"any": "thing"}))
    (submit,) = driver.commands
    assert isinstance(submit, Submit)
    request = submit.request
    assert (request.text, request.open_text, request.voice, request.language) == (
        "Hello *there*.",
        False,
        "bert",
        "auto",
    )
    assert request.mode is Mode.CUSTOM_VOICE
    assert request.bans_eos
    assert request.acknowledged


def test_streamed_text_is_one_request_without_markdown() -> None:
    driver = wyoming()
    in_pieces(driver, "Hello **th", "ere**. ", "More.", name="anna")
    assert driver.submitted[0].request.open_text
    # Clients also send the whole text, for servers without streaming.
    driver.send(event("synthesize", text="Hello **there**. More."))
    driver.send(event("synthesize-stop"))
    assert driver.received_text == "Hello there. More.|"
    assert len(driver.submitted) == 1


def test_pause_after_a_sentence_triggers_speech() -> None:
    clock = Clock()
    driver = wyoming(Limits(max_buffer_delay_ms=300), clock)
    in_pieces(driver, "Is it you?")
    clock.now = 0.31
    driver.dialect.tick()
    driver.gather()
    assert isinstance(driver.commands[-1], Flush)


@pytest.mark.parametrize(
    ("voice", "speaker", "language"),
    [
        (None, None, "auto"),
        ({}, None, "auto"),
        ({"name": "Anna"}, "anna", "auto"),
        ({"speaker": "bert"}, "bert", "auto"),
        ({"name": "tiny"}, None, "auto"),
        ({"name": "tiny", "speaker": "bert"}, "bert", "auto"),
        ({"name": None, "language": "en"}, None, "english"),
        ({"language": "en_GB"}, None, "english"),
        ({"language": "nl"}, None, "nl"),  # The engine refuses languages that it does not support.
        ({"name": "alloy"}, "anna", "auto"),
    ],
)
def test_voice_is_selected_by_name_speaker_model_or_language(
    voice: dict[str, Any] | None, speaker: str | None, language: str
) -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="Hi.", voice=voice))
    request = driver.submitted[0].request
    assert (request.mode, request.voice, request.language) == (Mode.CUSTOM_VOICE, speaker, language)


@pytest.mark.parametrize("name", ["grandmother", "v1"])
def test_request_is_submitted_after_its_stored_voice_has_been_read(name: str) -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="Hi.", voice={"name": name}))
    assert not driver.submitted
    driver.dialect.on_reference(1, STORED)
    driver.gather()
    request = driver.submitted[0].request
    assert request.mode is Mode.BASE
    assert request.reference.text == "Stored words."


# --- Tests of the replies to a client.


def test_complete_text_is_answered_with_start_audio_and_stop() -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="Hi."))
    driver.start(1)
    pcm = driver.send_audio(1) + driver.send_audio(1, first=1)
    driver.finish(1)
    start, *sound, stop = driver.pop_messages()
    assert start == event("audio-start", rate=24_000, width=2, channels=1)
    assert b"".join(sound) == pcm
    assert stop == event("audio-stop")


def test_events_for_streamed_text_start_before_its_end() -> None:
    driver = wyoming()
    in_pieces(driver, "One. ", "Two.")
    driver.send_audio(1)
    assert driver.kinds() == ["audio-start", "sound"]
    driver.send(event("synthesize-stop"))
    driver.finish(1)
    assert driver.kinds() == ["audio-stop", "synthesize-stopped"]


def test_streamed_text_without_words_ends_without_the_engine() -> None:
    driver = wyoming()
    in_pieces(driver, "```\n", "print('no')\n", "```")
    driver.send(event("synthesize-stop"))
    assert not driver.submitted
    assert driver.kinds() == ["synthesize-stopped"]
    driver.send(event("synthesize", text="And now."))
    assert len(driver.submitted) == 1


def test_texts_are_spoken_in_order() -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="One."))
    in_pieces(driver, "Two.")
    driver.send(event("synthesize-stop"))
    driver.send(event("synthesize", text="Three."))
    driver.send(event("ping", text="still there?"))
    assert driver.received_text == "One.|"
    # The pong is sent immediately, because it does not belong to a text.
    assert driver.pop_messages() == [event("pong", text="still there?")]
    driver.finish(1)
    assert driver.received_text == "One.|Two.|"
    driver.finish(2)
    assert driver.received_text == "One.|Two.|Three.|"
    driver.finish(3)
    assert driver.kinds() == ["audio-start", "audio-stop"] * 2 + ["synthesize-stopped", "audio-start", "audio-stop"]


def test_queued_texts_are_filtered_on_arrival_and_finished_in_small_batches() -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="One."))
    for _ in range(40):
        in_pieces(driver, "```\n", "print('no')\n", "```")
        driver.send(event("synthesize-stop"))
    driver.dialect.on_speech(1, Finished(stop_reason=StopReason.EOS, stats=RequestStats()))
    heard = [driver.kinds()]
    while driver.dialect.has_work:
        driver.dialect.work()
        heard.append(driver.kinds())
    assert max(map(len, heard)) <= 18
    assert sum(kinds.count("synthesize-stopped") for kinds in heard) == 40


def test_error_is_sent_after_the_audio_of_earlier_texts() -> None:
    driver = wyoming(Limits(max_text_chars=20))
    driver.send(event("synthesize", text="One."))
    in_pieces(driver, "Two.")
    driver.send(event("synthesize-stop"))
    in_pieces(driver, "x" * 11, "x" * 11)
    driver.send(event("synthesize", text="Three."))
    driver.start(1)
    driver.finish(1)
    assert driver.kinds() == ["audio-start", "audio-stop"]
    driver.finish(2)
    assert driver.kinds() == ["audio-start", "audio-stop", "synthesize-stopped", "text_too_long", "close 1008"]
    assert driver.received_text == "One.|Two.|"


def test_socket_is_not_read_while_its_queue_is_full() -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="One."))
    for _ in range(65):
        assert not driver.dialect.is_congested
        driver.send(event("synthesize", text="More."))
    assert driver.dialect.is_congested
    driver.finish(1)
    driver.pop_messages()
    assert not driver.dialect.is_congested


# --- Tests of the error messages that a client receives.


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([event("synthesize", text="Hi.", voice={"name": "nobody"})], "unknown_voice"),
        ([event("synthesize", text="Hi.", voice={"name": "tiny", "speaker": "nobody"})], "unknown_voice"),
        ([event("synthesize", text="<speak>Hi.</speak>", text_format="ssml")], "invalid_config"),
        ([event("synthesize", text="x" * 21)], "text_too_long"),
        ([event("synthesize-start"), *[event("synthesize-chunk", text="x" * 11)] * 2], "text_too_long"),
        ([event("synthesize")], "invalid_config"),
        ([{"type": "synthesize", "data": []}], "invalid_config"),
        ([{"type": None, "data": {}}], "invalid_config"),
    ],
)
def test_error_is_sent_as_one_sentence_and_closes_the_connection(events: list[dict[str, Any]], code: str) -> None:
    driver = wyoming(Limits(max_text_chars=20))
    for sent in events:
        driver.send(sent)
    error, _ = driver.pop_messages()
    assert error["type"] == "error"
    assert error["data"]["code"] == code
    assert error["data"]["text"].endswith(".")
    assert driver.dialect.closed


def test_unreadable_voice_is_reported() -> None:
    driver = wyoming()
    driver.send(event("synthesize", text="Hi.", voice={"name": "v1"}))
    driver.dialect.on_reference(1, VoiceNotFound())
    assert driver.kinds() == ["voice_not_found", "close 1008"]


def test_shutdown_drops_unsent_audio() -> None:
    driver = wyoming()
    in_pieces(driver, "One. ")
    driver.send_audio(1)
    driver.dialect.close_with(Draining(), 1001)
    driver.gather()
    assert driver.cancelled == [1]
    assert driver.kinds() == ["audio-start", "draining", "close 1001"]
    driver.send(event("synthesize-chunk", text="Two."))
    assert not driver.commands_of(Append)


# --- Tests of the list of voices.


def test_every_voice_is_described_with_its_languages() -> None:
    driver = wyoming()
    driver.send(event("describe"))
    (info,) = driver.pop_messages()
    assert info["type"] == "info"
    (program,) = info["data"].pop("tts")
    assert info["data"] == {name: [] for name in ("asr", "handle", "intent", "wake", "mic", "snd")}
    assert program["supports_synthesize_streaming"] is True
    assert {voice["name"]: (voice["description"], voice["languages"]) for voice in program["voices"]} == {
        "anna": ("anna", ["en"]),
        "bert": ("bert", ["en"]),
        "v1": ("Grandmother", ["en"]),
    }
    for entry in (program, *program["voices"]):
        assert entry["installed"] is True
        assert entry["version"]
        assert entry["attribution"].keys() == {"name", "url"}
