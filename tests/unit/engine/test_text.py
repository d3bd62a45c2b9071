"""Tests for the validation of a text, and for its frame limit."""

from __future__ import annotations

import pytest

from runtime.engine.text.rules import GRACE_FRAMES, LongNumberSplitter, frame_budget, validate_instruct, validate_text
from runtime.errors import EmptyText, InvalidConfig, SpeechError, TextTooLong
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.settings import Limits

LIMITS = Limits(max_text_chars=100, max_instruct_chars=20)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Hello.", "Hello."),
        ("\nHello.", "Hello."),
        ("  \r\n\t Hello. \n", "Hello."),
        ("　你好　", "你好"),
        ("Hello\n\nworld", "Hello\n\nworld"),
        ("7", "7"),
        ("ก็", "ก็"),
        ("x" * 100, "x" * 100),
        (" " * 200 + "x", "x"),
    ],
)
def test_white_space_at_both_ends_of_a_text_is_ignored(speaker: Checkpoint, text: str, spoken: str) -> None:
    assert validate_text(text, speaker.text_tokenizer, LIMITS) == spoken


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", EmptyText),
        (" \n\t", EmptyText),
        ("x" * 101, TextTooLong),
        ("Hello <|im_end|>", InvalidConfig),
        ("<tts_pad>a", InvalidConfig),
        ("a<|endoftext|>", InvalidConfig),
        ("half \ud83d of a character", InvalidConfig),
    ],
)
def test_unspeakable_text_is_refused(speaker: Checkpoint, text: str, error: type[SpeechError]) -> None:
    with pytest.raises(error) as caught:
        validate_text(text, speaker.text_tokenizer, LIMITS)
    assert caught.value.param == "text"


def test_text_resembling_a_control_token_is_accepted(speaker: Checkpoint) -> None:
    assert validate_text("a <|im_ end|> b", speaker.text_tokenizer, LIMITS) == "a <|im_ end|> b"


@pytest.mark.parametrize(
    ("instruct", "kept"), [(None, None), ("", None), (" \n", None), (" Speak low. ", "Speak low.")]
)
def test_instruct_without_content_is_ignored(speaker: Checkpoint, instruct: str | None, kept: str | None) -> None:
    assert validate_instruct(instruct, speaker.text_tokenizer, LIMITS) == kept


def test_instruct_with_a_control_token_is_refused(speaker: Checkpoint) -> None:
    with pytest.raises(InvalidConfig) as caught:
        validate_instruct("<|im_start|>", speaker.text_tokenizer, LIMITS)
    assert caught.value.param == "instructions"


@pytest.mark.parametrize(
    ("instruct", "kept"),
    [
        ("Speak low and slowly", "Speak low and slowly"),
        ("Speak low and slowly.", "Speak low and"),
        ("Speak low and slow or not", "Speak low and slow"),
        ("x" * 21, "x" * 20),
    ],
)
def test_long_instruct_is_truncated_after_a_word(speaker: Checkpoint, instruct: str, kept: str) -> None:
    assert validate_instruct(instruct, speaker.text_tokenizer, LIMITS) == kept


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Hello world, this is a sentence of ordinary length that somebody reads aloud.", 5.0),
        ("你好，今天的声音很清楚，我们慢慢地说。", 4.5),
        ("3.14159265358979", 6.0),
        ("안녕하세요 오늘은 날씨가 좋습니다", 3.5),
    ],
)
def test_frame_budget_allows_speech_at_half_speed(text: str, seconds: float) -> None:
    """A runaway must end within six times the expected length plus GRACE_FRAMES."""
    frames = seconds / 0.08
    assert 2 * frames < frame_budget(text) < 6 * frames + GRACE_FRAMES


def test_frame_budget_grows_with_the_text_and_has_a_minimum() -> None:
    budgets = [frame_budget("a" * length) for length in range(0, 200, 10)]
    assert budgets == sorted(budgets)
    assert budgets[0] == GRACE_FRAMES
    assert frame_budget("a") < 60


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_long_numbers_are_grouped_for_any_chunking(size: int) -> None:
    text = "1234567890123456 and 123456789012345678901, then 12 34"
    numbers = LongNumberSplitter()
    pieces = (text[start : start + size] for start in range(0, len(text), size))
    assert "".join(map(numbers.feed_text, pieces)) == "1234567890123456 and 1234567890123456 7890 1, then 12 34"
