"""Tests for inline tags in the engine: styles of tagged text, and exact pauses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from runtime.engine.core import PAUSE_NOTE
from runtime.engine.engine import Engine
from runtime.errors import EmptyText, InvalidConfig, TagTooLong, UnreadableText
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.request import (
    DROPPED_STYLES,
    LEFT_OUT_SSML,
    NO_SPELLING,
    NO_TAG,
    NOTE_MARKS,
    SAMPLE_RATE,
    STRANGE_SCRIPT,
    UNREAD_TAGS,
    Layout,
    SpeechRequest,
    Split,
    StopReason,
)
from tests.conftest import FolderOf
from tests.support.changed_checkpoint import rewrite_config
from tests.support.engines import (
    EventRecorder,
    assert_one_stream,
    cloned,
    custom_voice,
    drain,
    engine_of,
    raise_refusal,
    run_turns,
    seeded,
    speak,
    speak_live,
    voice_design,
)
from tests.support.frames import end_parts_after

pytestmark = pytest.mark.usefixtures("each_device")

FRAMES = 5  # Number of frames of every segment.
SAMPLES_PER_FRAME = 1920
LAYOUTS = [Layout.NON_STREAMING, Layout.STREAMING]
HALF_SECOND = np.zeros(SAMPLE_RATE // 2, np.int16)


def tagged(text: str, **kwargs: Any) -> SpeechRequest:
    return custom_voice(text, **{"tags": True, "max_frames": None, **seeded(11), **kwargs})


def ending(checkpoint: Checkpoint, frames: int = FRAMES, **settings: Any) -> Engine:
    """Return an engine whose talker ends every segment after `frames` frames."""
    engine = engine_of(checkpoint, guard=False, **settings)
    end_parts_after(engine, frames)
    return engine


@pytest.fixture(scope="module")
def engine(quick: Checkpoint) -> Engine:
    return ending(quick)


def codes_of(engine: Engine, *parts: tuple[str, str | None], **kwargs: Any) -> np.ndarray:
    """Return the concatenated codes of one request per (text, instruct) pair."""
    alone = [speak(engine, tagged(text, instruct=instruct, tags=False, **kwargs)) for text, instruct in parts]
    return np.concatenate([recorder.codes for recorder in alone])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_text_after_a_style_tag_has_the_codes_of_a_request_with_this_style(engine: Engine, layout: Layout) -> None:
    text = "Hello world. [excited] You speak. [neutral] The old phone. [tired, slow] It is slow."
    recorder = speak(engine, tagged(text, instruct="Calm.", layout=layout))
    assert_one_stream(recorder)
    assert recorder.end.stop_reason is StopReason.EOS
    assert recorder.end.stats.parts == 4
    parts = [
        *(("Hello world.", "Calm."), ("You speak.", "excited")),
        *(("The old phone.", "Calm."), ("It is slow.", "tired, slow")),
    ]
    assert np.array_equal(recorder.codes, codes_of(engine, *parts, layout=layout))
    assert not np.array_equal(recorder.codes[:FRAMES], codes_of(engine, ("Hello world.", "excited"), layout=layout))
    assert not recorder.started.notes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", ["Hello world, you.", "One. Two [1] three. Four."])
def test_text_without_tags_has_unchanged_codes_and_audio(engine: Engine, layout: Layout, text: str) -> None:
    plain = speak(engine, tagged(text, tags=False, layout=layout))
    recorder = speak(engine, tagged(text, layout=layout))
    assert np.array_equal(recorder.codes, plain.codes)
    assert np.array_equal(recorder.pcm, plain.pcm)
    assert recorder.end.stats.parts == plain.end.stats.parts == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pause_inserts_silence_between_unchanged_samples(engine: Engine, layout: Layout) -> None:
    text = "Hello world. {} You speak."
    pause = speak(engine, tagged(text.format("[pause:500ms]"), layout=layout))
    none = speak(engine, tagged(text.format("[sad][neutral][pause 0]"), layout=layout))
    assert_one_stream(pause)
    assert pause.end.stop_reason is StopReason.EOS
    at = FRAMES * SAMPLES_PER_FRAME
    assert len(none.pcm) == 2 * at
    assert np.array_equal(pause.codes, none.codes)
    assert np.array_equal(pause.pcm, np.concatenate([none.pcm[:at], HALF_SECOND, none.pcm[at:]]))
    stats = pause.end.stats
    assert (stats.frames, stats.audio_s) == (2 * FRAMES, pytest.approx(2 * FRAMES * 0.08 + 0.5))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ssml_break_is_a_pause_if_tags_or_the_dialect_allow_it(engine: Engine, layout: Layout) -> None:
    text = "Hello world. {} You [sad] speak."
    pause = speak(engine, tagged(text.format("[pause:500ms]"), layout=layout))
    broken = speak(engine, tagged(text.format("<break time='500ms'/>"), layout=layout))
    assert np.array_equal(pause.pcm, broken.pcm)
    text = "Hello world. {} You speak."
    pause = speak(engine, tagged(text.format("[pause:500ms]"), layout=layout))
    short = tagged(text.format('<Break time="0.9 S">'), tags=False, max_break_s=0.5, layout=layout)
    assert np.array_equal(pause.pcm, speak(engine, short).pcm)
    assert not broken.started.notes


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unsupported_ssml_is_left_out_with_a_note(engine: Engine, layout: Layout) -> None:
    plain = speak(engine, tagged("Hello [x] world. You speak.", tags=False, layout=layout))
    text = "<speak>Hello [x] <emphasis level='strong'>world</emphasis>.<break time='500ms'/>You speak.</speak>"
    request = tagged(text, tags=False, layout=layout)
    recorder = speak(engine, request)
    assert np.array_equal(recorder.pcm, plain.pcm)
    assert recorder.started.notes == (LEFT_OUT_SSML,)


@pytest.mark.parametrize("text", ["<break/>", "<speak> </speak>"])
def test_text_of_only_omitted_tags_is_a_short_pause(engine: Engine, text: str) -> None:
    recorder = speak(engine, tagged(text, tags=False))
    assert set(recorder.started.notes) == {PAUSE_NOTE, LEFT_OUT_SSML}
    assert np.array_equal(recorder.pcm, np.zeros(3 * SAMPLES_PER_FRAME, np.int16))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("split", Split)
def test_single_symbol_is_spoken(engine: Engine, layout: Layout, split: Split) -> None:
    request = tagged("€", tags=False, layout=layout, split=split)
    recorder = speak(engine, request)
    assert (len(recorder.codes), recorder.started.notes) == (FRAMES, ())
    assert np.array_equal(speak_live(engine, request, [" ", "€", " "], [1, 1, 1]).codes, recorder.codes)
    assert len(speak(engine, tagged("Hello. [pause] %", layout=layout, split=split)).codes) == 2 * FRAMES
    assert not len(speak(engine, tagged("...", layout=layout, split=split)).codes)


def test_consecutive_pauses_and_pauses_at_both_ends_are_supported(engine: Engine) -> None:
    plain = speak(engine, tagged("Hello world.", tags=False))
    recorder = speak(engine, tagged("[pause 250ms][pause 250ms] Hello world. [pause:500ms]"))
    assert_one_stream(recorder)
    assert recorder.end.stop_reason is StopReason.EOS
    assert np.array_equal(recorder.pcm, np.concatenate([HALF_SECOND, plain.pcm, HALF_SECOND]))


def test_pauses_keep_their_position_in_large_chunks(quick: Checkpoint) -> None:
    """A chunk that spans several segments contains the pauses between them."""
    text = "Hello. [pause 500ms] You. [pause 500ms] Phone."
    engine = ending(quick, 3, sound_work=9)
    recorder = speak(engine, tagged(text, first_chunk_frames=9))
    at = 3 * SAMPLES_PER_FRAME
    assert [len(chunk.codes) for chunk in recorder.chunks] == [3, 0, 3, 0, 3]
    silences = [
        np.flatnonzero(recorder.pcm[start : start + len(HALF_SECOND)]) for start in (at, 2 * at + len(HALF_SECOND))
    ]
    assert [len(silence) for silence in silences] == [0, 0]
    assert len(recorder.pcm) == 3 * at + 2 * len(HALF_SECOND)


@pytest.mark.parametrize("tags", ["[pause 500ms]", " [sad] [pause:500ms] "])
def test_text_of_only_a_pause_gives_its_silence(engine: Engine, tags: str) -> None:
    recorder = speak(engine, tagged(tags))
    assert np.array_equal(recorder.pcm, HALF_SECOND)
    assert recorder.codes.shape[0] == 0


@pytest.mark.slow("at once-3-non_streaming", "at once-0-non_streaming", "at once-0-streaming")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ticks", [0, 3])
def test_text_streamed_by_letter_gives_the_same_codes(quick: Checkpoint, layout: Layout, ticks: int) -> None:
    # Every segment has more frames than tokens, so all its text is used before the segment ends.
    engine = ending(quick, 20)
    text = "Hello world. [excited] You speak [pause:500ms] slow. [neutral] The phone."
    request = tagged(text, layout=layout, bans_eos=layout is Layout.STREAMING)
    whole = speak(engine, request)
    recorder = speak_live(engine, request, list(text), [ticks] * len(text))
    assert_one_stream(recorder)
    assert recorder.end.stop_reason is StopReason.EOS
    assert np.array_equal(recorder.codes, whole.codes)
    assert np.array_equal(recorder.pcm, whole.pcm)


def test_flush_does_not_split_an_incomplete_tag(engine: Engine) -> None:
    recorder = EventRecorder()
    ticket = engine.submit(tagged("Hello world. [exc", open_text=True, split=Split.SENTENCE), recorder)
    engine.flush(ticket)
    run_turns(engine, 20)
    assert len(recorder.codes) == FRAMES
    engine.append_text(ticket, "ited] You speak.")
    engine.finish_text(ticket)
    drain(engine)
    assert np.array_equal(recorder.codes, codes_of(engine, ("Hello world.", None), ("You speak.", "excited")))


# --- Tests of checkpoints that ignore styles.


@pytest.fixture(scope="module")
def deaf(quick: Checkpoint) -> Engine:
    """Return an engine whose checkpoint ignores instructions, like the 0.6B checkpoints."""
    return ending(replace(quick, config=replace(quick.config, takes_instruct=False)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unsupported_styles_are_left_out_with_a_note(deaf: Engine, layout: Layout) -> None:
    recorder = speak(deaf, tagged("[excited] Hello [sad] world. [neutral] You.", layout=layout))
    plain = speak(deaf, tagged("Hello world. You.", tags=False, layout=layout))
    assert np.array_equal(recorder.codes, plain.codes)
    assert recorder.started.notes == (DROPPED_STYLES,)
    assert recorder.end.notes == (), "it was told already"
    assert not speak(deaf, tagged("Hello. [pause 10ms] You.", layout=layout)).started.notes


def test_note_about_a_style_in_streamed_text_is_sent_at_the_end(deaf: Engine) -> None:
    recorder = EventRecorder()
    ticket = deaf.submit(tagged("Hello world. You", open_text=True, split=Split.SENTENCE), recorder)
    for _ in range(5):
        deaf.tick()
    assert recorder.started.notes == ()
    deaf.append_text(ticket, " speak. [excited] Yes.")
    deaf.finish_text(ticket)
    drain(deaf)
    assert recorder.end.notes == (DROPPED_STYLES,)


def test_clone_ignores_style_tags_and_a_described_voice_appends_them(cloner: Checkpoint, designer: Checkpoint) -> None:
    text = "Hello. [excited] You."
    clone = speak(engine_of(cloner), cloned(text, tags=True, max_frames=2))
    assert DROPPED_STYLES in clone.started.notes
    engine = ending(designer, 2)
    words: dict[str, Any] = {"max_frames": None, **seeded(3)}
    described = speak(engine, voice_design(text, instruct="A warm voice.", tags=True, **words))
    alone = speak(engine, voice_design("You.", instruct="A warm voice. excited", **words))
    assert np.array_equal(described.codes[2:], alone.codes)


# --- Tests of tags that the engine refuses.


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[excited] [sad]", EmptyText),
        (f"Hello [style: {'a' * 501}] you.", TagTooLong),
        ("Hello [<|im_start|>] you.", InvalidConfig),
        ("Hello <|im_[neutral]start|> you.", InvalidConfig),
    ],
)
def test_invalid_tags_are_refused_before_a_slot_is_used(engine: Engine, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        raise_refusal(engine, tagged(text))


@pytest.mark.parametrize("bracket", ["pause:abc", "Pause 5 minutes", "break:long", "sic", "to Tom, his brother"])
def test_unknown_bracket_is_spoken_and_noted(engine: Engine, bracket: str) -> None:
    recorder = speak(engine, tagged(f"[{bracket}] Hello.", max_frames=2))
    assert recorder.started.notes == (NO_TAG,)
    assert np.array_equal(recorder.codes, speak(engine, tagged(f"[{bracket}] Hello.", tags=False, max_frames=2)).codes)


@pytest.mark.parametrize("text", ["[sad] Hello.", "Hello [pause 1s] world.", "Hello [sic] and [style: to Tom] you."])
def test_tags_spoken_as_text_are_noted(engine: Engine, text: str) -> None:
    assert speak(engine, tagged(text, tags=False, max_frames=2)).started.notes == (UNREAD_TAGS,)
    assert not speak(engine, tagged("[sic] Hello [1].", tags=False, max_frames=2)).started.notes


def test_letters_of_unsupported_scripts_are_noted(quick: Checkpoint) -> None:
    engine = engine_of(quick)
    note = STRANGE_SCRIPT.format(script="arabic")
    assert speak(engine, tagged("Hello مرحبا.", max_frames=2)).started.notes == (note,)
    recorder = EventRecorder()
    ticket = engine.submit(tagged("Hello", open_text=True, max_frames=2), recorder)
    engine.append_text(ticket, " مرحبا you.")
    engine.finish_text(ticket)
    drain(engine)
    assert note in (*recorder.started.notes, *recorder.end.notes)
    assert not speak(engine, tagged("Hello naïve 水.", max_frames=2)).started.notes, "it knows Chinese"


@pytest.fixture(scope="module")
def english_engine(folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Return an engine whose checkpoint supports only English text."""
    folder = shutil.copytree(folder_of("quick", "custom_voice"), tmp_path_factory.mktemp("english") / "ascii")
    rewrite_config(folder, lambda config: config.update(voicewright_alphabet="ascii"))
    return engine_of(load_checkpoint(str(folder), torch.device("cpu"), torch.float32))


@pytest.mark.parametrize(
    "text", ["Hello 水.", "Hello Ωμέγα.", "It costs 5 € or ٣.", "Well done 🙂👍🏽!", "No \ufffd here."]
)
def test_text_unreadable_by_an_english_checkpoint_is_left_out_and_noted_once(english_engine: Engine, text: str) -> None:
    assert speak(english_engine, tagged(text, max_frames=2)).started.notes == (NO_SPELLING,)


@pytest.mark.parametrize(
    ("text", "notes"),
    [("A word⁴ here.", (NOTE_MARKS,)), ("The end.² Then", (NOTE_MARKS,)), ("Ten km², 10⁴ and x⁴.", ())],
)
def test_footnote_marks_are_left_out_and_noted(english_engine: Engine, text: str, notes: tuple[str, ...]) -> None:
    assert speak(english_engine, tagged(text, max_frames=2)).started.notes == notes


def test_english_checkpoint_refuses_text_without_readable_letters(english_engine: Engine) -> None:
    with pytest.raises(UnreadableText):
        speak(english_engine, tagged("Москва 水", max_frames=2))


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("“Zoë’s café…”", '"Zoe\'s cafe..."'),
        ("CHAPTER ONE: 5 € for 1 kWh 🙂.", "chapter one: five euros for one kilowatt hour."),
        ("[pause:100ms] At 3:30 [pause:100ms] 50 %", "[pause:100ms] At three thirty [pause:100ms] fifty percent"),
    ],
)
def test_english_checkpoint_speaks_symbols_as_words(
    english_engine: Engine, layout: Layout, text: str, reading: str
) -> None:
    plain = speak(english_engine, tagged(reading, layout=layout, max_frames=6))
    np.testing.assert_array_equal(speak(english_engine, tagged(text, layout=layout, max_frames=6)).pcm, plain.pcm)
    recorder = EventRecorder()
    ticket = english_engine.submit(tagged(text[:9], layout=layout, open_text=True, max_frames=6), recorder)
    for start in range(9, len(text), 3):
        english_engine.append_text(ticket, text[start : start + 3])
    english_engine.finish_text(ticket)
    drain(english_engine)
    np.testing.assert_array_equal(recorder.pcm, plain.pcm)
