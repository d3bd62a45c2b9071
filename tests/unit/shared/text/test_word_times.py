"""Tests for estimated word times: each word once, in order and within the audio."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from runtime.shared.text.word_times import TimedWords, WordTimes


def spoken(texts: list[str], chunks: list[int]) -> TimedWords:
    times, all_ = WordTimes(), TimedWords()
    for text in texts:
        times.append_text(text)
    for timed_words in [*(times.advance(samples) for samples in chunks), times.finish()]:
        all_.spans.extend(timed_words.spans)
        all_.start.extend(timed_words.start)
        all_.end.extend(timed_words.end)
    return all_


def test_word_times_are_emitted_as_audio_passes_them() -> None:
    times = WordTimes()
    times.append_text("Hello wor")
    times.append_text("ld, how are you")
    assert times.advance(1920).words == []
    half = times.advance(12_000)
    assert (half.words, half.start) == (["Hello"], [0.0])
    rest = times.finish()
    assert rest.words == ["world,", "how", "are", "you"]
    assert rest.start[0] == half.end[0]
    assert rest.end[-1] == round(13_920 / 24_000, 3)


def test_each_character_is_a_word_in_writing_without_spaces() -> None:
    assert spoken(["你好，Bob。", "안녕 하세요"], [24_000]).words == ["你", "好，", "Bob。안녕", "하세요"]


@given(
    texts=st.lists(st.text("ab ,好。\n", max_size=12), max_size=6),
    chunks=st.lists(st.integers(0, 30_000), max_size=6),
)
def test_every_word_is_emitted_once_with_increasing_times(texts: list[str], chunks: list[int]) -> None:
    timed_words = spoken(texts, chunks)
    assert "".join(timed_words.words) == "".join("".join(texts).split())
    assert "".join(timed_words.spans) == ("".join(texts) if timed_words.words else "")
    edges = [time for pair in zip(timed_words.start, timed_words.end, strict=True) for time in pair]
    assert edges == sorted(edges)
    assert all(0 <= time <= sum(chunks) / 24_000 + 0.001 for time in edges)


def test_long_chinese_text_takes_less_than_5_ms() -> None:
    seconds = []
    for _ in range(5):
        times = WordTimes()
        times.append_text("今天早上天气很好，我们去散步。" * 270)
        begun = time.thread_time()
        assert len(times.finish().words) > 3000
        seconds.append(time.thread_time() - begun)
    assert min(seconds) < 0.005
