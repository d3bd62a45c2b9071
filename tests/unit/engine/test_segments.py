"""Tests for texts with several segments, which share a voice, a seed and an audio stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.engine.execution.model_runner import FrameResult
from runtime.errors import DoesNotFit
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Guard, SpeechRequest, Split, StopReason
from tests.support.engines import (
    EventRecorder,
    assert_one_stream,
    custom_voice,
    engine_of,
    raise_refusal,
    seeded,
    speak,
)
from tests.support.frames import Slots, change_frames

pytestmark = pytest.mark.usefixtures("each_device")

SENTENCES = "Hello world. You speak. The old phone is slow."


def parted(text: str = SENTENCES, split: Split = Split.SENTENCE, **kwargs: Any) -> SpeechRequest:
    return custom_voice(text, split=split, **{"max_frames": None, **kwargs})


def short_budget(monkeypatch: pytest.MonkeyPatch, frames: int = 5) -> None:
    """Limit each segment to `frames` frames.

    A longer segment counts as a runaway.
    """
    from runtime.engine.scheduling import input_processor

    monkeypatch.setattr(input_processor, "frame_budget", lambda _: frames)


def test_segments_follow_each_other_in_one_stream(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    short_budget(monkeypatch)
    recorder = speak(engine_of(quick), parted())
    assert_one_stream(recorder)
    assert len(recorder.codes) == 15
    assert recorder.end.stats.parts == 3
    assert recorder.end.stats.frames == 15
    assert (recorder.end.stop_reason, recorder.end.stats.guard) == (StopReason.RUNAWAY, Guard.BUDGET)


def test_every_segment_uses_the_seed_and_voice_of_the_request(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes must equal those of separate requests for each segment."""
    short_budget(monkeypatch)
    words: dict[str, Any] = {"voice": "ryan", **seeded(11)}
    recorder = speak(engine_of(quick), parted(**words))
    alone = [speak(engine_of(quick), parted(text, **words)) for text in ("Hello world.", "You speak.")]
    assert np.array_equal(recorder.codes[:10], np.concatenate([recorder.codes for recorder in alone]))
    assert recorder.end.stats.prompt_tokens > sum(recorder.end.stats.prompt_tokens for recorder in alone)


@pytest.mark.parametrize(("most", "parts"), [(3, 1), (5, 1), (7, 2), (10, 2), (12, 3)])
def test_max_frames_applies_to_all_segments_together(quick: Checkpoint, most: int, parts: int) -> None:
    whole = speak(engine_of(quick), parted("Hello world.", max_frames=5))
    engine = engine_of(quick)

    def end_after_five(slots: Slots, frames: Slots, result: FrameResult) -> FrameResult:
        result.ended[:] |= frames > 5
        return result

    change_frames(engine, end_after_five)
    recorder = speak(engine, parted(max_frames=most))
    assert len(recorder.codes) == most
    assert recorder.end.stats.parts == parts
    assert recorder.end.stop_reason is StopReason.MAX_TOKENS
    assert np.array_equal(recorder.codes[:5], whole.codes[:most])


LONG = "The old phone is slow and the young voice is warm. " * 4


def test_text_longer_than_a_slot_is_split_into_segments(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    short_budget(monkeypatch)
    recorder = speak(engine_of(quick, length=256), parted(LONG, split=Split.AUTO))
    assert_one_stream(recorder)
    assert recorder.end.stats.parts > 3
    assert speak(engine_of(quick, length=512), parted(LONG, split=Split.AUTO)).end.stats.parts == 1
    with pytest.raises(DoesNotFit):
        raise_refusal(engine_of(quick, length=256), parted(LONG, split=Split.NONE))


def test_other_requests_do_not_affect_segment_changes(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    short_budget(monkeypatch)
    alone = speak(engine_of(quick, slots=1), parted())
    engine: Engine = engine_of(quick, slots=3)
    recorders = [EventRecorder() for _ in range(5)]
    for index, recorder in enumerate(recorders):
        engine.submit(parted() if index % 2 else custom_voice(max_frames=4 + index), recorder)
        engine.tick()
    while engine.busy:
        engine.tick()
    for recorder in recorders[1::2]:
        assert np.array_equal(recorder.pcm, alone.pcm)
