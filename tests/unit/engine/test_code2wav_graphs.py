"""Tests that Code2Wav gives the same audio with and without graphs.

A CPU device that repeats captured work replaces a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from runtime.device.cpu import CpuDevice
from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_graphs import GraphShapes, split_frames
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.cloned_voice import ClonedVoice
from runtime.errors import GenerationFailed, InvalidSetting
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.code2wav import Code2Wav
from runtime.model.code2wav_interface import TorchCode2Wav
from tests.support.late_device import LateDevice

pytestmark = pytest.mark.slow

SLOTS = 5


@pytest.fixture
def limit_code2wav_graphs() -> None:
    """Override the fixture that limits the number of captured shapes.

    This file tests all shapes.
    """


class Again:
    """Fake graph that executes its captured work again when it is replayed.

    The work reads the current inputs and writes to the same output buffer.
    """

    def __init__(self, work: Callable[[], Tensor]) -> None:
        self._work = work
        self.result = work().clone()

    def replay(self) -> None:
        with torch.inference_mode():
            self.result.copy_(self._work())


class GraphDevice(CpuDevice):
    """Fake device on the CPU that counts captured graphs and can fail at chosen captures."""

    holds_graphs = True

    def __init__(self, broken: Container[int] = ()) -> None:
        super().__init__()
        self.broken, self.asked, self.captured = broken, 0, 0

    def capture(self, work: Callable[[], Any], stream: Stream) -> Any:
        self.asked += 1
        if self.asked - 1 in self.broken:
            raise RuntimeError("no graph today")
        self.captured += 1
        return Again(work)


@pytest.fixture
def code2wav(cloner: Checkpoint) -> Code2Wav:
    return cloner.speech_tokenizer.code2wav


def codes_of(code2wav: Code2Wav, rows: int, frames: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    config = code2wav.config
    return torch.randint(0, config.codebook_size, (rows, frames, config.num_quantizers), generator=generator)


def decoded(streams: Code2WavStreams, slots: list[int], codes: Tensor, ends: list[int]) -> list[bytes]:
    for slot in slots:
        streams.open(slot)
    sounds = [b""] * len(slots)
    for begin, end in pairwise([0, *ends]):
        for row, pcm in enumerate(streams.decode(slots, codes[:, begin:end])):
            assert isinstance(pcm, bytes)
            sounds[row] += pcm
    return sounds


@pytest.mark.parametrize(
    ("frames", "cut"), [(1, [1]), (3, [2, 1]), (12, [12]), (15, [12, 2, 1]), (16, [16]), (37, [16, 16, 4, 1])]
)
def test_chunk_is_split_into_buckets_largest_first(frames: int, cut: list[int]) -> None:
    assert split_frames(frames, (1, 2, 4, 8, 12, 16)) == cut


def test_batch_buckets_end_at_the_first_bucket_that_fits_all_slots() -> None:
    family = GraphShapes((1,), (1, 2, 4, 8))
    assert family.up_to(3).batches == (1, 2, 4)
    assert family.up_to(8).batches == (1, 2, 4, 8)
    assert family.up_to(99).batches == (1, 2, 4, 8)


def test_graph_audio_equals_plain_audio_for_every_shape(code2wav: Code2Wav) -> None:
    """Three rows run in a bucket of four rows, and seven frames in pieces of 4, 2 and 1."""
    device = GraphDevice()
    captured, plain = Code2WavStreams(code2wav, SLOTS, device), Code2WavStreams(code2wav, SLOTS)
    seen: list[tuple[int, int]] = []
    captured.capture(lambda done, of: seen.append((done, of)))
    assert seen == [(done, device.captured) for done in range(1, device.captured + 1)]
    codes = codes_of(code2wav, 3, 10)
    slots = [4, 0, 2]
    assert decoded(captured, slots, codes, [1, 8, 10]) == decoded(plain, slots, codes, [1, 8, 10])
    assert captured.uncaptured == 0


def test_more_rows_than_the_largest_bucket_run_in_groups(code2wav: Code2Wav, monkeypatch: pytest.MonkeyPatch) -> None:
    families = {Stream.FIRST_AUDIO: GraphShapes((1,), (1,)), Stream.AUDIO: GraphShapes((1, 2), (1, 2))}
    monkeypatch.setattr("runtime.engine.audio.code2wav_graphs.GRAPH_SHAPES", families)
    captured, plain = Code2WavStreams(code2wav, SLOTS, GraphDevice()), Code2WavStreams(code2wav, SLOTS)
    captured.capture()
    codes = codes_of(code2wav, 5, 3)
    slots = [3, 1, 4, 0, 2]
    assert decoded(captured, slots, codes, [3]) == decoded(plain, slots, codes, [3])


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("guilty", [0, 2, 4])
@pytest.mark.logs_errors
def test_failed_stream_of_a_chunk_does_not_affect_other_streams(code2wav: Code2Wav, graphs: bool, guilty: int) -> None:
    """Seven frames are divided into pieces of 4, 2 and 1 frames.

    The network fails at the second piece.
    """
    streams = Code2WavStreams(code2wav, SLOTS, GraphDevice() if graphs else None)
    streams.capture()
    codes, slots = codes_of(code2wav, 5, 12), [3, 1, 4, 0, 2]
    plain = decoded(Code2WavStreams(code2wav, SLOTS), slots, codes, [2, 9, 12])
    sounds = decoded(streams, slots, codes, [2])
    spoiled = codes[:, 2:9].clone()
    spoiled[guilty, 5] = 10**6
    others = [row for row in range(5) if row != guilty]
    made = streams.decode(slots, spoiled)
    assert isinstance(made[guilty], GenerationFailed)
    rest = streams.decode([slots[row] for row in others], codes[others, 9:])
    for row, last in zip(others, rest, strict=True):
        middle = made[row]
        assert isinstance(middle, bytes)
        assert isinstance(last, bytes)
        assert sounds[row] + middle + last == plain[row]


def test_first_audio_has_its_own_small_buckets(code2wav: Code2Wav) -> None:
    streams = Code2WavStreams(code2wav, SLOTS, GraphDevice())
    streams.capture()
    assert streams.graphs.frame_counts(Stream.FIRST_AUDIO) == [1, 2, 4]
    codes = codes_of(code2wav, 1, 2)
    streams.open(1)
    first = streams.decode([1], codes, Stream.FIRST_AUDIO)
    assert first == decoded(Code2WavStreams(code2wav, SLOTS), [1], codes, [2])


def test_missing_bucket_size_is_composed_of_smaller_buckets(
    code2wav: Code2Wav, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = {Stream.FIRST_AUDIO: GraphShapes((1, 2), (1,)), Stream.AUDIO: GraphShapes((4,), (1,))}
    monkeypatch.setattr("runtime.engine.audio.code2wav_graphs.GRAPH_SHAPES", families)
    streams, plain = Code2WavStreams(code2wav, SLOTS, GraphDevice()), Code2WavStreams(code2wav, SLOTS)
    streams.capture()
    codes = codes_of(code2wav, 1, 3)
    streams.open(1)
    first = streams.decode([1], codes, Stream.FIRST_AUDIO)
    assert first == decoded(plain, [1], codes, [3])
    assert streams.uncaptured == 0


@pytest.mark.parametrize("frames", [3, 5, 8, 9])
def test_last_chunk_of_an_utterance_is_padded_to_one_call(
    code2wav: Code2Wav, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    """Remaining frames that exceed the largest shape are split into several calls as usual."""
    families = {Stream.FIRST_AUDIO: GraphShapes((1, 4, 8), (2,)), Stream.AUDIO: GraphShapes((1,), (1,))}
    monkeypatch.setattr("runtime.engine.audio.code2wav_graphs.GRAPH_SHAPES", families)
    streams, plain = Code2WavStreams(code2wav, SLOTS, GraphDevice()), Code2WavStreams(code2wav, SLOTS)
    streams.capture()
    calls: list[int] = []
    monkeypatch.setattr(streams, "_piece", counted(streams._piece, calls))
    codes, slots = codes_of(code2wav, 2, frames), [3, 1]
    for slot in slots:
        streams.open(slot)
    made = streams.decode(slots, codes, Stream.FIRST_AUDIO, at_end=True)
    whole = decoded(plain, slots, codes, [frames])
    assert [pcm and pcm[: len(whole[0])] for pcm in made] == whole
    assert calls == {3: [4], 5: [8], 8: [8], 9: [8, 1]}[frames]


def counted(piece: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
    """Return a wrapper of `piece` that appends the number of frames of each call to `calls`."""

    def one(slots: Any, codes: Tensor, stream: Stream) -> Any:
        calls.append(codes.shape[1])
        return piece(slots, codes, stream)

    return one


def test_first_audio_launched_with_its_frame_is_unchanged_and_continues_correctly(
    code2wav: Code2Wav, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device finishes its work late, and batches have padding rows."""
    families = {Stream.PROMPTS: GraphShapes((1,), (1, 2)), Stream.AUDIO: GraphShapes((1, 2), (1, 4))}
    monkeypatch.setattr("runtime.engine.audio.code2wav_graphs.GRAPH_SHAPES", families)
    device = LateDevice(3)
    streams = Code2WavStreams(code2wav, SLOTS, device)
    assert not streams.can_launch_first_audio(None), "nothing was captured"
    streams.capture()
    assert streams.can_launch_first_audio(None)
    assert not streams.can_launch_first_audio(
        ClonedVoice(torch.zeros(1), torch.zeros((3, 16), dtype=torch.int64), "Words.")
    )
    codes, slots = codes_of(code2wav, 3, 4), [4, 0, 2]
    with device.stream(Stream.PROMPTS):
        for slot in slots:
            streams.open(slot, None, Stream.PROMPTS)
        followed = streams.launch_first_audio(slots, codes[:, 0])
    rest = streams.decode(slots, codes[:, 1:])
    whole = decoded(Code2WavStreams(code2wav, SLOTS), slots, codes, [1, 4])
    assert [heard.pcm() + pcm for heard, pcm in zip(followed, rest, strict=True)] == whole


def test_padding_rows_change_no_stream(code2wav: Code2Wav) -> None:
    """Padding rows use a scratch slot, even after a larger batch has written to that slot."""
    streams = Code2WavStreams(code2wav, SLOTS, GraphDevice())
    streams.capture()
    codes = codes_of(code2wav, 4, 2)
    whole = decoded(Code2WavStreams(code2wav, SLOTS), [0, 1, 2, 3], codes, [2])
    first = decoded(streams, [0, 1, 2, 3], codes, [1])  # These rows run in a bucket of four.
    # Three rows run in a bucket of four with one padding row, and one row in a bucket of one.
    for slots in ([0, 1, 2], [3]):
        for slot, pcm in zip(slots, streams.decode(slots, codes[slots, 1:]), strict=True):
            assert pcm is not None
            assert first[slot] + pcm == whole[slot]


def test_shapes_that_fail_capture_run_without_graphs_and_are_counted(code2wav: Code2Wav) -> None:
    streams = Code2WavStreams(code2wav, SLOTS, GraphDevice(broken=range(99)))
    streams.capture()
    codes = codes_of(code2wav, 2, 3)
    assert decoded(streams, [1, 3], codes, [1, 3]) == decoded(Code2WavStreams(code2wav, SLOTS), [1, 3], codes, [1, 3])
    assert streams.uncaptured == 2


@pytest.mark.parametrize("broken", [{0}, {0, 5}, range(6, 99), range(0, 99, 2)])
def test_failed_capture_keeps_the_other_graphs(
    code2wav: Code2Wav, broken: Container[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Either the largest capture fails, or single captures fail, or all small captures fail."""
    device = GraphDevice(broken)
    streams, plain = Code2WavStreams(code2wav, SLOTS, device), Code2WavStreams(code2wav, SLOTS)
    streams.capture()
    assert [record.getMessage() for record in caplog.records if "no graph today" in record.getMessage()]
    assert 0 < device.captured < device.asked
    codes, slots = codes_of(code2wav, SLOTS, 38), [4, 0, 2, 1, 3]
    ends = [1, 3, 20, 37, 38]
    assert decoded(streams, slots, codes, ends) == decoded(plain, slots, codes, ends)


def test_only_requested_shapes_have_graphs(code2wav: Code2Wav) -> None:
    """Two rows of 7 frames use two graphs.

    The graph of 4 frames runs once, and the graph of 1 frame runs three times.
    """
    device = GraphDevice()
    streams = Code2WavStreams(code2wav, SLOTS, device, shapes=((4, 2), (1, 3)))
    plain = Code2WavStreams(code2wav, SLOTS)
    streams.capture()
    assert sorted(streams.graphs.frame_counts(Stream.AUDIO)) == [1, 4]
    two = codes_of(code2wav, 2, 7)
    assert decoded(streams, [1, 3], two, [7]) == decoded(plain, [1, 3], two, [7])
    assert streams.uncaptured == 0
    three = codes_of(code2wav, 3, 4)  # There is no graph of four frames for three or more rows.
    assert decoded(streams, [4, 0, 2], three, [4]) == decoded(plain, [4, 0, 2], three, [4])
    assert streams.uncaptured == 1


def test_shape_longer_than_the_network_limit_is_refused(code2wav: Code2Wav) -> None:
    network = TorchCode2Wav(code2wav, SLOTS + 1)
    network.max_call_frames = 16
    with pytest.raises(InvalidSetting, match="at most 16 frames per call"):
        Code2WavStreams(code2wav, SLOTS, network=network, shapes=((17, 1),))
