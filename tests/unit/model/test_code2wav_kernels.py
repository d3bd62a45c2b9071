"""Tests for Code2Wav with kernels in Triton's interpreter, compared with PyTorch.

tests/gpu makes the same comparison on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from runtime.device import native
from runtime.device.kernels.code2wav import convolution, pointwise, residual_unit
from runtime.device.kernels.code2wav.convolution import ConvolutionTile
from runtime.engine.audio.reference_prefill import ReferencePrefill
from runtime.engine.execution.graphs import GraphPool
from runtime.model.checkpoints.checkpoint import load_checkpoint
from runtime.model.code2wav import Code2Wav
from runtime.model.code2wav_interface import to_s16
from runtime.model.packed_code2wav import PackedCode2Wav
from tests.conftest import FolderOf
from tests.support import interpreting
from tests.support.cuda import interpreted
from tests.support.sound_networks import SMALL, random_network, rounded, snr_db
from tests.unit.engine.test_code2wav_graphs import GraphDevice

pytestmark = interpreted

CPU = torch.device("cpu")
SLOTS = 5
STEP = 1  # One step of the 16-bit samples. A sum in another order may round to the adjacent value.


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use large tiles, because the interpreter runs one program at a time.

    The tile size does not change the results.
    """
    monkeypatch.setattr(convolution, "tile_for", lambda M, N, size: ConvolutionTile(512, 64, 4, 3, 512))
    monkeypatch.setattr(residual_unit, "tile_for", lambda M, channels: ConvolutionTile(512, channels, 4, 3, 512))
    monkeypatch.setattr(pointwise, "SAMPLES_PER_PROGRAM", 512)
    monkeypatch.setattr(pointwise, "STEPS_PER_PROGRAM", 64)
    with interpreting.patch_interpreter():
        yield


@pytest.fixture(scope="module")
def small() -> Code2Wav:
    return random_network(SMALL, torch.device("cpu"))


def codes_of(network: Code2Wav, rows: int, frames: int, seed: int = 0) -> Tensor:
    config = network.config
    stream = np.random.RandomState(seed)
    return torch.from_numpy(stream.randint(0, config.codebook_size, (rows, frames, config.num_quantizers)))


class Streams:
    """Code2Wav network with packed weights, whose slots have the state of the rows."""

    def __init__(self, sound: PackedCode2Wav, samples: int) -> None:
        self.sound, self.samples = sound, samples
        self.rows = np.zeros((SLOTS, 3), np.int64)
        self.rows[:, 0] = np.arange(SLOTS)

    @torch.inference_mode()
    def open(self, slot: int) -> None:
        self.sound.reset(slot)
        self.rows[slot, 1:] = 0

    @torch.inference_mode()
    def decode(self, slots: list[int], codes: Tensor) -> Tensor:
        rows = torch.from_numpy(self.rows[slots]).to(torch.int32)
        made = self.sound.decode(rows, codes.to(torch.int32).contiguous())
        samples = codes.shape[1] * self.samples
        assert not made[:, samples:].any(), "sound that is not finite"
        self.rows[slots, 1] ^= 1
        self.rows[slots, 2] += codes.shape[1]
        return made[:, :samples]


@torch.inference_mode()
def plain(network: Code2Wav, codes: Tensor) -> Tensor:
    return to_s16(network(codes, network.fresh_state(len(codes))))


def packed(network: Code2Wav, dtype: torch.dtype = torch.float32) -> Streams:
    return Streams(PackedCode2Wav(network, SLOTS, dtype), network.config.samples_per_frame)


def in_chunks(streams: Streams, slots: list[int], codes: Tensor, ends: list[int]) -> Tensor:
    return torch.cat([streams.decode(slots, codes[:, a:b]) for a, b in pairwise([0, *ends])], dim=1)


@pytest.mark.parametrize("spec", ["tiny", "odd"])
def test_kernel_audio_equals_the_pytorch_network_from_the_first_frame(
    folder_of: FolderOf, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The modules keep their weights, as on a GPU or an NPU.
    monkeypatch.setattr(native, "supports_convolution", lambda dtype: False)
    checkpoint = load_checkpoint(str(folder_of(spec, "base")), CPU, torch.float32)
    network = checkpoint.speech_tokenizer.code2wav
    codes = codes_of(network, 2, 4)
    ours, truth = in_chunks(packed(network), [3, 1], codes, [1, 4]), plain(network, codes)
    assert truth.float().std() > 300
    assert (ours.int() - truth).abs().max() <= STEP


def test_long_stream_is_equal_for_every_chunking(small: Code2Wav) -> None:
    """The ring buffer has 32 frames, so 40 frames fill it more than once.

    Chunks are shorter and longer than the attention window of 7 frames.
    """
    codes = codes_of(small, 1, 40)
    ours = in_chunks(packed(small), [2], codes, [1, 3, 19, 24, 40])
    assert (ours.int() - plain(small, codes)).abs().max() <= STEP


def test_streams_can_join_and_leave_a_batch_and_reopened_streams_have_no_old_state(small: Code2Wav) -> None:
    """Rows with different frame numbers share calls, and no row reads data of other slots."""
    codes = codes_of(small, 4, 12)
    truth = plain(small, codes)
    streams = packed(small)
    with torch.inference_mode():
        streams.sound.memory.fill_(float("nan"))
        streams.sound.rings.fill_(float("nan"))
    done = {0: 0, 1: 0, 2: 0, 3: 0}
    places = {0: 4, 1: 0, 2: 1, 3: 4}  # Slots of the streams. The last stream reuses the slot of the first stream.
    heard: dict[int, list[Tensor]] = {row: [] for row in done}
    for members, size in (([0], 3), ([0, 1], 4), ([1, 0], 5), ([2, 1], 2), ([3, 2], 6), ([2, 3], 4), ([3], 2)):
        for row in members:
            if done[row] == 0:
                streams.open(places[row])
        chunk = torch.stack([codes[row, done[row] : done[row] + size] for row in members])
        for row, sound in zip(members, streams.decode([places[row] for row in members], chunk), strict=True):
            heard[row].append(sound)
            done[row] += size
    for row, sounds in heard.items():
        ours = torch.cat(sounds)
        assert len(ours) > 0
        assert (ours.int() - truth[row, : len(ours)]).abs().max() <= STEP, row
    for slot in {*range(SLOTS)} - set(places.values()):
        assert streams.sound.memory[:, slot].isnan().all(), "a slot that nobody named was written"
        assert streams.sound.rings[slot].isnan().all()


@pytest.mark.parametrize("reference", [1, 9, 30])
def test_warm_state_equals_decoding_the_reference_and_dropping_its_audio(small: Code2Wav, reference: int) -> None:
    codes = codes_of(small, 1, reference + 4)
    truth = plain(small, codes)[:, reference * small.config.samples_per_frame :]
    streams = packed(small)
    with torch.inference_mode():
        kept, turn = streams.sound.state_after(codes[0, :reference])
        streams.sound.write_state(1, kept)
        streams.sound.write_state(4, kept)
    for slot in (1, 4):
        streams.rows[slot] = slot, turn, reference
    ours = in_chunks(streams, [4, 1], codes[:, reference:].repeat(2, 1, 1), [1, 4])
    assert (ours.int() - truth).abs().max() <= STEP


@pytest.mark.parametrize("reference", [2, 12])
def test_captured_warm_up_steps_equal_one_pass(small: Code2Wav, reference: int) -> None:
    """A remainder of two frames is shorter than the smallest step, so it has no graph."""
    codes = codes_of(small, 1, reference + 4)
    truth = plain(small, codes)[:, reference * small.config.samples_per_frame :]
    streams, device = packed(small), GraphDevice()
    graphs = GraphPool(device)
    after = ReferencePrefill(streams.sound, device, small.config.num_quantizers, graphs)
    with torch.inference_mode():
        graphs.capture(after.captures())
    assert device.captured == len(list(after.warmup_functions()))
    # The state of an earlier reference must have no effect on the next reference.
    after(codes_of(small, 1, 9, seed=4)[0])
    sound = after(codes[0, :reference])
    with torch.inference_mode():
        streams.sound.write_state(2, sound.state)
    streams.rows[2] = 2, sound.parity, sound.frames
    ours = in_chunks(streams, [2], codes[:, reference:], [1, 4])
    assert (ours.int() - truth).abs().max() <= STEP


def test_non_finite_audio_is_reported_for_its_own_row_alone(small: Code2Wav) -> None:
    codes = codes_of(small, 2, 2)
    streams = packed(small)
    rows = torch.tensor([[3, 0, 0], [0, 0, 0]], dtype=torch.int32)
    with torch.inference_mode():
        streams.sound.memory[:, 3] = float("inf")
        made = streams.sound.decode(rows, codes.to(torch.int32))
    samples = 2 * streams.samples
    assert made[0, samples:].any()
    assert not made[1, samples:].any()
    assert (made[1, :samples].int() - plain(small, codes[1:])).abs().max() <= STEP


def test_out_of_range_codes_are_clamped_to_the_codebooks(small: Code2Wav) -> None:
    codes = codes_of(small, 1, 1)
    codes[0, 0, 0], codes[0, 0, 1] = -5, 10**6
    held = codes.clamp(0, small.config.codebook_size - 1)
    assert torch.equal(packed(small).decode([0], codes), packed(small).decode([0], held))


def test_bfloat16_error_equals_the_error_of_the_rounded_network(small: Code2Wav) -> None:
    """The baseline is the network without kernels, with rounded weights and inputs."""
    codes = codes_of(small, 1, 6)
    truth = plain(small, codes).float()
    ours = in_chunks(packed(small, torch.bfloat16), [0], codes, [2, 6]).float()
    with torch.inference_mode():
        yardstick = snr_db(truth, plain(rounded(small), codes).float())
    assert yardstick - 3 < snr_db(truth, ours) < 60
