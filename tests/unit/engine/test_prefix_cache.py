"""Tests for the prefix cache, with which a voice's prompt prefix is computed only once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from runtime.engine.execution.prefix_cache import PrefixCache
from runtime.engine.execution.slots import PromptPrefix
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Layout, SpeechRequest
from tests.support.engines import cloned, engine_of, speak, voice_design
from tests.support.frames import record_launches

pytestmark = pytest.mark.usefixtures("each_device")

LONG_INSTRUCT = "A warm young voice with a smile in it, slow and near, as if it told a secret to a friend at night."


def prefix(positions: int = 24) -> PromptPrefix:
    return PromptPrefix(torch.zeros(2, 1, 1, positions, 2))


def test_least_recently_used_prefix_is_evicted() -> None:
    kept = PrefixCache(2)
    kept.put("a", prefix)
    kept.put("b", prefix)
    assert kept.get("a") is not None
    kept.put("c", prefix)
    assert [key for key in "abc" if kept.get(key) is not None] == ["a", "c"]


def test_cache_of_size_zero_stores_nothing() -> None:
    kept = PrefixCache(0)
    kept.put("a", prefix)
    assert len(kept) == 0


def requests(mode: str) -> list[SpeechRequest]:
    """Return two requests with the same voice.

    Their prompts share a prefix that is long enough for the cache.
    """
    if mode == "design":
        return [voice_design(text, instruct=LONG_INSTRUCT) for text in ("The bread is warm.", "The kettle is on now.")]
    layout = Layout(mode)
    request = cloned(seconds=4.0, layout=layout)
    assert request.reference is not None
    reference = replace(request.reference, text="I say hello to you and to all the others who are here with me today.")
    return [
        replace(request, reference=reference, text=text) for text in ("The bread is warm.", "The kettle is on now.")
    ]


@pytest.mark.slow("at once-design", "at once-non_streaming")
@pytest.mark.parametrize("mode", ["design", "streaming", "non_streaming"])
def test_cached_prefix_gives_the_same_bytes_and_is_computed_once(
    mode: str, designer: Checkpoint, cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = designer if mode == "design" else cloner
    first, second = requests(mode)
    alone = speak(engine_of(checkpoint, prompt_cache=0), second)
    engine = engine_of(checkpoint)
    launches = record_launches(monkeypatch)
    speak(engine, first)
    (_, start, prefix_end), _ = launches.chunks
    assert start == 0
    launches.chunks.clear()
    again = speak(engine, second)
    ((_, start, _),) = launches.chunks
    assert start == prefix_end >= 24
    assert np.array_equal(again.codes, alone.codes)
    assert again.pcm.tobytes() == alone.pcm.tobytes()


@pytest.mark.parametrize("layout", list(Layout))
def test_cached_prefix_excludes_the_last_position_if_no_text_follows(
    layout: Layout, cloner: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the streaming layout, reference text that is longer than its audio fills the prompt."""
    request = cloned(seconds=2.0, layout=layout, max_frames=3)
    assert request.reference is not None
    wordy = replace(request, reference=replace(request.reference, text="I say hello to you and all the others. " * 3))
    engine, launches = engine_of(cloner), record_launches(monkeypatch)
    recorders = [speak(engine, wordy) for _ in range(3)]
    assert [start for _, start, _ in launches.chunks].count(0) == 1, "the prefix is computed once"
    for recorder in recorders:
        assert len(recorder.codes) == 3
        assert np.array_equal(recorder.codes, recorders[0].codes)


def test_prefix_of_another_voice_is_not_used(designer: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, launches = engine_of(designer), record_launches(monkeypatch)
    first, _ = requests("design")
    speak(engine, first)
    other = replace(first, instruct=LONG_INSTRUCT.replace("young", "older"))
    pcm = speak(engine, other).pcm.tobytes()
    for request in (first, other):
        speak(engine, request)
    assert [start for _, start, _ in launches.chunks].count(0) == 2, "both prefixes are cached"
    assert pcm == speak(engine_of(designer), other).pcm.tobytes()
