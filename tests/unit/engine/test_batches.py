"""Tests for batch invariance: a request's output does not depend on other requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from runtime.device.interface import Stream
from runtime.engine.execution.model_runner import LaunchedFrame, ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.engine.scheduling.scheduler import Scheduler, Slots
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Layout, Mode, Sampling, SpeechRequest
from runtime.settings import ModeSettings
from tests.support.engines import (
    EventRecorder,
    assert_all_same,
    cloned,
    custom_voice,
    engine_of,
    seeded,
    speak,
    speak_together,
)
from tests.unit.engine.test_voice_cache import counted

pytestmark = pytest.mark.usefixtures("each_device")

TEXTS = [
    "Hello world.",
    "a",
    "The old phone is slow and the young voice is warm.",
    "你好，今天的声音很清楚。",
    "iPhone 12",
]


def varied(sampled: bool) -> list[SpeechRequest]:
    """Return eight requests that differ in every field that may differ within a batch."""
    return [
        custom_voice(
            TEXTS[index % len(TEXTS)],
            voice=("serena", "ryan", "eric")[index % 3],
            language=("auto", "english", "chinese")[index % 3],
            layout=list(Layout)[index % 2],
            instruct=None if index % 4 else "Speak low.",
            max_frames=3 + 4 * (index % 5),
            **(seeded(index) if sampled else {}),
        )
        for index in range(8)
    ]


@pytest.fixture(scope="module")
def alone_of(speaker: Checkpoint) -> Callable[[bool], list[EventRecorder]]:
    """Return a function that runs each request of ``varied`` alone and caches the results."""
    return cache(lambda sampled: [speak(engine_of(speaker, slots=1), request) for request in varied(sampled)])


@pytest.mark.slow("at once-0-greedy", "at once-0-seeded", "at once-1-greedy", "at once-3-greedy", "at once-3-seeded")
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "seeded"])
@pytest.mark.parametrize("apart", [0, 1, 3])
def test_batched_requests_equal_the_same_requests_alone(
    speaker: Checkpoint, alone_of: Callable[[bool], list[EventRecorder]], sampled: bool, apart: int
) -> None:
    requests, alone = varied(sampled), alone_of(sampled)
    together = speak_together(engine_of(speaker, slots=8), *requests, apart=apart)
    assert_all_same(together, alone)


@pytest.mark.parametrize("apart", [0, 2])
def test_first_frames_in_decode_steps_change_no_byte(
    speaker: Checkpoint,
    alone_of: Callable[[bool], list[EventRecorder]],
    monkeypatch: pytest.MonkeyPatch,
    apart: int,
) -> None:
    monkeypatch.setattr(Scheduler, "joins_first_frames", lambda *_: True)
    assert_all_same(speak_together(engine_of(speaker, slots=8), *varied(True), apart=apart), alone_of(True))


def join_prompts(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> list[int]:
    """Let decode steps prefill all prompts, and return the prompts per step.

    With `fails`, these steps fail.
    """
    step, joined = ModelRunner.step, list[int]()

    def step_with_prompts(
        runner: ModelRunner, slots: Slots, prompts: Sequence[tuple[int, Prompt]] = ()
    ) -> LaunchedFrame:
        if prompts:
            joined.append(len(prompts))
        if prompts and fails:
            raise RuntimeError
        for slot, prompt in prompts:
            runner.prefill_chunks([(slot, prompt, 0)])
        with runner.device.stream(Stream.FRAMES):
            runner.device.wait_event(runner.end_prefill(np.array([slot for slot, _ in prompts], np.int64)))
        return step(runner, slots)

    monkeypatch.setattr(Scheduler, "joins_first_frames", lambda *_: True)
    monkeypatch.setattr(ModelRunner, "joining_pieces", lambda _, prompt: int(not prompt.key))
    monkeypatch.setattr(ModelRunner, "step", step_with_prompts)
    return joined


@pytest.mark.parametrize("apart", [0, 2])
@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=pytest.mark.logs_errors)])
def test_prompts_in_decode_steps_change_no_byte(
    speaker: Checkpoint,
    alone_of: Callable[[bool], list[EventRecorder]],
    monkeypatch: pytest.MonkeyPatch,
    fails: bool,
    apart: int,
) -> None:
    """If a step with prompts fails, the prompts are prefilled separately."""
    joined = join_prompts(monkeypatch, fails=fails)
    assert_all_same(speak_together(engine_of(speaker, slots=8), *varied(True), apart=apart), alone_of(True))
    assert sum(joined) > 2


@pytest.mark.logs_errors
def test_many_prompts_of_a_failed_step_are_prefilled_in_batches(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [custom_voice(TEXTS[0], max_frames=4, seed=seed) for seed in range(12)]
    alone = [speak(engine_of(speaker, slots=1), request) for request in requests]
    engine = engine_of(speaker, slots=12)
    joined, prefills = join_prompts(monkeypatch, fails=True), counted(ModelRunner, "prefill_chunks", monkeypatch)
    assert_all_same(speak_together(engine, *requests), alone)
    assert joined == [12]
    assert {len(chunks) for _, chunks in prefills} == {2}, "a separate prefill has at most two prompts on this device"


def test_decode_steps_respect_the_limit_of_prefills(speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = dict.fromkeys(Mode, ModeSettings(prefills=2))
    engine = engine_of(speaker, slots=8, modes=modes)
    joined, first = join_prompts(monkeypatch), counted(ModelRunner, "first", monkeypatch)
    speak_together(engine, *(custom_voice(TEXTS[0], max_frames=4, seed=seed) for seed in range(5)))
    assert joined == [2, 2, 1]
    assert not first, "no prompt is prefilled separately in the meantime"


DIFFERENT = [
    custom_voice(seed=index, sampling=words)
    for index, words in enumerate(
        [
            Sampling(greedy=True),
            Sampling(),
            Sampling(temperature=0.0),
            Sampling(temperature=0.0, predictor_temperature=0.0),
            Sampling(predictor_temperature=0.0),
            Sampling(top_k=0, predictor_top_k=0, temperature=2.0),
            Sampling(top_k=1),
            Sampling(top_k=3, predictor_top_k=2, top_p=0.6, predictor_top_p=0.5),
            Sampling(top_p=0.3),
            Sampling(predictor_top_p=0.2),
            Sampling(repetition_penalty=2.0, temperature=1.5),
            Sampling(top_k=100_000, predictor_top_k=100_000),
        ]
    )
]


@pytest.fixture(scope="module")
def different_alone(speaker: Checkpoint) -> list[EventRecorder]:
    return [speak(engine_of(speaker, slots=1), request) for request in DIFFERENT]


@pytest.mark.slow
def test_requests_with_different_sampling_share_a_batch(
    speaker: Checkpoint, different_alone: list[EventRecorder]
) -> None:
    together = speak_together(engine_of(speaker, slots=len(DIFFERENT)), *DIFFERENT, apart=1)
    assert_all_same(together, different_alone)


@pytest.mark.slow
def test_cloned_voices_use_only_their_own_reference(cloner: Checkpoint) -> None:
    requests = [
        cloned(seconds=1.2),
        cloned(seconds=2.3),
        cloned(seconds=1.2, x_vector_only=True),
        cloned(seconds=1.2, layout=Layout.NON_STREAMING),
        cloned("a", seconds=3.0, **seeded(3)),
    ]
    alone = [speak(engine_of(cloner, slots=1), request) for request in requests]
    together = speak_together(engine_of(cloner, slots=2), *requests, apart=2)
    assert_all_same(together, alone)
    assert len({recorder.codes.tobytes() for recorder in alone}) == len(alone)


def test_seed_gives_the_same_codes_in_every_slot(speaker: Checkpoint) -> None:
    request = custom_voice(**seeded(2**63 - 1), max_frames=8)
    recorders = speak_together(engine_of(speaker, slots=5), *[request] * 5)
    assert len({recorder.codes.tobytes() for recorder in recorders}) == 1


def test_different_seeds_give_different_codes(speaker: Checkpoint) -> None:
    seeds = [0, 1, 2, 2**31, 2**32, 2**32 + 1, 2**53, 2**63 - 1]
    requests = [custom_voice(**seeded(seed), max_frames=6) for seed in seeds]
    recorders = speak_together(engine_of(speaker, slots=8), *requests)
    assert len({recorder.codes.tobytes() for recorder in recorders}) == len(seeds)
    assert [recorder.started.seed for recorder in recorders] == seeds


def test_generated_seed_is_reported_and_repeats_the_request(speaker: Checkpoint) -> None:
    first = speak(engine_of(speaker), custom_voice(seed=None, sampling=Sampling()))
    again = speak(engine_of(speaker), custom_voice(**seeded(first.started.seed)))
    assert np.array_equal(first.codes, again.codes)
