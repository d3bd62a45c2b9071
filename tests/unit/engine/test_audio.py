"""Tests that chunks, batches and other requests do not change the audio of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.audio.code2wav_worker import Code2WavWorker
from runtime.engine.engine import Engine
from runtime.engine.scheduling.code2wav_scheduler import Code2WavScheduler
from runtime.engine.scheduling.scheduler import Scheduler
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Finished, Layout, Mode, SpeechRequest, Split
from runtime.settings import ModeSettings
from tests.support.engines import (
    GREEDY,
    EventRecorder,
    VirtualClock,
    assert_all_same,
    assert_same,
    custom_voice,
    drain,
    engine_of,
    run_turns,
    seeded,
    speak,
    speak_on_thread,
    speak_together,
    streamed,
)
from tests.support.late_device import LateDevice
from tests.unit.engine.test_voice_cache import counted

pytestmark = pytest.mark.usefixtures("each_device")

TEXTS = ("Hello world.", "a", "The old phone is slow. You speak.", "你好，我的声音。", "iPhone 12")


def mixed(index: int, **kwargs: Any) -> SpeechRequest:
    """Return the request with this index from a list of sixteen different requests.

    The requests differ in every field that may differ within a batch.
    """
    make: Callable[..., SpeechRequest] = streamed if index % 3 == 2 else custom_voice
    given: dict[str, Any] = {"sampling": GREEDY, "seed": 7} if index % 2 else seeded(index)
    given |= {"voice": ("serena", "ryan", "eric")[index % 3], "max_frames": 2 + 3 * (index % 5)}
    if index % 5 == 0:
        given["first_chunk_frames"] = 3
    if index % 4 == 1:
        given["split"] = Split.SENTENCE
    return make(TEXTS[index % len(TEXTS)], **{**given, **kwargs})


@pytest.fixture(scope="module")
def alone(quick: Checkpoint) -> list[EventRecorder]:
    engine = engine_of(quick, slots=1)
    return [speak(engine, mixed(index)) for index in range(16)]


def modes_of(**kwargs: int) -> dict[Mode, ModeSettings]:
    return dict.fromkeys(Mode, ModeSettings(**kwargs))


CHUNKS = [
    ({"first_chunk_frames": 1, "max_chunk_frames": 1, "sound_batch": 1}, 1),
    ({"first_chunk_frames": 4, "max_chunk_frames": 16, "sound_batch": 8}, 16),
    ({"first_chunk_frames": 2, "max_chunk_frames": 3, "sound_batch": 2, "prefills": 8}, 7),
]


@pytest.mark.slow(
    "at once-words0-1-ahead",
    "at once-words0-1-behind",
    "at once-words1-16-ahead",
    "at once-words1-16-close",
    "at once-words2-7-behind",
    "at once-words2-7-close",
)
@pytest.mark.parametrize("turn_s", [0.0, 0.05, 0.3], ids=["ahead", "close", "behind"])
@pytest.mark.parametrize(("words", "work"), CHUNKS)
def test_audio_bytes_are_independent_of_chunking_batch_and_buffered_audio(
    quick: Checkpoint, alone: list[EventRecorder], words: dict[str, int], work: int, turn_s: float
) -> None:
    clock = VirtualClock()
    engine = engine_of(quick, slots=4, modes=modes_of(**words), sound_work=work, clock=clock)
    picked = range(0, 16, 3)
    recorders = {index: EventRecorder() for index in picked}
    for index, recorder in recorders.items():
        engine.submit(mixed(index), recorder)
    drain(engine, clock, turn_s)
    for index, recorder in recorders.items():
        assert_same(recorder, alone[index])


@pytest.mark.slow
@pytest.mark.parametrize("order", [0, 1])
def test_sixteen_concurrent_requests_equal_the_same_requests_alone(
    quick: Checkpoint, alone: list[EventRecorder], order: int
) -> None:
    stream, clock = np.random.RandomState(order), VirtualClock()
    engine = engine_of(quick, slots=5, reader_s=0.4, lead_cap_s=0.5, clock=clock)
    recorders = [EventRecorder() for _ in range(16)]
    slow = set(stream.choice(16, 5, replace=False).tolist())
    doomed = set(stream.choice(16, 4, replace=False).tolist())
    tickets: dict[int, int] = {}
    waiting = list(stream.permutation(16))
    for _ in range(600):
        if waiting:
            index = int(waiting.pop())
            tickets[index] = engine.submit(mixed(index, acknowledged=index in slow), recorders[index])
        engine.tick()
        clock.now += float(stream.choice([0.0, 0.02, 0.2]))
        for index in slow & tickets.keys():
            if stream.randint(3) == 0:
                engine.ack_sent(tickets[index], len(recorders[index].pcm))
        for index in doomed & tickets.keys():
            if stream.randint(9) == 0:
                engine.cancel(tickets[index])
        if not waiting and not engine.busy:
            break
    for index, recorder in enumerate(recorders):
        if index in doomed:
            assert isinstance(recorder.end, Finished)
            assert np.array_equal(recorder.pcm, alone[index].pcm[: len(recorder.pcm)])
            assert len(recorder.codes) == recorder.end.stats.frames
        else:
            assert_same(recorder, alone[index])


def test_separate_audio_thread_changes_no_byte(quick: Checkpoint, alone: list[EventRecorder]) -> None:
    recorders = speak_on_thread(engine_of(quick, slots=4), *map(mixed, range(16)))
    assert_all_same(recorders, alone)


def test_requests_of_the_batch_tests_include_both_layouts() -> None:
    """If both layouts were not included, the tests above would not cover them."""
    requests = [mixed(index) for index in range(16)]
    assert {request.layout for request in requests} == {None, Layout.STREAMING}
    assert len({request.max_frames for request in requests}) == 5


def test_every_chunk_contains_the_audio_of_its_own_codes(quick: Checkpoint) -> None:
    engine: Engine = engine_of(quick, slots=2)
    recorders = [EventRecorder(), EventRecorder()]
    for index, recorder in enumerate(recorders):
        engine.submit(custom_voice(max_frames=9, **seeded(index)), recorder)
    drain(engine)
    streams = Code2WavStreams(quick.speech_tokenizer.code2wav, 1)
    for recorder in recorders:
        streams.open(0)
        (whole,) = streams.decode([0], torch.from_numpy(recorder.codes[None]))
        assert whole == recorder.pcm.tobytes()
        assert all(len(chunk.pcm) == 3840 * len(chunk.codes) for chunk in recorder.chunks)


@pytest.mark.parametrize("max_frames", [1, 9])
def test_first_audio_is_launched_with_its_frame_if_graphs_are_available(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch, max_frames: int
) -> None:
    fresh: list[bool] = []
    decode = Code2WavStreams.decode

    def noted(self: Code2WavStreams, slots: list[int], codes: torch.Tensor, stream: Stream, **kwargs: Any) -> Any:
        fresh.extend(self._rows[slots, 2] == 0)  # Column 2 is the number of decoded frames.
        return decode(self, slots, codes, stream, **kwargs)

    engine = engine_of(quick)
    monkeypatch.setattr(Code2WavStreams, "decode", noted)
    requests = [custom_voice(text, max_frames=max_frames, seed=index) for index, text in enumerate(TEXTS)]
    recorders = speak_together(engine, *requests)
    assert any(fresh) == (not engine.device.holds_graphs), "the worker makes what did not follow"
    for recorder, request in zip(recorders, requests, strict=True):
        assert_same(recorder, speak(engine_of(quick, device=CpuDevice()), request))


def test_first_frame_with_end_token_leaves_a_fresh_audio_stream(
    quick: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first frame is EOS, so the audio of that frame is discarded."""
    two = custom_voice("One. Two.", split=Split.SENTENCE, max_frames=12, seed=4)
    expected = speak(engine_of(quick, device=CpuDevice()), two)
    engine = engine_of(quick)
    launched = counted(Code2WavStreams, "launch_first_audio", monkeypatch)
    assert_same(speak(engine, two), expected)
    assert len(launched) == (1 if engine.device.holds_graphs else 0), "of a request, only its first part's"


def test_first_audio_does_not_wait_for_a_worker(quick: Checkpoint, held_worker: Code2WavWorker) -> None:
    engine, recorder, request = engine_of(quick, device=LateDevice(2)), EventRecorder(), custom_voice(max_frames=6)
    engine.submit(request, recorder)
    run_turns(engine, 40)
    assert [len(chunk.codes) for chunk in recorder.chunks] == [1]
    while not recorder.ended:
        if (run := held_worker.next_task()) is not None:
            run()
        engine.tick()
    held_worker.threads.clear()
    assert_same(recorder, speak(engine_of(quick, device=CpuDevice()), request))


@pytest.mark.slow
def test_batching_changes_no_bit_of_the_audio(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are batched and padded at the end, as on a GPU.

    The device finishes its work late.
    """
    with monkeypatch.context() as patch:
        patch.setattr("runtime.engine.core.Scheduler", lambda **given: Scheduler(**given | {"batch_fill_ratio": 0.5}))
        engine = engine_of(quick, device=LateDevice(2), slots=4, sound_work=512)
    calls = counted(Code2WavScheduler, "make", monkeypatch)
    # Chunks of the first request end after 5, 21 and 37 frames, and chunks of the others after 15 and 31.
    ends = (60, 36, 37, 38)
    requests = [
        custom_voice("Hello.", max_frames=end, seed=end, first_chunk_frames=1 if end > 50 else 3) for end in ends
    ]
    for recorder, request in zip(speak_together(engine, *requests), requests, strict=True):
        assert_same(recorder, speak(engine_of(quick, device=CpuDevice()), request))
    chunks = [chunk for _, chunk, *_ in calls if len(chunk.slots) > 1]
    assert any(not chunk.is_urgent for chunk in chunks)
    assert any(len(set(chunk.frames.tolist())) > 1 for chunk in chunks), "an end goes into another's call"


def test_remaining_audio_longer_than_a_chunk_is_not_padded(quick: Checkpoint, held_worker: Code2WavWorker) -> None:
    """There is no graph for three frames, and the reply ended while the worker was busy."""
    words = {"first_chunk_frames": 3, "max_chunk_frames": 3}
    request, recorder = custom_voice(max_frames=8), EventRecorder()
    engine = engine_of(quick, slots=1, modes=modes_of(**words))
    engine.submit(request, recorder)
    run_turns(engine, 20)
    while not recorder.ended:
        run = held_worker.next_task()
        assert run is not None
        run()
        run_turns(engine, 2)
    assert [len(chunk.codes) for chunk in recorder.chunks] == [3, 3, 2]
    held_worker.threads.clear()
    assert_same(recorder, speak(engine_of(quick, device=CpuDevice()), request))
