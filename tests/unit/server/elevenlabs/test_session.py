"""Tests for ElevenLabs' sessions: client messages, responses and engine commands."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from runtime.errors import (
    Draining,
    InvalidConfig,
    UnknownVoice,
    UnsupportedFormat,
    UnsupportedLanguage,
    VoiceNotFound,
)
from runtime.request import OTHER_SPEAKER, Mode, Sampling
from runtime.server.elevenlabs import messages
from runtime.server.elevenlabs.schema import (
    PREMADE,
    ClientMessage,
    SocketOptions,
    read,
    read_options,
    synthesis_options,
)
from runtime.server.session.commands import (
    Append,
    EncodedMessage,
    FinishText,
    Flush,
    ReadStoredVoice,
    Submit,
    TextMessage,
)
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.settings import Limits
from tests.unit.server.dialects import STORED, Clock, DialectDriver, elevenlabs
from tests.unit.server.driver import CARD

SPACE = {"text": " "}
END = {"text": ""}


def spoken(driver: DialectDriver, *texts: str, **fields: Any) -> None:
    for text in texts:
        driver.send({"text": text, **fields})


def sound_of(messages: list[Any]) -> bytes:
    return b"".join(base64.b64decode(message["audio"]) for message in messages if message["audio"])


def aligned_text(messages: list[Any], shape: str = "alignment") -> str:
    return "".join("".join(message[shape]["chars"]) for message in messages if message[shape])


def waits(driver: DialectDriver, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    driver.dialect.tick()
    driver.gather()


@pytest.mark.parametrize("is_multi", [True, False])
@pytest.mark.parametrize("voice", ["alloy", PREMADE[0]])
def test_substituted_voice_is_noted_in_the_last_message(voice: str, *, is_multi: bool) -> None:
    driver = elevenlabs(is_multi=is_multi, voice=voice)
    spoken(driver, " ", "Hello there.", flush=True)
    note = OTHER_SPEAKER.format(speaker="anna")
    assert driver.submitted[0].request.notes == (note,)
    driver.start(1, notes=(note,))
    driver.send({"close_context": True, "context_id": "default"} if is_multi else END)
    driver.finish(1, notes=("A letter was strange.",))
    final = next(message for message in driver.pop_messages() if isinstance(message, dict) and message["isFinal"])
    assert final["notes"] == [note, "A letter was strange."]


# --- Tests of a single text.


def test_single_text_is_answered_and_closes_the_socket() -> None:
    driver = elevenlabs(is_multi=False, language_code="en-GB", seed="5")
    spoken(driver, " ", "Hello ", "there. ", "")
    request = driver.submitted[0].request
    assert (request.voice, request.language, request.seed, request.mode) == ("anna", "english", 5, Mode.CUSTOM_VOICE)
    assert request.acknowledged
    assert driver.received_text.strip("| ") == "Hello there."
    pcm = driver.send_audio(1, frames=8)
    driver.finish(1)
    *sound, last, close = driver.pop_messages()
    assert sound_of(sound) == pcm
    assert {"audio", "isFinal", "alignment", "normalizedAlignment"} == set(sound[0])
    assert sound[0]["isFinal"] is None
    assert last == {"audio": None, "isFinal": True, "normalizedAlignment": None, "alignment": None}
    assert (close.code, close.reason) == (1000, "")
    assert aligned_text(sound) == "Hello there. "
    assert all(message["alignment"]["estimated"] for message in sound if message["alignment"])


def test_empty_text_ends_without_the_engine() -> None:
    driver = elevenlabs(is_multi=False)
    spoken(driver, " ", " ", "")
    assert driver.kinds() == ["final", "close 1000"]
    assert driver.commands == []


def test_any_error_closes_a_socket_for_a_single_text() -> None:
    for wrong in ({"text": 7}, {"text": "x" * 5000}, {"text": "Hi", "voice_settings": {"speed": 9}}):
        driver = elevenlabs(is_multi=False)
        spoken(driver, "Hello ")
        driver.send(wrong)
        error, close = driver.pop_messages()
        assert {"message", "error", "code"} <= set(error)
        assert (error["code"], close.code, close.reason) == (1008, 1008, error["error"])
        assert driver.cancelled == [1]


def test_final_error_message_contains_the_close_code() -> None:
    for wrong in ("{", {"txt": "Hello."}, {"context_id": "c", "txt": "Hello."}):
        driver = elevenlabs(is_multi=False)
        driver.send(wrong)
        error, close = driver.pop_messages()
        assert (error["error"], error["code"]) == (close.reason, close.code)
        assert close.code == 1008


@pytest.mark.parametrize("more", [{}, {"voice_settings": {"speed": 1.1}}, {"generator_config": {}}, {"flush": False}])
def test_message_without_text_or_command_is_refused(more: dict[str, Any]) -> None:
    driver = elevenlabs()
    driver.send({"context_id": "c", "txt": "Hello.", **more})
    error, final = driver.pop_messages()
    assert (error["error"], error["param"], error["contextId"], final["isFinal"]) == (
        "invalid_config",
        "text",
        "c",
        True,
    )


@pytest.mark.parametrize("fine", [{"text": ""}, {"context_id": "d", "flush": True}, {"close_context": True}])
def test_messages_with_a_command_and_no_text_are_accepted(fine: dict[str, Any]) -> None:
    driver = elevenlabs()
    driver.send(fine)
    assert driver.pop_messages() == []


def test_error_contains_the_elevenlabs_field_name() -> None:
    problem = UnsupportedLanguage(param="language", known="english")
    assert messages.error(problem)["param"] == "language_code"
    assert messages.error(UnknownVoice(param="voice", known="clara"))["param"] == "voice"


def test_unknown_pronunciation_dictionary_is_reported_in_one_sentence() -> None:
    driver = elevenlabs(is_multi=False)
    locators = [{"pronunciation_dictionary_id": "d", "version_id": "v"}]
    driver.send({"text": " ", "pronunciation_dictionary_locators": locators})
    error, _ = driver.pop_messages()
    assert error["error"] == "pronunciation_dictionary_not_found"
    assert error["param"] == "pronunciation_dictionary_locators"
    driver = elevenlabs(is_multi=False)
    driver.send({"text": "Hi", "pronunciation_dictionary_locators": []})
    assert len(driver.submitted) == 1


# --- Tests of the time at which speech starts.


def test_flush_speaks_the_buffered_text() -> None:
    driver = elevenlabs()
    spoken(driver, "Good mor", "ning", context_id="c")
    driver.send({"context_id": "c", "flush": True})
    spoken(driver, "Tea", context_id="c", flush=True)
    assert [type(command) for command in driver.commands[1:]] == [Append, Flush, Append, Flush]


def test_chunk_length_schedule_does_not_cut_words() -> None:
    clock = Clock()
    driver = elevenlabs(clock=clock)
    schedule = {"generation_config": {"chunk_length_schedule": [20, 30]}}
    spoken(driver, "Once there was a ki", context_id="c", **schedule)
    spoken(driver, "ng", context_id="c")
    assert driver.commands_of(Flush) == []
    spoken(driver, " ", context_id="c")
    assert len(driver.commands_of(Flush)) == 1
    # The next flush is sent when the client would run out of audio, and not earlier.
    spoken(driver, "who had three sons and a castle ", context_id="c")
    assert len(driver.commands_of(Flush)) == 1
    driver.start(1)
    driver.send_audio(1, frames=25)  # 25 frames are two seconds of audio.
    waits(driver, clock, 0.9)
    assert len(driver.commands_of(Flush)) == 1
    waits(driver, clock, 0.2)
    assert len(driver.commands_of(Flush)) == 2


def test_complete_sentence_needs_no_scheduled_flush() -> None:
    driver = elevenlabs()
    for word in ("It is late. ", "The kettle ", "is on. ", "Come in ", "and sit. "):
        spoken(driver, word, context_id="c", generation_config={"chunk_length_schedule": [20]})
    assert driver.commands_of(Flush) == []


def test_try_trigger_generation_speaks_from_fifty_characters() -> None:
    """ElevenLabs' own client sends `try_trigger_generation` with every word."""
    driver = elevenlabs(is_multi=False)
    spoken(driver, "Once there was a king who had a castle by ", try_trigger_generation=True)
    assert driver.commands_of(Flush) == []
    spoken(driver, "the sea and ", try_trigger_generation=True)
    assert len(driver.commands_of(Flush)) == 1


def test_text_is_spoken_immediately_without_a_chunk_length_schedule() -> None:
    """Pipecat and LiveKit send whole sentences with auto_mode."""
    driver = elevenlabs(auto_mode="true")
    spoken(driver, " ", "One.", "Two.", "Thr", context_id="c")
    assert [type(command) for command in driver.commands[1:]] == [Flush, Append, Flush, Append]
    driver.send({"context_id": "c", "close_context": True})
    driver.send_audio(1, frames=25)
    driver.finish(1)
    messages = driver.pop_messages()
    assert aligned_text(messages) == "One. Two. Thr "  # The client splits words at the spaces after them.


def test_pause_after_a_sentence_triggers_speech() -> None:
    clock = Clock()
    driver = elevenlabs(clock=clock)
    spoken(driver, "Let me see.", context_id="c")
    waits(driver, clock, 0.29)
    assert driver.commands_of(Flush) == []
    waits(driver, clock, 0.02)
    assert len(driver.commands_of(Flush)) == 1


def test_white_space_after_buffered_text_is_kept() -> None:
    driver = elevenlabs()
    spoken(driver, " ", " Salt &", " pepper\n", "\n> and", " oil.", context_id="c")
    driver.send({"context_id": "c", "close_context": True})
    assert driver.received_text == "Salt & pepper\n\nand oil.|"


def test_inline_tags_are_not_spoken() -> None:
    driver = elevenlabs(enable_ssml_parsing="true")
    spoken(driver, "Hello.<break ", 'time="1.5s" />You <phoneme alphabet="ipa" ph="x">there</phoneme>.', context_id="c")
    driver.send({"context_id": "c", "close_context": True})
    assert driver.received_text == 'Hello.<break time="1.5s" />You there.|'
    assert driver.commands_of(Submit)[0].request.max_break_s == 3.0
    driver.send_audio(1)
    driver.finish(1)
    times = [message["alignment"] for message in driver.pop_messages() if message.get("alignment")]
    assert "".join(character for piece in times for character in piece["chars"]) == "Hello. You there. "


# --- Tests of the times of characters and words.


def test_alignment_is_relative_to_the_previous_chunk_or_absolute() -> None:
    for sync, is_relative in (("false", True), ("true", False)):
        driver = elevenlabs(sync_alignment=sync)
        spoken(driver, "Hello there you.", context_id="c")
        driver.send({"context_id": "c", "close_context": True})
        for frame in range(12):
            driver.send_audio(1, first=frame)
        driver.finish(1)
        messages = driver.pop_messages()
        times = [message["alignment"] for message in messages if message["alignment"]]
        assert len(times) > 1
        position = 0
        for each in times:
            assert len(each["chars"]) == len(each["charStartTimesMs"]) == len(each["charDurationsMs"])
            begins = each["charStartTimesMs"][0]
            assert begins == (0 if is_relative else position)
            end = each["charStartTimesMs"][-1] + each["charDurationsMs"][-1]
            position = position + end if is_relative else end
        assert position == 960
        assert aligned_text(messages) == aligned_text(messages, "normalizedAlignment") == "Hello there you. "


def test_alignment_accounts_for_the_requested_speed() -> None:
    driver = elevenlabs(sync_alignment="true")
    spoken(driver, "Hello there.", context_id="c", voice_settings={"speed": 2.0, "stability": 0.5})
    driver.send({"context_id": "c", "close_context": True})
    driver.send_audio(1, frames=50)
    driver.finish(1)
    messages = driver.pop_messages()
    last = [message["alignment"] for message in messages if message["alignment"]][-1]
    assert last["charStartTimesMs"][-1] + last["charDurationsMs"][-1] <= 2000
    assert len(sound_of(messages)) == pytest.approx(50 * 1920, rel=0.05)


def test_times_of_the_remaining_words_are_computed_on_a_worker_thread() -> None:
    driver = elevenlabs()
    spoken(driver, "one two " * 500, context_id="c")
    driver.send({"context_id": "c", "close_context": True})
    driver.send_audio(1)
    driver.finish(1)
    *sound, last, _final = iter(driver.dialect.pop_message, None)
    assert all(isinstance(item, TextMessage) for item in sound)
    assert isinstance(last, EncodedMessage)
    assert aligned_text([json.loads(last.make())]).endswith("one two ")


# --- Tests of audio formats.


def test_compressed_audio_is_encoded_on_a_worker_thread_with_its_sample_count() -> None:
    driver = elevenlabs(output_format="mp3_22050_32")
    spoken(driver, "Hello there.", context_id="c")
    driver.send({"context_id": "c", "close_context": True})
    driver.send_audio(1, frames=12)
    driver.finish(1)
    *sound, last = iter(driver.dialect.pop_message, None)
    encoded = [item for item in sound if isinstance(item, EncodedMessage)]
    assert len(encoded) == len(sound)
    assert sum(item.samples for item in encoded) == 12 * 1920
    made = [json.loads(text) for item in encoded if (text := item.make())]
    assert sound_of(made).startswith(b"ID3")
    assert aligned_text(made) == "Hello there. "
    assert isinstance(last, TextMessage)
    driver.send({"context_id": "d", "text": "Hello."})
    driver.send_audio(2)
    for _ in range(2):
        driver.send({"context_id": "d", "close_context": True})
    assert driver.kinds() == ["final"]  # The audio that is not encoded yet is dropped.


# --- Tests of several contexts on one connection.


def test_contexts_receive_only_their_own_audio_and_end_once() -> None:
    driver = elevenlabs()
    spoken(driver, "One.", context_id="a")
    spoken(driver, "Two.", contextId="b")
    first, second = driver.send_audio(1), driver.send_audio(2, first=3)
    for name in ("a", "b"):
        driver.send({"context_id": name, "close_context": True})
    driver.finish(2)
    driver.finish(1)
    messages = driver.pop_messages()
    for name, pcm in (("a", first), ("b", second)):
        own = [message for message in messages if message["contextId"] == name]
        assert sound_of(own) == pcm
        assert [message["isFinal"] for message in own][-1] is True
        assert [message["isFinal"] for message in own].count(True) == 1


def test_messages_without_a_context_id_share_the_default_context() -> None:
    driver = elevenlabs()
    spoken(driver, "", " ", "Hi.")  # Pipecat sends the first text to keep the socket open.
    driver.send({"close_context": True})
    driver.finish(1)
    assert [message["contextId"] for message in driver.pop_messages()] == ["default"]


def test_second_close_stops_the_context_immediately() -> None:
    driver = elevenlabs()
    spoken(driver, "Hello there.", context_id="c")
    for _ in range(2):
        driver.send({"context_id": "c", "close_context": True})
        driver.send_audio(1)
    assert driver.cancelled == [1]
    assert driver.kinds() == ["final"]  # The context had sent no audio before its second close.
    driver.send({"context_id": "c", "close_context": True})
    assert driver.pop_messages() == []


def test_socket_closes_after_all_audio_was_sent() -> None:
    driver = elevenlabs()
    spoken(driver, "One.", context_id="a")
    spoken(driver, " ", context_id="b")
    driver.send({"close_socket": True})
    spoken(driver, "More.", context_id="d")
    assert [command.utterance for command in driver.commands_of(FinishText)] == [1]
    driver.send_audio(1)
    driver.finish(1)
    assert driver.kinds() == ["final", "audio", "audio", "final", "close 1000"]


def test_error_ends_only_its_context() -> None:
    driver = elevenlabs(Limits(max_contexts=2))
    spoken(driver, "One.", context_id="a")
    spoken(driver, "Two.", context_id="b", max_frames=0)
    spoken(driver, "more", context_id="b")
    driver.send({"context_id": "b", "close_context": True})
    spoken(driver, "Two.", context_id="b")
    spoken(driver, "Three.", context_id="d")
    driver.send_audio(1)
    messages = driver.pop_messages()
    assert [(message.get("error"), message["contextId"]) for message in messages] == [
        *(("invalid_config", "b"), (None, "b")),
        *(("too_many_contexts", "d"), (None, "d")),
        (None, "a"),
    ]
    assert len(driver.submitted) == 2


# --- Tests of timeouts.


def test_idle_context_times_out_and_releases_its_slot() -> None:
    clock = Clock()
    driver = elevenlabs(clock=clock, inactivity_timeout="30")
    spoken(driver, "Hello there", context_id="c")
    waits(driver, clock, 29)
    driver.send({"text": "", "context_id": "c"})
    waits(driver, clock, 29)
    assert driver.commands_of(FinishText) == []
    waits(driver, clock, 2)
    assert driver.commands_of(FinishText) == [FinishText(1)]
    driver.finish(1)
    assert driver.kinds() == ["final"]


def test_idle_single_context_session_ends_with_an_error() -> None:
    clock = Clock()
    driver = elevenlabs(clock=clock, is_multi=False)
    spoken(driver, "Hello there")
    waits(driver, clock, 20)
    error, close = driver.pop_messages()
    assert (error["error"], error["code"], close.code) == ("idle_timeout", 1008, 1008)
    assert "20 s" in error["message"]
    assert driver.cancelled == [1]


def test_socket_without_contexts_stays_open_for_the_requested_timeout() -> None:
    for is_multi, seconds in ((True, 180), (False, 180)):
        clock = Clock()
        driver = elevenlabs(clock=clock, is_multi=is_multi, inactivity_timeout="180")
        waits(driver, clock, seconds - 1)
        assert driver.pop_messages() == []
        waits(driver, clock, 2)
        assert driver.kinds() == ["idle_timeout", "close 1008"]


def test_server_shutdown_is_reported() -> None:
    driver = elevenlabs()
    spoken(driver, "Hi.", context_id="c")
    driver.dialect.close_with(Draining(), 1001)
    assert driver.kinds() == ["draining", "final", "draining", "close 1001"]


# --- Tests of voices, settings and URLs.


def test_voice_id_in_the_url_selects_the_voice() -> None:
    # The error message also lists the stored voices.
    with pytest.raises(UnknownVoice, match=r"there are: .*bert.*Grandmother"):
        elevenlabs(voice="nobody")
    driver = elevenlabs(voice=PREMADE[1])  # The ID of an ElevenLabs voice is mapped to a speaker of the checkpoint.
    spoken(driver, "Hi.", context_id="c")
    assert driver.submitted[0].request.voice == "bert"
    driver = elevenlabs(voice="Grandmother", model_id="eleven_flash_v2_5")
    spoken(driver, "Hi ", "there.", context_id="c")
    assert driver.uploads == [ReadStoredVoice(1, "v1", "voice_id")]
    driver.dialect.on_reference(1, STORED)
    driver.gather()
    assert driver.submitted[0].request.mode is Mode.BASE
    assert driver.received_text == "Hi there."
    driver = elevenlabs(voice="v1", is_multi=False)
    spoken(driver, "Hi.")
    driver.dialect.on_reference(1, VoiceNotFound())
    assert driver.kinds() == ["voice_not_found", "close 1008"]


@pytest.mark.parametrize(("stability", "factor"), [(None, None), (0.5, None), (0.0, 1.2), (1.0, 0.8), (0.75, 0.9)])
def test_stability_maps_to_temperature(stability: float | None, factor: float | None) -> None:
    card = replace(CARD, sampling=Sampling(temperature=0.5))
    message = read(ClientMessage, {"voice_settings": {"stability": stability}}, Limits())
    made = synthesis_options(message, None, None, ResolvedVoice(mode=Mode.CUSTOM_VOICE, speaker="anna"), (card,))
    assert made.sampling.temperature == (None if factor is None else pytest.approx(0.5 * factor))


@pytest.mark.parametrize(
    ("query", "error", "param"),
    [
        ({"output_format": "mp3_44100_320"}, UnsupportedFormat, "output_format"),
        ({"inactivity_timeout": "181"}, InvalidConfig, "inactivity_timeout"),
        ({"inactivity_timeout": "soon"}, InvalidConfig, "inactivity_timeout"),
        ({"auto_mode": "perhaps"}, InvalidConfig, "auto_mode"),
        ({"seed": "-1"}, InvalidConfig, "seed"),
        ({"model_id": "x" * 300}, InvalidConfig, "model_id"),
    ],
)
def test_url_parameters_are_validated(query: dict[str, str], error: type[Exception], param: str) -> None:
    with pytest.raises(error) as found:
        read_options(SocketOptions, query)
    assert getattr(found.value, "param", None) == param


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"previous_text": "Before.", "next_text": "After."}, "previous_text, next_text"),
        ({"previous_request_ids": ["a"], "next_request_ids": ["b"]}, "previous_request_ids, next_request_ids"),
        ({"previous_text": None, "next_text": "", "previous_request_ids": []}, None),
    ],
)
def test_ignored_context_fields_are_noted(fields: dict[str, Any], named: str | None) -> None:
    driver = elevenlabs()
    driver.send({"context_id": "c", "text": "Hi.", **fields})
    expected = () if named is None else (f"The checkpoints do not use the surrounding text; {named} had no effect.",)
    assert driver.submitted[0].request.notes == expected


def test_unsupported_fields_are_ignored() -> None:
    query = {"enable_logging": "false", "apply_text_normalization": "on", "language_code": "", "model_id": "eleven_v3"}
    driver = elevenlabs(**query)
    more = {"similarity_boost": 0.7, "style": 0.1, "use_speaker_boost": True, "stability": None}
    driver.send({"context_id": "c", "text": "Hi.", "voice_settings": more, "xi_api_key": "k", "previous_text": "x"})
    assert driver.submitted[0].request.sampling == Sampling()
    assert driver.pop_messages() == []
