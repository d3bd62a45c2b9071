"""Tests for the native session: responses and engine commands in each state."""

from __future__ import annotations

import struct
from dataclasses import asdict
from typing import Any

import pytest

from runtime.errors import BadReferenceAudio, Draining, EmptyText, NonFiniteOutput, Overloaded, VoiceNotFound
from runtime.request import Broken, Layout, Mode, Queued, RequestStats, Sampling, Split, StopReason
from runtime.server.session.commands import Played, ReadStoredVoice
from runtime.settings import Limits
from tests.unit.server.native.driver import REFERENCE, Driver, ready, two_voices


def test_session_opens_with_the_configured_limits() -> None:
    limits = Limits(max_contexts=3)
    (created,) = Driver(limits).replies()
    assert created["type"] == "session.created"
    assert created["protocol"] == "voicewright.speech.v1"
    assert created["limits"] == asdict(limits)
    assert [model["id"] for model in created["models"]] == ["tiny", "clone"]


def test_text_is_answered_with_events_from_queued_to_done() -> None:
    driver = ready(voice="anna", seed=7)
    number = driver.speak("Good morning.")
    driver.session.on_speech(number, Queued(0, 1500.5))
    driver.start(number)
    driver.send_audio(number)
    driver.finish(number)
    queue, start, sound, done = driver.pop_messages()
    assert queue == {"type": "queue", "context_id": "default", "position": 0, "eta_ms": 1500.5}
    assert (start["type"], start["seed"], start["voice"], start["model"]) == ("audio.start", 7, "anna", "tiny")
    assert len(sound) == 3840
    assert (done["type"], done["total_bytes"], done["total_samples"]) == ("audio.done", 3840, 1920)
    assert (done["stop_reason"], done["seed"], done["metrics"]["frames"]) == ("eos", 7, 1)


def test_text_is_forwarded_to_the_engine_immediately() -> None:
    driver = ready()
    for text in ("Good ", "", "mor"):
        driver.send("input.text", text=text)
    (number,) = [command.utterance for command in driver.submitted]
    assert driver.sent_texts(number) == ["Good ", "mor"]
    driver.send("input.flush")
    driver.send("input.text", text="ning.")
    driver.send("input.done")
    assert driver.sent_texts(number) == ["Good ", "mor", None, "ning.", "."]
    assert driver.kinds() == []


def test_engine_request_starts_with_the_first_word() -> None:
    driver = ready()
    for text in ("\n", '"', " "):
        driver.send("input.text", text=text)
        driver.send("input.flush")
    assert not driver.submitted
    driver.send("input.text", text="Yes, ")
    driver.send("input.text", text='sir."')
    driver.send("input.done")
    assert driver.sent_texts(1) == ['" Yes, ', 'sir."', "."]


@pytest.mark.parametrize("texts", [[], [""], [" ", "..."]])
def test_text_without_a_word_is_validated_by_the_engine(texts: list[str]) -> None:
    driver = ready()
    for text in texts:
        driver.send("input.text", text=text)
    driver.send("input.done")
    assert driver.sent_texts(1) == ["".join(texts).strip(), "."]


def test_text_received_before_the_reference_is_sent_in_the_same_chunks() -> None:
    driver = ready(task_type="base", ref_audio="AAAA", x_vector_only_mode=True)
    driver.send("input.text", text="One. ")
    driver.send("input.text", text="Two")
    driver.send("input.flush")
    driver.send("input.flush")
    driver.send("input.text", text="fold.")
    assert driver.sent_texts(1) == []
    driver.decoded(driver.decodes[0].upload, REFERENCE)
    assert driver.sent_texts(1) == ["One. ", "Two", None, "fold."]
    driver.send("input.done")
    assert driver.sent_texts(1) == ["One. ", "Two", None, "fold.", "."]


def test_audio_may_start_before_the_text_is_complete() -> None:
    driver = ready()
    driver.send("input.text", text="One. ")
    driver.start(1)
    driver.send_audio(1)
    driver.send("input.text", text="Two.")
    driver.send("input.done")
    driver.send_audio(1, first=1)
    driver.finish(1)
    assert driver.kinds() == ["audio.start", "sound", "sound", "audio.done"]


def test_text_received_after_the_end_of_speech_is_not_spoken() -> None:
    driver = ready()
    driver.send("input.text", text="One. ")
    driver.finish(1, StopReason.MAX_TOKENS)
    driver.send("input.text", text="Two.")
    driver.send("input.done")
    assert driver.kinds() == ["audio.done"]
    assert len(driver.submitted) == 1
    driver.speak("Three.")
    assert driver.sent_texts(2) == ["Three.", "."]


def test_text_over_the_limit_stops_its_speech() -> None:
    driver = ready(Limits(max_text_chars=8))
    driver.send("input.text", text="abcd")
    driver.start(1)
    driver.send_audio(1)
    driver.send_audio(1, first=1)
    assert driver.session.pop_message() is not None  # The first message is audio.start.
    assert driver.session.pop_message() is not None  # The second message contains the first 80 ms of audio.
    driver.send("input.text", text="efghi")
    (error,) = driver.replies()
    assert (error["code"], error["context_id"], error["partial_audio"]) == ("text_too_long", "default", True)
    assert driver.cancelled == [1]


def test_playback_reports_are_forwarded_while_the_request_runs() -> None:
    driver = ready(task_type="base", ref_audio="AAAA", x_vector_only_mode=True)
    driver.send("input.text", text="One.")
    driver.send("playback", played_ms=1)
    driver.decoded(driver.decodes[0].upload, REFERENCE)
    driver.send("playback", played_ms=80.5, buffered_ms=20)
    driver.send("playback", played_ms=9, context_id="nobody")
    assert [command for command in driver.commands if isinstance(command, Played)] == [Played(1, 80.5)]


@pytest.mark.parametrize(
    ("name", "config", "text", "x_vector_only"),
    [
        ("clara", {}, "I am Clara.", False),
        ("1F", {"task_type": "base"}, "I am Clara.", False),
        ("Clara", {"x_vector_only_mode": True}, "I am Clara.", True),
        ("Clara", {"ref_text": "Other words."}, "Other words.", False),
        ("quiet", {}, None, True),
    ],
)
def test_stored_voice_is_found_by_name_or_id(
    name: str, config: dict[str, object], text: str | None, x_vector_only: bool
) -> None:
    driver = ready(voice=name, **config)
    (recall,) = driver.commands
    assert isinstance(recall, ReadStoredVoice)
    driver.send("input.text", text="Hello.")
    driver.send("input.done")
    assert not driver.submitted
    driver.decoded(recall.upload, two_voices().reference(recall.voice_id))
    (request,) = [command.request for command in driver.submitted]
    assert (request.mode, request.voice) == (Mode.BASE, None)
    assert request.reference is not None
    assert (request.reference.text, request.reference.x_vector_only) == (text, x_vector_only)


def test_voice_deleted_before_it_is_read_is_reported_once() -> None:
    driver = ready(voice="Clara")
    driver.send("input.text", text="Hello.")
    driver.decoded(1, VoiceNotFound(param="voice"))
    assert driver.kinds() == ["voice_not_found@default"]


def test_every_configuration_field_reaches_the_request() -> None:
    driver = ready(
        task_type="CustomVoice", speaker="anna", language="English", instruct="softly", non_streaming_mode=False,
        seed=2**60, max_new_tokens=11, temperature=0.5, top_k=3, top_p=0.8, repetition_penalty=1.2,
        subtalker_temperature=0.6, subtalker_top_k=4, subtalker_top_p=0.7, do_sample=False,
        split_granularity="clause", initial_codec_chunk_frames=3,
    )  # fmt: skip
    driver.speak()
    request = driver.submitted[0].request
    assert (request.mode, request.voice, request.language) == (Mode.CUSTOM_VOICE, "anna", "English")
    assert (request.instruct, request.layout, request.seed) == ("softly", Layout.STREAMING, 2**60)
    assert request.max_frames == 10  # The client requests 11 tokens, of which the last token is EOS.
    assert (request.split, request.first_chunk_frames) == (Split.CLAUSE, 3)
    assert (request.open_text, request.bans_eos, request.acknowledged) == (True, True, True)
    assert request.sampling == Sampling(
        temperature=0.5, top_k=3, top_p=0.8, repetition_penalty=1.2, predictor_temperature=0.6,
        predictor_top_k=4, predictor_top_p=0.7, greedy=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "meant"),
    [("en", "english"), ("pt-BR", "portuguese"), ("ZH_cn", "chinese"), ("beijing_dialect", "beijing_dialect")],
)
def test_language_may_be_given_as_a_code(said: str, meant: str) -> None:
    driver = ready(language=said)
    driver.speak()
    assert driver.submitted[0].request.language == meant


def test_context_id_may_be_reused_after_its_end() -> None:
    driver = ready()
    first = driver.speak("One.")
    driver.finish(first)
    second = driver.speak("Two.")
    driver.send_audio(first)  # This late audio belongs to the first utterance.
    driver.finish(second)
    assert first != second
    assert driver.kinds() == ["audio.done", "audio.done"]


def test_labelled_frames_contain_their_context_id() -> None:
    driver = ready(frames="labelled")
    first, two = driver.speak(context_id="a"), driver.speak(context_id="b")
    driver.start(first)
    driver.start(two)
    driver.send_audio(two)
    driver.send_audio(first)
    driver.send_audio(first, first=1)
    start_one, start_two, *sounds = driver.pop_messages()
    labels = [struct.unpack("<BBHIQ", sound[:16]) for sound in sounds]
    assert labels == [
        (1, 1, start_two["channel"], 0, 0),
        (1, 1, start_one["channel"], 0, 0),
        (1, 1, start_one["channel"], 1, 1920),
    ]
    assert struct.unpack_from("<h", sounds[2], 16) == (1920,)


def test_long_chunks_are_split_without_loss() -> None:
    driver = ready(frames="labelled")
    number = driver.speak()
    driver.send_audio(number, frames=16)
    sounds = driver.pop_messages()
    assert all(len(sound) <= 16 + 12_000 for sound in sounds)
    samples = b"".join(sound[16:] for sound in sounds)
    assert len(samples) == 16 * 3840
    firsts = [struct.unpack("<BBHIQ", sound[:16])[4] for sound in sounds]
    assert firsts == [6000 * index for index in range(len(sounds))]


def test_cancel_drops_unsent_audio() -> None:
    driver = ready()
    number = driver.speak()
    driver.start(number)
    driver.send_audio(number)
    driver.send_audio(number, first=1)
    assert driver.session.pop_message() is not None  # The first message is audio.start.
    assert driver.session.pop_message() is not None  # The second message contains the first 80 ms of audio.
    driver.send("playback", played_ms=30)
    driver.send("context.cancel")
    assert driver.cancelled == [number]
    driver.send_audio(number, first=2)  # The engine had generated this frame before it received the cancel.
    driver.finish(number, StopReason.CANCELLED)
    (cancelled,) = driver.pop_messages()
    assert cancelled == {
        "type": "context.cancelled", "context_id": "default", "sent_ms": 80.0, "played_ms": 30,
    }  # fmt: skip


def test_cancel_keeps_the_audio_of_other_contexts() -> None:
    driver = ready(frames="labelled")
    first, two = driver.speak(context_id="a"), driver.speak(context_id="b")
    driver.send_audio(first)
    driver.send_audio(two)
    driver.send("context.cancel", context_id="a")
    assert driver.kinds() == ["sound", "context.cancelled"]
    assert driver.cancelled == [first]
    driver.finish(two)
    assert driver.kinds() == ["audio.done"]


def test_cancel_before_the_end_of_a_text_discards_the_text() -> None:
    driver = ready()
    driver.send("input.text", text="No, ")
    driver.send("context.cancel", played_ms=0)
    driver.speak("yes.")
    assert driver.kinds() == ["context.cancelled"]
    assert driver.cancelled == [1]
    assert driver.sent_texts(2) == ["yes.", "."]


def test_cancellation_by_the_engine_is_reported_as_a_cancel() -> None:
    driver = ready()
    number = driver.speak()
    driver.finish(number, StopReason.CANCELLED)
    assert driver.kinds() == ["context.cancelled"]


def test_refused_request_gets_one_error_and_its_context_id_is_free() -> None:
    driver = ready()
    driver.send("input.done")
    driver.session.on_refused(driver.submitted[0].utterance, EmptyText(param="text"))
    (error,) = driver.replies()
    assert (error["code"], error["context_id"], error["param"]) == ("empty_text", "default", "text")
    driver.finish(driver.speak("Words."))
    assert driver.kinds() == ["audio.done"]


def test_failed_request_reports_whether_audio_was_sent() -> None:
    driver = ready()
    number = driver.speak()
    driver.send_audio(number)
    driver.session.on_speech(number, Broken(NonFiniteOutput(), RequestStats()))
    sound, error = driver.pop_messages()
    assert isinstance(sound, bytes)
    assert (error["code"], error["partial_audio"], error["retryable"]) == ("non_finite_output", True, True)


def test_each_invalid_message_is_answered_with_one_error() -> None:
    driver = Driver()
    driver.configure(temperature=-1)
    driver.send("input.text", text="Hello")
    driver.send("input.text", text=" there.")
    driver.send("input.done")
    assert driver.kinds() == ["session.created", "invalid_config@default"]
    driver.send("input.text", text="again")
    assert driver.kinds() == ["out_of_order@default"]


def test_refused_segment_ends_its_context() -> None:
    driver = ready(Limits(max_text_chars=8))
    driver.send("input.text", text="abcd")
    driver.send("input.text", text="efghi")
    driver.send("input.text", text="tail")
    driver.send("input.done")
    assert driver.kinds() == ["text_too_long@default"]
    assert driver.sent_texts(1) == ["abcd"]
    assert driver.cancelled == [1]
    driver.send("input.text", text="abcd")
    driver.send("input.text", text=5)
    driver.send("input.done")
    assert driver.kinds() == ["invalid_config@default"]
    assert driver.speak("12345678") == driver.submitted[-1].utterance


def test_out_of_order_messages_do_not_disturb_speech() -> None:
    driver = ready()
    number = driver.speak()
    driver.send("input.text", text="more")
    driver.send("input.done")
    driver.send("input.text", text=None)
    driver.finish(number)
    assert driver.kinds() == ["out_of_order@None", "out_of_order@None", "invalid_config@None", "audio.done"]


def test_configuration_applies_to_contexts_opened_later() -> None:
    driver = ready(voice="anna")
    driver.send("input.text", text="One.")
    driver.configure(voice="bert")
    driver.send("input.done")
    driver.finish(driver.submitted[0].utterance)
    driver.speak("Two.")
    assert [command.request.voice for command in driver.submitted] == ["anna", "bert"]


def test_context_configuration_applies_once() -> None:
    driver = ready(voice="anna", frames="labelled")
    driver.configure(voice="bert", context_id="b", frames="labelled")
    for _ in range(2):
        driver.finish(driver.speak(context_id="b"))
    assert [command.request.voice for command in driver.submitted] == ["bert", "anna"]


def test_refused_context_configuration_is_not_replaced_by_the_session_configuration() -> None:
    driver = ready(voice="anna", frames="labelled")
    driver.configure(context_id="b", top_p=7)
    driver.send("input.text", context_id="b", text="Hello")
    driver.send("input.done", context_id="b")
    assert driver.kinds() == ["invalid_config@b"]
    assert not driver.submitted


def test_unlabelled_frames_allow_one_context_at_a_time() -> None:
    driver = ready()
    driver.speak(context_id="a")
    driver.send("input.text", text="Hello", context_id="b")
    driver.send("input.done", context_id="b")
    assert driver.kinds() == ["out_of_order@b"]


def test_contexts_count_until_their_end_was_received() -> None:
    driver = ready(Limits(max_contexts=2), frames="labelled")
    spoken = driver.speak(context_id="a")
    driver.speak(context_id="b")
    driver.send("input.text", text="Hello", context_id="c")
    assert driver.kinds() == ["too_many_contexts@c"]
    driver.finish(spoken)
    driver.send("input.text", text="Hello", context_id="d")  # The client has not received the end of context a yet.
    assert driver.kinds() == ["audio.done", "too_many_contexts@d"]
    driver.speak(context_id="e")
    assert driver.kinds() == []


@pytest.mark.parametrize("refused", ["too many", "a text that cannot be spoken", "a text that is too large"])
def test_refused_context_leaves_no_configuration(refused: str) -> None:
    driver = ready(Limits(max_contexts=2, max_text_chars=20), frames="labelled")
    held = [driver.speak(context_id=name) for name in "ab"] if refused == "too many" else []
    text = {"too many": "Hello.", "a text that cannot be spoken": "a\0b"}.get(refused, 5 * "Too long. ")
    for number in range(12):
        driver.configure(context_id=f"c{number}", voice="bert")
        driver.send("input.text", context_id=f"c{number}", text=text)
        driver.send("input.done", context_id=f"c{number}")
    kinds = driver.kinds()
    assert [kind.partition("@")[2] for kind in kinds] == [f"c{number}" for number in range(12)]
    for number in held:
        driver.finish(number)
    assert driver.kinds() == ["audio.done"] * len(held)
    driver.configure(context_id="d", voice="bert")
    driver.finish(driver.speak(context_id="d"))
    assert driver.submitted[-1].request.voice == "bert"
    assert driver.kinds() == ["audio.done"]


def test_cancel_ends_a_configured_context_without_text() -> None:
    driver = ready(Limits(max_contexts=2), frames="labelled")
    for number in range(12):
        driver.configure(context_id=f"c{number}", voice="bert")
        driver.send("context.cancel", context_id=f"c{number}", played_ms=0)
        (reply,) = driver.replies()
        assert reply == {"type": "context.cancelled", "context_id": f"c{number}", "sent_ms": 0.0, "played_ms": 0}
        driver.send("context.cancel", context_id=f"c{number}")
        assert driver.replies() == []


def test_number_of_configured_contexts_is_limited() -> None:
    driver = ready(Limits(max_contexts=2))
    for name in "abc":
        driver.configure(context_id=name)
    assert driver.kinds() == ["too_many_contexts@c"]


def test_reference_is_decoded_once_and_awaited() -> None:
    driver = ready(task_type="base", ref_audio="UklGRg==", ref_text="Words.", frames="labelled")
    assert [decode.ref_audio for decode in driver.decodes] == ["UklGRg=="]
    for name in ("a", "b"):
        driver.send("input.text", text="Hello.", context_id=name)
        driver.send("input.done", context_id=name)
    assert not driver.submitted
    driver.session.on_reference(driver.decodes[0].upload, REFERENCE)
    driver.commands += driver.session.commands()
    driver.speak(context_id="c")
    references = [command.request.reference for command in driver.submitted]
    assert len(references) == 3
    assert all(
        reference is not None and reference.samples is REFERENCE.samples and reference.text == "Words."
        for reference in references
    )
    assert len(driver.decodes) == 1


def test_failed_reference_ends_the_contexts_waiting_for_it() -> None:
    driver = ready(task_type="base", ref_audio="AAAA", frames="labelled")
    driver.send("input.text", text="Hello.", context_id="a")
    driver.send("input.done", context_id="a")
    driver.send("input.text", text="Hello.", context_id="b")
    driver.session.on_reference(driver.decodes[0].upload, BadReferenceAudio(why="it is silent", param="ref_audio"))
    driver.send("input.done", context_id="b")
    assert driver.kinds() == ["invalid_ref_audio@a", "invalid_ref_audio@b"]
    assert not driver.submitted
    driver.send("input.text", text="Hello.", context_id="c")
    assert driver.kinds() == ["out_of_order@c"]  # The failed reference also removed the configuration.


def test_reference_failure_before_any_text_is_reported_once() -> None:
    driver = ready(task_type="base", ref_audio="AAAA")
    driver.session.on_reference(driver.decodes[0].upload, BadReferenceAudio(why="it is silent", param="ref_audio"))
    driver.send("input.text", text="Hello.")
    driver.send("input.done")
    assert driver.kinds() == ["invalid_ref_audio@default"]


def test_failure_of_a_replaced_reference_is_ignored() -> None:
    driver = ready(task_type="base", ref_audio="AAAA")
    driver.configure(task_type="base", ref_audio="BBBB", x_vector_only_mode=True)
    driver.session.on_reference(driver.decodes[0].upload, BadReferenceAudio(why="it is silent"))
    driver.session.on_reference(driver.decodes[1].upload, REFERENCE)
    driver.speak()
    assert driver.kinds() == []
    assert driver.submitted[0].request.reference.x_vector_only


def test_utterance_can_be_cancelled_while_its_reference_is_decoded() -> None:
    driver = ready(task_type="base", ref_audio="AAAA")
    driver.send("input.text", text="Hello.")
    driver.send("input.done")
    driver.send("context.cancel")
    driver.session.on_reference(driver.decodes[0].upload, REFERENCE)
    assert driver.kinds() == ["context.cancelled"]
    assert not driver.session.commands()


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({}, Mode.CUSTOM_VOICE),
        ({"ref_audio": "AAAA"}, Mode.BASE),
        ({"model": "clone"}, Mode.BASE),
        ({"task_type": "Base"}, Mode.BASE),
        ({"task_type": "custom_voice", "ref_audio": "ignored"}, Mode.CUSTOM_VOICE),
    ],
)
def test_mode_is_requested_or_inferred_from_the_fields(config: dict[str, str], mode: Mode) -> None:
    driver = ready(**config)
    driver.send("input.done")
    if driver.decodes:
        driver.decoded(driver.decodes[0].upload, REFERENCE)
    assert driver.submitted[0].request.mode is mode


@pytest.mark.parametrize(
    ("config", "code", "param"),
    [
        ({"task_type": "voice_design"}, "model_not_loaded", "task_type"),
        ({"task_type": "base", "model": "tiny"}, "model_not_loaded", "task_type"),
        ({"model": "another"}, "model_not_found", "model"),
        ({"max_frames": 4097}, "invalid_config", "max_frames"),
        ({"max_new_tokens": 4098}, "invalid_config", "max_frames"),
    ],
)
def test_configurations_over_server_limits_are_refused(config: dict[str, object], code: str, param: str) -> None:
    driver = Driver()
    driver.configure(**config)
    _, error = driver.replies()
    assert (error["code"], error["param"], error["context_id"]) == (code, param, "default")


def test_first_and_later_messages_have_timeouts() -> None:
    driver = Driver(Limits(config_s=10, idle_s=60))
    driver.now = 9.9
    driver.session.tick()
    driver.send("ping", t=1)
    driver.now = 69.8
    driver.session.tick()
    assert driver.kinds() == ["session.created", "pong"]
    driver.now = 69.9
    driver.session.tick()
    assert driver.kinds() == ["idle_timeout@None", "close 1008"]


def test_session_is_not_idle_while_speech_is_running() -> None:
    driver = ready(Limits(idle_s=60))
    number = driver.speak()
    driver.now = 1000.0
    driver.session.tick()
    driver.finish(number)
    assert driver.session.deadline == 1060.0
    assert driver.kinds() == ["audio.done"]


def test_open_text_without_messages_times_out_as_idle() -> None:
    driver = ready(Limits(idle_s=60))
    driver.send("input.text", text="Half a ")
    driver.now = 50.0
    driver.send_audio(1)
    driver.now = 109.9
    driver.session.tick()
    assert driver.kinds() == ["sound"]
    driver.now = 110.0
    driver.session.tick()
    driver.commands += driver.session.commands()
    assert driver.kinds() == ["idle_timeout@default", "idle_timeout@None", "close 1008"]
    assert driver.cancelled == [1]


def test_maximum_session_duration_is_announced_before_closing() -> None:
    driver = ready(Limits(session_s=3600))
    driver.speak()
    assert driver.session.deadline == 3540.0
    driver.now = 3540.0
    driver.session.tick()
    assert driver.session.deadline == 3600.0
    assert driver.replies() == [{"type": "session.expiring", "remaining_s": 60.0}]
    driver.session.tick()
    driver.now = 3600.0
    driver.session.tick()
    assert driver.kinds() == ["session_timeout@default", "session_timeout@None", "close 1008"]
    assert driver.session.deadline is None


def test_close_cancels_utterances_and_is_acknowledged() -> None:
    driver = ready(frames="labelled")
    number = driver.speak(context_id="a")
    driver.send("input.text", text="half", context_id="b")
    driver.send("session.close")
    assert driver.cancelled == [number, number + 1]
    *_, done, close = driver.pop_messages()
    assert done == {"type": "session.done", "utterances": 2}
    assert (close.code, close.reason) == (1000, "")
    driver.send("ping")
    driver.finish(number)
    assert driver.kinds() == []


def test_server_may_close_the_session() -> None:
    driver = ready(frames="labelled")
    number = driver.speak(context_id="a")
    driver.send_audio(number)
    driver.session.close_with(Draining(), 1001)
    driver.session.close_with(Draining(), 1001)
    assert driver.kinds() == ["draining@a", "draining@None", "close 1001"]
    assert [command.utterance for command in driver.session.commands()] == [number]


def test_disconnect_releases_all_resources() -> None:
    driver = ready(frames="labelled")
    number = driver.speak(context_id="a")
    driver.send("input.text", text="half", context_id="b")
    driver.send_audio(number)
    driver.session.on_disconnect()
    assert [command.utterance for command in driver.session.commands()] == [number, number + 1]
    driver.finish(number)
    driver.session.tick()
    assert driver.kinds() == []
    assert driver.session.deadline is None


def test_session_is_congested_if_its_client_reads_no_replies() -> None:
    driver = ready()
    for index in range(257):
        driver.send("ping", t=index)
    assert driver.session.is_congested
    driver.pop_messages()
    assert not driver.session.is_congested


TURNS = [{"text": "One.", "voice": "anna"}, {"text": "Two."}, {"text": "Three.", "voice": "Clara"}]


def turn_of(driver: Driver, number: int, frames: int = 1) -> None:
    driver.start(number)
    driver.send_audio(number, frames=frames)
    driver.finish(number)


def test_dialogue_is_one_utterance_with_pauses_and_one_seed() -> None:
    driver = ready(voice="anna", frames="labelled")
    driver.send("input.dialogue", inputs=TURNS[:2], turn_pause_ms=80)
    (first,) = driver.submitted
    turn_of(driver, first.utterance)
    second = driver.submitted[-1]
    assert (second.utterance, second.request.text, second.request.seed) == (first.utterance, "Two.", 7)
    turn_of(driver, first.utterance)
    messages = driver.pop_messages()
    replies = [item for item in messages if isinstance(item, dict)]
    assert [reply["type"] for reply in replies] == ["audio.start", "dialogue.turn", "dialogue.turn", "audio.done"]
    assert [(reply["turn"], reply["first_sample"]) for reply in replies[1:3]] == [(0, 0), (1, 3840)]
    assert (replies[3]["total_samples"], replies[3]["metrics"]["frames"]) == (5760, 2)
    starts = [struct.unpack_from("<Q", item, 8)[0] for item in messages if isinstance(item, bytes)]
    assert starts == [0, 1920, 3840]


def test_stored_voice_of_a_dialogue_turn_is_read_before_the_turn() -> None:
    driver = ready(voice="anna")
    driver.send("input.dialogue", inputs=[TURNS[0], TURNS[2]])
    number = driver.submitted[-1].utterance
    turn_of(driver, number)
    assert len(driver.submitted) == 1
    (recall,) = driver.uploads
    driver.session.on_reference(recall.upload, REFERENCE)
    driver.gather()
    assert [submit.request.text for submit in driver.submitted] == ["One.", "Three."]
    driver.pop_messages()

    driver.session.on_refused(number, Overloaded(slots=1, waiting=1, retry_after_s=1.0))
    assert driver.pop_messages() == []
    driver.now += 1.0
    driver.session.tick()
    driver.gather()
    driver.session.on_reference(driver.uploads[-1].upload, REFERENCE)
    driver.gather()
    assert [submit.request.text for submit in driver.submitted] == ["One.", "Three.", "Three."]


def test_played_position_is_converted_to_the_current_turn() -> None:
    driver = ready(voice="anna")
    driver.send("input.dialogue", inputs=TURNS[:2], turn_pause_ms=80)
    number = driver.submitted[-1].utterance
    turn_of(driver, number)
    driver.start(number)
    driver.send("playback", played_ms=170)
    assert driver.commands_of(Played)[-1] == Played(number, 10.0)
    driver.send("context.cancel")
    assert driver.kinds()[-1] == "context.cancelled"


@pytest.mark.parametrize(
    ("inputs", "code", "param"),
    [
        ([*TURNS, {"text": "No.", "voice": "nobody"}], "unknown_voice", "inputs.3.voice"),
        ([*TURNS, {"text": " "}], "empty_text", "inputs.3.text"),
        ([{"text": "a", "voice": f"v{index}"} for index in range(11)], "invalid_config", "inputs"),
        ([], "invalid_config", "inputs"),
    ],
)
def test_dialogue_is_checked_before_its_first_turn(inputs: list[Any], code: str, param: str) -> None:
    driver = ready(voice="anna")
    driver.send("input.dialogue", inputs=inputs)
    (error,) = driver.replies()
    assert (error["code"], error["param"], driver.submitted) == (code, param, [])


def test_dialogue_is_refused_in_a_context_that_has_a_text() -> None:
    driver = ready(voice="anna")
    driver.send("input.text", text="Hello.")
    driver.send("input.dialogue", inputs=TURNS)
    (error,) = driver.replies()
    assert (error["code"], len(driver.submitted)) == ("out_of_order", 1)
