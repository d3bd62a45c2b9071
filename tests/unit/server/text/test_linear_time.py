"""Tests that each stage of text processing needs linear time, for chunks of any size."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from functools import partial

import pytest

from runtime.engine.text.splitting import SegmentSplitter
from runtime.markdown.growing import GrowingMarkdown
from runtime.model.text.english_normalizer import StreamingNormalizer
from runtime.request import Split
from runtime.server.omni.sentences import SentenceSplitter
from runtime.settings import Limits
from runtime.shared.text.inline_tags import InlineTags, tag_pattern
from runtime.shared.text.pronouncing import GrowingPronunciation, dictionary_of
from runtime.shared.text.scripts import find_unsupported_script
from runtime.shared.text.sentence_ends import TAIL_CHARS, may_end
from runtime.shared.text.spelling import Spelling
from tests.support.least_times import least_times

UNITS = (
    *(". ", "![", "[", "*a ", "`", "<", "&", "[a](", "- a\n", "> ", "|a|\n", " ", "a", "a b ", "[x", "1", "。", "\n"),
    *("<break ", "<break a=a ", "<p ", "<sub a='", "[<s>", "[^", "[^a]", "[^1]: a\n", "    [^a]: b\n\n", "> [!tip]\n"),
    *('"', "。”", "。”他", "？」と", "%"),
)
WORDS = tuple((" ".join("abcdefgh"[(seed + place) % 8] for place in range(40)), "x", True) for seed in range(8))
Stage = Callable[[], Callable[[str], object]]
# Stages of text processing, which `Utterance` and `TextStream` combine.
STAGES: dict[str, Stage] = {
    "markdown": lambda: GrowingMarkdown().feed_text,
    "dictionary": lambda: GrowingPronunciation(dictionary_of(WORDS, tag_pattern(Limits(), brackets=True))).feed_text,
    "tags": lambda: InlineTags(Limits(max_pauses_s=math.inf)).feed_text,
    "spelling": lambda: Spelling().feed_text,
    "reading": lambda: StreamingNormalizer().feed_text,
    "sentences": lambda: SentenceSplitter(Split.SENTENCE).feed_text,
    "clauses": lambda: SentenceSplitter(Split.CLAUSE, Limits()).feed_text,
    "splitter": lambda: SegmentSplitter(Split.CLAUSE, 400).feed_text,
    "script": lambda: lambda text: find_unsupported_script(text, ("english",)),
    "end": lambda: lambda text: may_end(text[-2 * TAIL_CHARS :]),
}
SHORT, LONG = 1024, 4096  # Lengths of the compared texts in characters. `LONG` is the maximum for one request.
# Maximum ratio between the times of `LONG` and `SHORT`, or 2.5 for each doubling of the text. The ratio is 16 if the
# time is quadratic.
MAX_RATIO = 2.5**2
MAX_S = 0.5  # Maximum time in seconds for any text.
PIECE = 64


def seconds(stage: Stage, text: str, piece: int) -> float:
    """Return the processor time in seconds for a text that a stage gets in chunks.

    Garbage collection is disabled, as in `timeit`.
    """
    add = stage()
    gc.disable()
    begin = time.thread_time()
    for start in range(0, len(text), piece):
        add(text[start : start + piece])
    end = time.thread_time()
    gc.enable()
    return end - begin


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("unit", UNITS)
def test_filter_time_is_linear_in_the_text(stage: str, unit: str) -> None:
    short, long = ((unit * length)[:length] for length in (SHORT, LONG))
    for piece in (PIECE, LONG):
        measure = partial(seconds, STAGES[stage], piece=piece)
        before, after = least_times(partial(measure, short), partial(measure, long), MAX_RATIO)
        assert after < MAX_RATIO * before + 0.002, f"{1000 * before:.1f} to {1000 * after:.1f} ms in pieces of {piece}"
        assert after < MAX_S


def test_message_with_many_sentence_ends_is_processed_in_linear_time() -> None:
    """The largest message contains either no words or one word at its end."""
    for text in (". " * 60_000, ". " * 60_000 + "a. "):
        begin = time.thread_time()
        SentenceSplitter(Split.SENTENCE).feed_text(text)
        assert time.thread_time() - begin < MAX_S
