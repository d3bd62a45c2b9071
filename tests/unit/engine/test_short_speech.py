"""Tests for the retry of a segment whose speech ends much too early for its text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.engine.scheduling.input_processor import retry_seed
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Guard, Sampling, SpeechRequest, Split, StopReason
from runtime.shared.text.speech_rate import expected_frames, min_frames
from tests.support.engines import GREEDY, EventRecorder, custom_voice, engine_of, speak, speak_live, streamed
from tests.support.frames import end_parts_after

pytestmark = pytest.mark.usefixtures("each_device")

TEXT = "The harbour was quiet and nobody came to see the old boat."
MIN_FRAMES = 15
SHORT, ENOUGH = 3, 20  # Number of frames that is too small for the text, and number of frames that is sufficient.


@pytest.fixture(scope="module")
def speaking(quick: Checkpoint) -> Checkpoint:
    """Return a CustomVoice checkpoint with ``speaks=True``.

    The engine does not retry segments of other checkpoints, which have random weights.
    """
    return replace(quick, config=replace(quick.config, speaks=True))


def free(text: str = TEXT, **kwargs: Any) -> SpeechRequest:
    return custom_voice(text, **{"max_frames": None, "sampling": Sampling(), "seed": 5, **kwargs})


def ending(checkpoint: Checkpoint, *frames: int, **settings: Any) -> Engine:
    """Return an engine whose segments, in order, end after these numbers of frames."""
    engine = engine_of(checkpoint, **settings)
    end_parts_after(engine, lambda number: frames[number - 1])
    return engine


def outcome(recorder: EventRecorder) -> tuple[StopReason, Guard | None, int, int]:
    return recorder.end.stop_reason, recorder.end.stats.guard, recorder.end.stats.repeated, recorder.end.stats.parts


def test_much_too_short_segment_is_retried_with_another_seed(speaking: Checkpoint) -> None:
    assert min_frames(TEXT) == MIN_FRAMES
    recorder = speak(ending(speaking, SHORT, ENOUGH), free())
    assert outcome(recorder) == (StopReason.EOS, None, 1, 1)
    again = speak(ending(speaking, ENOUGH), free(seed=retry_seed(5)))
    assert np.array_equal(recorder.codes[SHORT:], again.codes)
    assert np.array_equal(recorder.codes, speak(ending(speaking, SHORT, ENOUGH), free()).codes)


def test_segment_that_is_too_short_twice_is_reported_in_a_note(speaking: Checkpoint) -> None:
    recorder = speak(ending(speaking, SHORT, SHORT), free())
    assert outcome(recorder) == (StopReason.SHORT, Guard.SHORT, 1, 1)
    assert len(recorder.codes) == 2 * SHORT


def test_other_segments_keep_their_seed_and_codes(speaking: Checkpoint) -> None:
    text = f"{TEXT} {TEXT}"
    recorder = speak(ending(speaking, SHORT, ENOUGH, ENOUGH), free(text, split=Split.SENTENCE))
    assert outcome(recorder) == (StopReason.EOS, None, 1, 2)
    alone = speak(ending(speaking, ENOUGH), free())
    assert np.array_equal(recorder.codes[SHORT + ENOUGH :], alone.codes)


def test_streamed_segment_is_retried_after_its_text_is_complete(speaking: Checkpoint) -> None:
    request = streamed(TEXT, max_frames=None, sampling=Sampling(), bans_eos=False)
    for recorder in (
        speak(ending(speaking, SHORT, ENOUGH), request),
        speak_live(ending(speaking, SHORT, ENOUGH), request, [TEXT]),
    ):
        assert outcome(recorder) == (StopReason.EOS, None, 1, 1)
        assert len(recorder.codes) == SHORT + ENOUGH


@pytest.mark.parametrize("frames", [MIN_FRAMES, ENOUGH])
def test_long_enough_speech_is_not_retried(speaking: Checkpoint, frames: int) -> None:
    assert outcome(speak(ending(speaking, frames), free())) == (StopReason.EOS, None, 0, 1)


def test_requests_with_max_frames_or_greedy_sampling_are_not_retried(speaking: Checkpoint, quick: Checkpoint) -> None:
    """The reference does not retry either.

    With these settings, a second attempt would yield the same result.
    """
    for checkpoint, words in (
        (speaking, {"max_frames": 100}),
        (speaking, {"sampling": GREEDY}),
        (replace(quick, config=replace(quick.config, speaks=False)), {}),
    ):
        recorder = speak(ending(checkpoint, SHORT), free(**words))
        assert outcome(recorder) == (StopReason.EOS, None, 0, 1)
    assert outcome(speak(ending(speaking, SHORT, guard=False), free())) == (StopReason.EOS, None, 0, 1)


@pytest.mark.parametrize("text", ["1000000000000", "Nooooooooooooo!", "... , — !?", "Hi.", "a b c"])
def test_short_audio_is_accepted_for_text_that_only_looks_long(text: str) -> None:
    assert min_frames(text) <= 4 < expected_frames("The harbour was quiet.")


def test_short_sentences_are_separated_by_a_pause() -> None:
    assert min_frames("Note.\n\nSave often.\n\nDone.") == 9
    assert min_frames("好。好。好。") == 7
