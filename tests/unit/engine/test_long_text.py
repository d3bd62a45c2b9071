"""Tests for long texts, which are split into segments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runtime.engine.engine import Engine
from runtime.engine.scheduling.input_processor import admit
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import SpeechRequest, Split
from runtime.settings import Limits
from tests.support.engines import custom_voice, engine_of, seeded, speak, speak_live, streamed
from tests.support.examples import examples
from tests.support.frames import end_parts_after

pytestmark = pytest.mark.usefixtures("each_device")

SENTENCES = ("The harbour was quiet.", "Nobody came.", "Then the old boat left.")
TEXT = " ".join(SENTENCES)
PART = 40  # Maximum number of characters of a segment, sufficient for two of the sentences.
SENTENCES_IN_PARTS = ["The harbour was quiet. Nobody came.", "Then the old boat left."]


@pytest.fixture(scope="module")
def short(quick: Checkpoint) -> Checkpoint:
    """Return a CustomVoice checkpoint with a segment limit of forty characters."""
    return replace(quick, config=replace(quick.config, part_chars=PART))


@pytest.fixture
def few_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each segment to three frames, because speech from random weights does not end."""
    monkeypatch.setattr("runtime.engine.scheduling.input_processor.frame_budget", lambda _: 3)
    monkeypatch.setattr("runtime.engine.scheduling.segment_runner.frame_budget", lambda _: 3)


def free(text: str = TEXT, **kwargs: Any) -> SpeechRequest:
    return custom_voice(text, **{"max_frames": None, **seeded(11), **kwargs})


def parts_of(request: SpeechRequest, checkpoint: Checkpoint, **limits: Any) -> list[str]:
    _, text_stream = admit(request, checkpoint, Limits(**limits), 512)
    return [part.spoken for part in text_stream.segments]


@pytest.mark.usefixtures("few_frames")
def test_long_text_is_split_into_segments_with_their_own_codes(short: Checkpoint) -> None:
    engine = engine_of(short)
    recorder = speak(engine, free())
    assert recorder.end.stats.parts == 2
    alone = [speak(engine, free(part)) for part in SENTENCES_IN_PARTS]
    assert np.array_equal(recorder.codes, np.concatenate([recorder.codes for recorder in alone]))


@pytest.mark.usefixtures("few_frames")
def test_text_below_the_limit_is_one_segment_with_unchanged_codes(quick: Checkpoint, short: Checkpoint) -> None:
    for text in (SENTENCES_IN_PARTS[0], "x" * PART):
        recorder = speak(engine_of(short), free(text))
        assert recorder.end.stats.parts == 1
        assert np.array_equal(recorder.codes, speak(engine_of(quick), free(text, split=Split.NONE)).codes)


@pytest.mark.usefixtures("few_frames")
def test_split_none_keeps_one_segment_of_any_length(short: Checkpoint) -> None:
    assert speak(engine_of(short), free(split=Split.NONE)).end.stats.parts == 1
    assert parts_of(free(split=Split.NONE), short) == [TEXT]


@pytest.mark.parametrize("split", [Split.SENTENCE, Split.CLAUSE])
def test_sentence_above_the_limit_is_cut_at_a_clause_or_word(short: Checkpoint, split: Split) -> None:
    text = "When the harbour was quiet, nobody came to see the boat. Good."
    assert parts_of(free(text, split=split), short) == [
        "When the harbour was quiet,",
        "nobody came to see the boat.",
        "Good.",
    ]
    assert parts_of(free("word " * 12, split=split), short) == [("word " * 8).strip(), ("word " * 4).strip()]


def test_settings_limit_the_segment_length_if_the_checkpoint_does_not(quick: Checkpoint) -> None:
    assert quick.config.part_chars is None
    assert parts_of(free(), quick) == [TEXT]
    assert parts_of(free(), quick, part_chars=PART) == SENTENCES_IN_PARTS
    (card,) = engine_of(quick, limits=Limits(part_chars=PART)).cards
    assert card.part_chars == PART


def test_segment_length_of_the_checkpoint_overrides_the_settings(short: Checkpoint) -> None:
    assert parts_of(free(), short, part_chars=400) == SENTENCES_IN_PARTS
    (card,) = engine_of(short).cards
    assert card.part_chars == PART


@pytest.mark.usefixtures("few_frames")
def test_text_streamed_at_once_has_the_segments_of_the_complete_text(short: Checkpoint) -> None:
    engine = engine_of(short)
    assert np.array_equal(speak_live(engine, free(), [TEXT]).codes, speak(engine, free()).codes)
    _, text_stream = admit(replace(free(), text="", open_text=True), short, Limits(), 512)
    text_stream.append_text(TEXT)
    assert [part.text for part in text_stream.segments] == SENTENCES_IN_PARTS[:1]


# --- Tests of text that arrives while the speech is generated.

LONG = " ".join(SENTENCES * 2)


def by_token(text: str = LONG, **kwargs: Any) -> SpeechRequest:
    return streamed(text, **{"max_frames": None, **seeded(11), **kwargs})


def token_parts(checkpoint: Checkpoint, text: str, *pieces: str) -> list[tuple[str, list[int]]]:
    """Return the spoken text and the tokens of each segment of a streamed text."""
    _, text_stream = admit(by_token(text, open_text=bool(pieces)), checkpoint, Limits(), 512)
    for piece in pieces:
        text_stream.append_text(piece)
    text_stream.finish()
    return [(part.spoken, part.tokens) for part in text_stream.segments]


@pytest.mark.usefixtures("few_frames")
def test_streamed_text_starts_a_new_segment_after_the_limit(short: Checkpoint) -> None:
    parts = token_parts(short, LONG)
    assert [text for text, _ in parts] == [TEXT, TEXT]
    tokenizer = short.text_tokenizer
    assert [tokens for _, tokens in parts] == [tokenizer.encode_text(TEXT)] * 2
    engine = engine_of(short)
    recorder = speak(engine, by_token())
    assert recorder.end.stats.parts == 2
    alone = speak(engine, by_token(TEXT))
    assert np.array_equal(recorder.codes, np.concatenate([alone.codes] * 2))


def test_streamed_text_without_sentences_is_cut_after_a_word(short: Checkpoint) -> None:
    assert [text for text, _ in token_parts(short, "word " * 20)] == [("word " * 13).strip(), ("word " * 7).strip()]


def test_short_streamed_text_is_a_single_segment(short: Checkpoint) -> None:
    text = SENTENCES_IN_PARTS[0]
    assert token_parts(short, text) == [(text, short.text_tokenizer.encode_text(text))]


WORDS = ("word", "A", "end.", '"Yes!"', "(so", "- ", "…", "\n\n", "你好。", "3.14")


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.sampled_from(["word", "A", "end.", '"Yes!"', "(so", "- ", "…", "\n\n", "你好。", "3.14"]), max_size=40
    ),
    cuts=st.lists(st.integers(0, 200), max_size=8).map(sorted),
)
@example(words=["word"] * 6 + ['"Yes!"', "你好。"], cuts=[])  # The sentence with the quotation may continue with 你.
@example(words=["word"] * 7 + ["“好！”", "-", "说", "word"], cuts=[])  # The split is at a space in a quotation.
def test_chunking_of_streamed_text_changes_no_segment_or_token(
    short: Checkpoint, words: list[str], cuts: list[int]
) -> None:
    text = " ".join(["Hello", *words])
    ends = [*cuts, len(text)]
    pieces = [text[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    whole = token_parts(short, text)
    assert token_parts(short, "", *pieces) == whole
    assert token_parts(short, "", *text) == whole


@pytest.mark.slow("at once-0", "at once-8")
@pytest.mark.parametrize("ticks", [0, 3, 8])
def test_streamed_text_has_the_same_codes_for_any_chunking(short: Checkpoint, ticks: int) -> None:
    engine: Engine = engine_of(short)
    end_parts_after(engine, 40)  # No segment reaches this number of frames before its text is complete.
    whole = speak(engine, by_token())
    pieces = [LONG[start : start + 17] for start in range(0, len(LONG), 17)]
    recorder = speak_live(engine, by_token(), pieces, [ticks] * len(pieces))
    assert np.array_equal(recorder.codes, whole.codes)
    assert np.array_equal(recorder.pcm, whole.pcm)
    assert recorder.end.stats.parts == 2
