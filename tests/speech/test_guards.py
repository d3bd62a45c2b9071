"""Tests for guards against runaway speech: detection and false alarms with real speech."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.engine.audio.guards import REPEATED_FRAMES, SILENT_FRAMES, RunawayDetector, estimate_speech_frames
from runtime.engine.engine import Engine
from runtime.request import Guard, Mode, SpeechRequest, StopReason
from runtime.settings import Settings
from tests.support.engines import Codes, EventRecorder, speak_together

pytestmark = pytest.mark.slow

TEXTS = (
    "No!",
    "Hello.",
    "Yes, of course.",
    "The harbour was quiet.",
    "One, two, three, four, five.",
    "Ahhh, so slow... and so very, very long.",
    "Where did you put the keys to the old house?",
    "It rained. It rained all day; it rained all night.",
    "She opened the letter slowly, read it twice, and said nothing at all.",
    "Nobody spoke. Then a bell rang, far away, and everyone looked up at the lights of the last boat.",
)


@pytest.fixture(scope="module")
def spoken() -> list[EventRecorder]:
    engine = Engine.open(Settings())
    voices = engine.cards[0].speakers
    requests = [
        SpeechRequest(text=text, mode=Mode.CUSTOM_VOICE, voice=voices[turn % len(voices)], seed=turn)
        for turn, text in enumerate(TEXTS)
    ]
    recorders = speak_together(engine, *requests)
    assert {recorder.end.stop_reason for recorder in recorders} == {StopReason.EOS}
    return recorders


def watched(codes: Codes, pcm: bytes) -> tuple[RunawayDetector, list[int]]:
    """Pass an utterance frame by frame to a new RunawayDetector, and return its counters.

    Returns:
        The detector, which must have found no runaway, and the maximum value of each counter.
    """
    detector, longest = RunawayDetector(), np.zeros(9, np.int64)
    size = len(pcm) // len(codes)
    for frame in range(len(codes)):
        assert detector.check_frames(codes[frame : frame + 1], pcm[frame * size : (frame + 1) * size]) is None, frame
        longest = np.maximum(longest, detector.runs)
    return detector, longest.tolist()


def test_normal_speech_is_far_from_the_runaway_limits(spoken: list[EventRecorder]) -> None:
    """The counters of the guards reach at most a third of the values that stop speech."""
    for text, heard in zip(TEXTS, spoken, strict=True):
        detector, longest = watched(heard.codes, heard.pcm.tobytes())
        assert max(longest[:-1]) < (REPEATED_FRAMES - 8) / 3, text
        assert longest[-1] < SILENT_FRAMES / 3, text
        assert len(heard.codes) - 8 < detector.last_audible_frame < len(heard.codes), text


def test_speech_ends_before_its_estimated_number_of_frames(spoken: list[EventRecorder]) -> None:
    for text, heard in zip(TEXTS, spoken, strict=True):
        assert len(heard.codes) < estimate_speech_frames(text), text


def test_two_second_pause_between_sentences_does_not_stop_speech(spoken: list[EventRecorder]) -> None:
    """The pause consists of the utterance's last silent frame, repeated 25 times."""
    one, other = spoken[3], spoken[5]
    size = 2 * len(one.pcm) // len(one.codes)
    codes = np.concatenate([one.codes, np.repeat(one.codes[-1:], 25, axis=0), other.codes])
    watched(codes, one.pcm.tobytes() + bytes(25 * size) + other.pcm.tobytes())


@pytest.mark.parametrize(("still", "guard"), [(True, Guard.SILENCE), (False, Guard.REPETITION)])
def test_endless_speech_is_stopped(spoken: list[EventRecorder], still: bool, guard: Guard) -> None:
    """After the last word, the voice repeats three frames, either audible or silent."""
    heard = spoken[7]
    size, frames = 2 * len(heard.pcm) // len(heard.codes), len(heard.codes)
    detector, _ = watched(heard.codes, heard.pcm.tobytes())
    loop = np.tile(heard.codes[20:23], (20, 1))
    pcm = bytes(60 * size) if still else heard.pcm.tobytes()[20 * size : 23 * size] * 20
    for frame in range(0, 60, 4):
        found = detector.check_frames(loop[frame : frame + 4], pcm[frame * size : (frame + 4) * size])
        if found:
            break
    assert found is guard
    assert frame < REPEATED_FRAMES
    assert detector.last_audible_frame <= frames
