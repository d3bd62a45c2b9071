"""Tests for Cartesia's session: client messages, responses and engine commands."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from runtime.errors import Draining, GenerationFailed, Overloaded, VoiceNotFound
from runtime.request import OTHER_SPEAKER, Broken, Mode, Queued, RequestStats, StopReason, WaitingForText
from runtime.server.session.commands import Append, FinishText, Flush, ReadStoredVoice, Submit, TextMessage
from runtime.settings import Limits
from tests.unit.server.dialects import STORED, Clock, DialectDriver, cartesia

NATIVE = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}


def generation(text: str = "Hello there.", context: str | None = "c", **fields: Any) -> dict[str, Any]:
    return {
        "model_id": "sonic-3",
        "transcript": text,
        "voice": {"mode": "id", "id": "anna"},
        "language": "en",
        "context_id": context,
        "output_format": NATIVE,
        **fields,
    }


def sound_of(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(message["data"]) for message in messages if message["type"] == "chunk")


# --- Tests of a single context.


def test_complete_text_is_answered_with_cartesia_messages() -> None:
    driver = cartesia()
    driver.send(generation())
    (submit,) = driver.commands
    assert isinstance(submit, Submit)
    request = submit.request
    assert (request.text, request.open_text, request.voice, request.language) == (
        "Hello there.",
        False,
        "anna",
        "english",
    )
    assert request.mode is Mode.CUSTOM_VOICE
    assert request.bans_eos
    assert request.acknowledged
    driver.dialect.on_speech(1, Queued(0))
    driver.start(1)
    pcm = driver.send_audio(1)
    item = driver.dialect.pop_message()
    assert isinstance(item, TextMessage)
    assert (item.number, item.samples) == (1, 1920)
    driver.finish(1)
    assert driver.pop_messages() == [{"type": "done", "context_id": "c", "done": True, "status_code": 206}]
    driver.send(generation())
    again = driver.submitted[1].utterance
    assert driver.send_audio(again) == pcm
    (chunk,) = driver.pop_messages()
    assert base64.b64decode(chunk.pop("data")) == pcm
    assert chunk.pop("step_time") == 0
    assert chunk == {"type": "chunk", "context_id": "c", "done": False, "status_code": 206, "flush_id": 1}


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        (StopReason.SHORT, "The speech is much shorter than its text; words are missing."),
        (
            StopReason.RUNAWAY,
            "The speech did not end with its text and was stopped; words may be missing, wrong or repeated.",
        ),
    ],
)
def test_notes_are_sent_once_in_the_last_message_of_the_context(reason: StopReason, note: str) -> None:
    driver = cartesia()
    driver.send(generation(voice={"mode": "id", "id": "alloy"}, flush=True, **{"continue": True}))
    assert driver.submitted[0].request.notes == (OTHER_SPEAKER.format(speaker="anna"),)
    driver.start(1, notes=("It is another voice.",))
    driver.finish(1, notes=("A letter was strange.",))
    driver.send(generation("And more."))
    last = driver.submitted[1].utterance
    driver.start(last, notes=("It is another voice.",))
    driver.finish(last, reason)
    *_, done = driver.pop_messages()
    assert (done["type"], done["notes"]) == (
        "done",
        ["It is another voice.", "A letter was strange.", note],
    )


def test_long_chunks_are_split_without_losing_samples() -> None:
    driver = cartesia()
    driver.send(generation(output_format={**NATIVE, "encoding": "pcm_mulaw", "sample_rate": 8000}))
    driver.send_audio(1, frames=16)
    driver.finish(1)
    items = []
    while (item := driver.dialect.pop_message()) is not None:
        assert isinstance(item, TextMessage)
        items.append(item)
    # Samples that the resampler has delayed are counted in a later message.
    assert max(item.samples for item in items) <= 6000 + 720
    assert sum(item.samples for item in items) == 16 * 1920


def test_resampled_audio_has_the_exact_length() -> None:
    driver = cartesia()
    driver.send(generation(output_format={"container": "raw", "encoding": "pcm_f32le", "sample_rate": 44100}))
    driver.send_audio(1, frames=4)
    driver.finish(1)
    assert abs(len(sound_of(driver.pop_messages())) // 4 - 4 * 1920 * 441 // 240) <= 1


def test_streamed_text_is_forwarded_to_the_engine_immediately() -> None:
    """Cartesia's own client calls the methods push, push and no_more_inputs."""
    driver = cartesia()
    driver.send(generation("Hello ", **{"continue": True}))
    assert [submit.request.open_text for submit in driver.submitted] == [True]
    driver.send(generation("there.", **{"continue": True}))
    driver.send_audio(1)  # Audio starts before the text is complete.
    driver.send(generation("", **{"continue": False}))
    assert driver.received_text == "Hello there.|"
    assert driver.commands[1:] == [Append(1, "there."), FinishText(1)]
    driver.finish(1)
    assert driver.kinds() == ["chunk", "done"]


@pytest.mark.parametrize("last", ["", " ", "\n", "you."])
def test_text_is_closed_by_an_empty_blank_or_final_transcript(last: str) -> None:
    driver = cartesia()
    driver.send(generation("Hello ", **{"continue": True}))
    driver.send(generation(last))
    assert driver.received_text == f"Hello {last.strip(chr(10))}|"


def test_engine_request_starts_with_the_first_speakable_word() -> None:
    driver = cartesia()
    driver.send(generation("", **{"continue": True}))
    driver.send(generation(' "', **{"continue": True}))
    assert driver.commands == []
    driver.send(generation("Hi", **{"continue": True}))
    assert driver.received_text == '"Hi'
    driver.send(generation(" ", context="other", **{"continue": False}))
    driver.send(generation("...", context="dots", **{"continue": False}))
    assert [(message["type"], message["context_id"]) for message in driver.pop_messages()] == [
        ("done", "other"),
        ("done", "dots"),
    ]
    assert len(driver.submitted) == 1


def test_flush_speaks_the_buffered_text_and_is_acknowledged() -> None:
    driver = cartesia()
    driver.send(generation("Hello ", **{"continue": True, "flush": True}))
    first = driver.submitted[0]
    assert (first.utterance, first.request.text, first.request.open_text) == (1, "Hello ", False)
    driver.send(generation("you", **{"continue": True}))
    driver.send(generation("", **{"continue": True, "flush": True}))
    assert len(driver.submitted) == 1  # The next request starts after the end of this request.
    assert driver.pop_messages() == []  # A flush is acknowledged after its audio.
    driver.start(1)
    driver.send_audio(1)
    driver.finish(1)
    assert [(m["type"], m["flush_id"]) for m in driver.pop_messages()] == [
        ("chunk", 1),
        ("flush_done", 1),
    ]
    second = driver.submitted[1]
    assert (second.utterance, second.request.text, second.request.seed) == (2, "you", 7)
    driver.send(generation("Bye", **{"continue": False}))
    driver.start(2)
    driver.send_audio(2)
    driver.finish(2)
    third = driver.submitted[2]
    assert (third.request.text, third.request.open_text) == ("Bye", False)
    driver.start(third.utterance)
    driver.send_audio(third.utterance)
    driver.finish(third.utterance)
    assert [(message["type"], message.get("flush_id")) for message in driver.pop_messages()] == [
        ("chunk", 2),
        ("flush_done", 2),
        ("chunk", 3),
        ("done", None),
    ]


def test_number_of_pending_flushes_is_limited() -> None:
    driver = cartesia()
    driver.send(generation("Hello ", **{"continue": True}))
    for _ in range(200):
        driver.send(generation("", **{"continue": True, "flush": True}))
    errors = [message for message in driver.pop_messages() if message["type"] == "error"]
    assert [(error["error_code"], error["context_id"]) for error in errors] == [("out_of_order", "c")]


def test_inline_tags_are_not_spoken() -> None:
    driver = cartesia()
    for piece in ("Hi <sp", 'eed ratio="1.5"', "/>there <emo", 'tion value="sad"/>you', "<", " 3."):
        driver.send(generation(piece, **{"continue": True}))
    driver.send(generation("", **{"continue": False}))
    assert driver.received_text == "Hi there you< 3.|"


def test_flush_with_the_final_message_is_acknowledged_before_the_end() -> None:
    driver = cartesia()
    driver.send(generation("", flush=True, **{"continue": True}))
    driver.send(generation("", flush=True))
    assert driver.kinds() == ["flush_done", "flush_done", "done"]


def test_zero_buffer_delay_flushes_every_message() -> None:
    """Pipecat sends sentences without white space and with max_buffer_delay_ms 0.

    Pipecat does not expect a flush_done message.
    """
    driver = cartesia()
    for text in ("One.", "Two."):
        driver.send(generation(text, **{"continue": True, "max_buffer_delay_ms": 0}))
    assert driver.commands[1:] == [Flush(1), Append(1, "Two."), Flush(1)]
    assert driver.pop_messages() == []


def test_word_timestamps_are_sent_if_requested() -> None:
    driver = cartesia()
    driver.send(generation("Hello there you.", add_timestamps=True))
    for frame in range(10):
        driver.send_audio(1, first=frame)
    driver.finish(1)
    messages = driver.pop_messages()
    times = [event for event in messages if event["type"] == "timestamps"]
    assert times[0]["context_id"] == "c"
    assert messages.index(times[0]) < 9  # The word times are sent during the speech.
    words = [word for each_word in times for word in each_word["word_timestamps"]["words"]]
    ends = [end for word in times for end in word["word_timestamps"]["end"]]
    assert words == ["Hello", "there", "you."]
    assert ends[-1] == 0.8
    assert messages[-1]["type"] == "done"


# --- Tests of several contexts on one connection.


def test_contexts_on_one_socket_receive_only_their_own_audio() -> None:
    driver = cartesia()
    driver.send(generation("One.", context="a", voice={"mode": "id", "id": None}))
    driver.send(generation("Two.", context="b"))
    driver.send_audio(2, first=5)
    driver.send_audio(1)
    driver.finish(1)
    driver.finish(2)
    messages = driver.pop_messages()
    assert [(event["type"], event["context_id"]) for event in messages] == [
        ("chunk", "b"),
        ("chunk", "a"),
        ("done", "a"),
        ("done", "b"),
    ]
    assert sound_of(messages[:1]) != sound_of(messages[1:2])


def test_cancel_drops_unsent_audio_sends_no_message_and_frees_the_slot() -> None:
    """Cartesia's client would apply a `done` message of this context to its next context."""
    driver = cartesia()
    driver.send(generation("One.", context="a", add_timestamps=True))
    driver.send(generation("Two.", context="b"))
    driver.send_audio(1, frames=8)
    driver.send_audio(2)
    driver.send({"context_id": "a", "cancel": True})
    assert driver.cancelled == [1]
    assert [(message["type"], message["context_id"]) for message in driver.pop_messages()] == [("chunk", "b")]
    driver.send_audio(1)
    driver.finish(1)
    driver.send({"context_id": "a", "cancel": True})
    driver.send({"context_id": "never", "cancel": True})
    assert driver.pop_messages() == []


def test_cancel_drops_an_unsent_final_message() -> None:
    driver = cartesia()
    driver.send(generation("One.", context="a"))
    driver.send(generation("Two.", context="b", voice={"mode": "id", "id": "nobody"}))
    driver.send_audio(1)
    driver.finish(1)
    driver.send({"context_id": "a", "cancel": True})
    driver.send({"context_id": "b", "cancel": True})
    driver.send({"cancel": True})
    assert driver.pop_messages() == []
    assert not driver.dialect.is_congested


def test_final_message_after_a_cancel_does_not_start_a_new_text() -> None:
    driver = cartesia()
    driver.send(generation("One ", context="a", **{"continue": True}))
    driver.send({"context_id": "a", "cancel": True})
    driver.send(generation("", context="a"))
    assert driver.pop_messages() == []
    driver.send(generation("Again.", context="a"))
    driver.finish(driver.submitted[1].utterance)
    assert driver.kinds() == ["done"]


def test_contexts_over_the_limit_are_refused_by_id() -> None:
    driver = cartesia(Limits(max_contexts=1))
    driver.send(generation("One.", context="a"))
    driver.send(generation("Two", context="b", **{"continue": True}))
    driver.send(generation(" more", context="b", **{"continue": True}))
    driver.send(generation("", context="b"))
    (error,) = driver.pop_messages()
    assert (error["error_code"], error["context_id"], error["status_code"]) == ("too_many_contexts", "b", 429)
    driver.finish(1)
    driver.send(generation("Two.", context="b"))
    assert len(driver.submitted) == 2


# --- Tests of voices, models and languages.


@pytest.mark.parametrize(
    ("code", "name"),
    [("en", "english"), ("zh-CN", "chinese"), ("EN", "english"), ("english", "english"), ("hi", "hi"), (None, "auto")],
)
def test_language_codes_map_to_checkpoint_languages(code: str | None, name: str) -> None:
    driver = cartesia()
    driver.send(generation(language=code))
    assert driver.submitted[0].request.language == name


def test_unknown_model_names_select_the_default_checkpoint() -> None:
    driver = cartesia()
    driver.send(generation(context="a", model_id="tiny"))
    driver.send(generation(context="b", model_id="sonic-english"))
    driver.send(generation(context="d", model_id="clone", voice={"mode": "id", "id": "grandmother"}))
    assert [submit.request.mode for submit in driver.submitted] == [Mode.CUSTOM_VOICE] * 2
    assert driver.uploads == [ReadStoredVoice(1, "v1", "voice.id")]


def test_voice_may_be_given_as_an_id_string() -> None:
    """Cartesia's client has sent the ID of a voice as a string since 2026-08.

    The last message of a context also contains the voice as a string.
    """
    driver = cartesia()
    driver.send(generation("Hello ", voice="anna", **{"continue": True}))
    driver.send(generation("", voice="6ccbfb76-1fc6-48f7-b71d-91ac6298247b"))
    assert driver.submitted[0].request.voice == "anna"
    assert driver.received_text == "Hello |"


def test_stored_voice_is_awaited_without_losing_text() -> None:
    driver = cartesia()
    for text in ("One.", "Two."):
        driver.send(
            generation(text, voice={"mode": "id", "id": "Grandmother"}, **{"continue": True, "max_buffer_delay_ms": 0})
        )
    assert driver.submitted == []
    driver.dialect.on_reference(1, STORED)
    driver.gather()
    request = driver.submitted[0].request
    assert (request.mode, request.text, request.open_text) == (Mode.BASE, "One. Two. ", True)
    assert request.reference is not None
    assert request.reference.text == "Stored words."
    driver.send(generation(""))
    assert driver.commands[-1] == FinishText(1)


def test_deleted_stored_voice_is_an_error_of_its_context() -> None:
    driver = cartesia()
    driver.send(generation(voice={"mode": "id", "id": "v1"}))
    driver.dialect.on_reference(1, VoiceNotFound())
    (error,) = driver.pop_messages()
    assert (error["error_code"], error["context_id"]) == ("voice_not_found", "c")


def test_voicewright_fields_are_accepted_and_unknown_fields_ignored() -> None:
    driver = cartesia()
    driver.send(
        generation(
            seed=5,
            instructions="Softly.",
            max_frames=7,
            use_normalized_timestamps=False,
            generation_config={"speed": 2},
            duration=3,
        )
    )
    request = driver.submitted[0].request
    assert (request.seed, request.instruct, request.max_frames) == (5, "Softly.", 7)


# --- Tests of the error messages that a client receives.


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"voice": {"mode": "id", "id": "nobody"}}, "unknown_voice"),
        ({"voice": {"mode": "embedding", "embedding": [0.1]}}, "invalid_config"),
        ({"voice": "nobody"}, "unknown_voice"),
        ({"voice": ["anna"]}, "invalid_config"),
        ({"output_format": {**NATIVE, "encoding": "pcm_s24le"}}, "invalid_config"),
        ({"output_format": {**NATIVE, "container": "wav"}}, "invalid_config"),
        ({"output_format": {**NATIVE, "sample_rate": 4000}}, "invalid_config"),
        ({"transcript": 7}, "invalid_config"),
        ({"transcript": None}, "invalid_config"),
        ({"transcript": "x" * 5000}, "text_too_long"),
        ({"transcript": "x" * 2**17}, "message_too_large"),
        ({"max_frames": 99_999}, "invalid_config"),
    ],
)
def test_invalid_request_gets_one_error_and_the_socket_stays_open(fields: dict[str, Any], code: str) -> None:
    driver = cartesia()
    driver.send({**generation(), **fields})
    (error,) = driver.pop_messages()
    assert error["type"] == "error"
    assert error["error_code"] == code
    assert error["context_id"] == "c"
    assert error["done"] is True
    assert error["message"].endswith(".")
    assert error["title"]
    assert error["request_id"] == "s"
    assert "nobody" not in error["message"]
    driver.send(generation())
    assert len(driver.submitted) == 1


def test_error_in_a_streamed_text_is_reported_once_and_cancels_the_text() -> None:
    driver = cartesia(Limits(max_text_chars=20))
    driver.send(generation("x" * 15, **{"continue": True}))
    driver.send(generation("x" * 15, **{"continue": True}))
    driver.send(generation("x" * 15, **{"continue": True}))
    driver.send(generation(""))
    assert driver.kinds() == ["text_too_long"]
    assert driver.cancelled == [1]
    driver.send(generation("Again."))
    assert len(driver.submitted) == 2


@pytest.mark.parametrize("goes_on", [False, True])
def test_misspelt_transcript_key_is_an_error(goes_on: bool) -> None:
    driver = cartesia()
    misspelt = {"context_id": "c", "transcipt": "Hello there.", "voice": "anna", "continue": goes_on, "flush": True}
    for _ in range(2):  # The error of a streamed text is reported only once.
        driver.send(misspelt)
    errors = driver.pop_messages()
    assert len(errors) == (1 if goes_on else 2)
    assert {(error["error_code"], error["context_id"], error["done"]) for error in errors} == {
        ("invalid_config", "c", True)
    }
    assert errors[0]["message"] == "transcript is not valid: it is required; send an empty text to end the transcript."
    driver.send({**misspelt, "continue": False})
    driver.pop_messages()
    driver.send(misspelt)
    assert driver.kinds() == ["invalid_config"]
    driver.send({"context_id": "c", "cancel": True})
    assert driver.pop_messages() == []
    assert driver.submitted == []


def test_streamed_text_requires_a_context_id() -> None:
    driver = cartesia()
    driver.send(generation(context=None, **{"continue": True}))
    assert driver.kinds() == ["invalid_config"]
    driver.send(generation(context=None))
    driver.finish(driver.submitted[0].utterance)
    assert driver.kinds() == ["done"]


def test_text_after_the_end_is_refused_and_the_request_continues() -> None:
    driver = cartesia()
    driver.send(generation("One."))
    driver.send(generation(" ", **{"continue": True}))
    assert driver.pop_messages() == []
    driver.send(generation("Two."))
    (error,) = driver.pop_messages()
    assert (error["error_code"], error["done"]) == ("out_of_order", False)
    driver.finish(1)
    assert driver.kinds() == ["done"]


@pytest.mark.parametrize("how", ["refused", "broken"])
def test_failure_is_the_last_message_of_its_context(how: str) -> None:
    driver = cartesia()
    driver.send(generation("One ", **{"continue": True}))
    if how == "refused":
        driver.dialect.on_refused(1, Overloaded(slots=1, waiting=1, retry_after_s=1.0))
    else:
        driver.dialect.on_speech(1, Broken(GenerationFailed(), RequestStats()))
    driver.send(generation("two", **{"continue": True}))
    driver.send(generation(""))
    (error,) = driver.pop_messages()
    assert error["error_code"] == ("overloaded" if how == "refused" else "generation_failed")
    assert error["retryable"] is True
    assert driver.cancelled == []


def test_binary_messages_are_refused() -> None:
    driver = cartesia()
    driver.dialect.receive_bytes()
    assert driver.kinds() == ["invalid_json", "close 1003"]


# --- Tests of timeouts and of the end of a connection.


def test_idle_socket_times_out_after_five_minutes_and_idle_context_earlier() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    assert driver.dialect.deadline == 300
    driver.send(generation("One ", **{"continue": True}))
    assert driver.dialect.deadline == 120
    clock.now = 50
    driver.send_audio(1)
    assert driver.dialect.deadline == 170
    driver.send(generation(""))
    assert driver.dialect.deadline == 3600  # A session that is speaking is not idle.
    driver.finish(1)
    assert driver.dialect.deadline == 350
    driver.send(generation("One ", context="slow", **{"continue": True}))
    driver.pop_messages()
    clock.now = 170
    driver.dialect.tick()
    driver.gather()
    assert driver.cancelled == [2]
    assert driver.kinds() == ["idle_timeout", "idle_timeout", "close 1008"]


def waits(driver: DialectDriver, clock: Clock, seconds: float) -> None:
    """Advance the clock by `seconds`, and call the session at each deadline in between.

    A real connection does the same with a timer.
    """
    until = clock.now + seconds
    while driver.dialect.deadline is not None and driver.dialect.deadline <= until:
        assert driver.dialect.deadline >= 0
        clock.now = max(clock.now, driver.dialect.deadline)
        before = driver.dialect.deadline
        driver.dialect.tick()
        driver.gather()
        assert driver.dialect.deadline != before  # With an unchanged deadline, the timer would fire forever.
    clock.now = until


def short(driver: DialectDriver, number: int, chars: int) -> None:
    driver.dialect.on_speech(number, WaitingForText(chars))
    driver.gather()


def test_context_expires_one_second_after_its_last_audio() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation("One.", **{"continue": True, "max_buffer_delay_ms": 0}))
    waits(driver, clock, 5)
    driver.start(1)
    driver.send_audio(1)
    short(driver, 1, len("One."))
    waits(driver, clock, 0.9)
    assert driver.commands_of(FinishText) == []
    waits(driver, clock, 0.2)
    # The end of the text lets the engine release the slot for other requests.
    assert driver.commands_of(FinishText) == [FinishText(1)]
    assert driver.kinds() == ["chunk"]
    driver.finish(1)
    waits(driver, clock, 0.01)
    assert driver.kinds() == ["done"]
    driver.send(generation("", context="c"))  # LiveKit ends its text late and waits for the reply.
    assert driver.kinds() == ["done"]
    driver.send(generation("Two.", **{"continue": True}))
    assert driver.submitted[1].request.text == "Two."


def test_context_that_receives_text_does_not_expire() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation("One.", **{"continue": True, "max_buffer_delay_ms": 0}))
    driver.start(1)
    driver.send_audio(1)
    driver.send(generation(" Two", **{"continue": True}))
    short(driver, 1, len("One."))  # The engine sent this event before it received the text.
    waits(driver, clock, 3)
    assert driver.commands_of(FinishText) == []
    short(driver, 1, len("One. Two"))
    waits(driver, clock, 0.9)
    driver.send_audio(1)
    waits(driver, clock, 0.9)
    short(driver, 1, len("One. Two"))
    waits(driver, clock, 0.9)
    assert driver.commands_of(FinishText) == []
    waits(driver, clock, 0.2)
    assert driver.commands_of(FinishText) == [FinishText(1)]


def test_text_for_an_expiring_context_continues_in_its_voice() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation("One.", **{"continue": True, "max_buffer_delay_ms": 0}))
    driver.start(1, seed=9)
    driver.send_audio(1)
    short(driver, 1, len("One."))
    waits(driver, clock, 1)
    driver.send(generation("Two.", **{"continue": True}))
    driver.send_audio(1)  # The engine still sends audio of the first text.
    driver.finish(1)
    assert [(m["type"], m["flush_id"]) for m in driver.pop_messages()] == [("chunk", 1), ("chunk", 1)]
    second = driver.submitted[1]
    assert (second.request.text, second.request.seed, second.request.open_text) == ("Two.", 9, True)
    driver.send(generation(""))
    driver.finish(second.utterance)
    assert driver.kinds() == ["done"]


def test_context_expires_after_a_flush_and_not_before_its_first_audio() -> None:
    clock = Clock()
    driver = cartesia(clock=clock)
    driver.send(generation("", **{"continue": True, "flush": True}))
    waits(driver, clock, 10)
    assert driver.kinds() == ["flush_done"]
    driver.send(generation("One.", **{"continue": True, "flush": True}))
    waits(driver, clock, 10)
    driver.send_audio(1)
    driver.finish(driver.submitted[0].utterance)
    waits(driver, clock, 0.9)
    assert driver.kinds()[-1] == "flush_done"
    waits(driver, clock, 0.2)
    assert driver.kinds() == ["done"]


def test_session_has_a_maximum_duration() -> None:
    clock = Clock()
    driver = cartesia(Limits(session_s=100), clock)
    driver.send(generation())
    clock.now = 100
    driver.dialect.tick()
    assert driver.kinds() == ["session_timeout", "session_timeout", "close 1008"]
    assert driver.dialect.deadline is None


def test_server_shutdown_is_reported_to_every_context() -> None:
    driver = cartesia()
    driver.send(generation())
    driver.dialect.close_with(Draining(), 1001)
    assert driver.kinds() == ["draining", "draining", "close 1001"]


def test_socket_is_not_read_while_its_client_receives_nothing() -> None:
    driver = cartesia()
    for _ in range(300):
        driver.send(generation("", context="x"))
    assert driver.dialect.is_congested
    driver.pop_messages()
    assert not driver.dialect.is_congested


def test_samples_are_unchanged_by_base64() -> None:
    driver = cartesia()
    driver.send(generation())
    pcm = driver.send_audio(1, frames=7)
    assert np.array_equal(np.frombuffer(sound_of(driver.pop_messages()), "<i2"), np.frombuffer(pcm, "<i2"))
