"""Tests for Code2Wav's kernels and graphs at the published size, compared with float32."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from runtime.device.cuda import CudaDevice
from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.cloned_voice import ClonedVoice
from runtime.model.code2wav import Code2Wav
from tests.support.cuda import needs_gpu
from tests.support.sound_networks import published, random_network, rounded, snr_db

pytestmark = needs_gpu

FRAMES = 24
SLOTS = 34
# The network rounds about sixty times to bfloat16, and each rounding adds an error of about -58 dB. Without kernels,
# the network has the same error if its weights and inputs are rounded. The kernels also round the residual stream.
# This may double the error.
WORSE_THAN_ROUNDING = 3.0  # Maximum additional error in dB.
# Minimum signal-to-error ratio in float32. Errors come from another order of additions, from the polynomial in the
# snake kernel, and from the rounding to 16 bits (-100 dB).
FLOAT32_DB = 80.0


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return CudaDevice()


@pytest.fixture(scope="module")
def network(device: CudaDevice) -> Code2Wav:
    torch.backends.cudnn.allow_tf32 = False
    with torch.inference_mode():
        return random_network(published(), device.torch_device)


@pytest.fixture(scope="module")
def codes(network: Code2Wav) -> Tensor:
    stream = np.random.RandomState(3)
    return torch.from_numpy(stream.randint(0, 2048, (32, FRAMES, network.config.num_quantizers)))


@pytest.fixture(scope="module")
def streams(network: Code2Wav, device: CudaDevice) -> Code2WavStreams:
    made = Code2WavStreams(network, SLOTS, device, torch.bfloat16)
    torch.cuda.synchronize()  # The streams of the device do not wait for the work of this thread.
    made.capture()
    assert made.graphs.frame_counts(Stream.AUDIO), "nothing was captured"
    return made


@torch.inference_mode()
def plain(network: Code2Wav, codes: Tensor) -> Tensor:
    where = network.pre_conv.conv.weight.device
    return network(codes.to(where), network.fresh_state(len(codes))).cpu()


def decoded(streams: Code2WavStreams, slots: list[int], codes: Tensor, ends: list[int]) -> list[bytes]:
    for slot in slots:
        streams.open(slot)
    return continued(streams, slots, codes, ends)


def continued(streams: Code2WavStreams, slots: list[int], codes: Tensor, ends: list[int]) -> list[bytes]:
    torch.cuda.synchronize()  # The slots were opened outside of the device's streams.
    sounds = [b""] * len(slots)
    for begin, end in pairwise([0, *ends]):
        stream = Stream.FIRST_AUDIO if end <= 2 else Stream.AUDIO
        for row, pcm in enumerate(streams.decode(slots, codes[:, begin:end], stream)):
            assert isinstance(pcm, bytes), "sound that is not finite"
            sounds[row] += pcm
    return sounds


def waves(sounds: list[bytes]) -> Tensor:
    return torch.from_numpy(np.stack([np.frombuffer(sound, np.int16) for sound in sounds])).float() / 32767


def test_bfloat16_error_is_within_rounding_of_float32(
    streams: Code2WavStreams, network: Code2Wav, codes: Tensor
) -> None:
    truth = plain(network, codes[:4])
    with torch.inference_mode():
        yardstick = snr_db(truth, plain(rounded(network), codes[:4]))
    ours = snr_db(truth, waves(decoded(streams, [5, 1, 33, 0], codes[:4], [1, 3, 7, FRAMES])))
    assert ours > yardstick - WORSE_THAN_ROUNDING


def test_float32_kernels_equal_the_pytorch_network(network: Code2Wav, device: CudaDevice, codes: Tensor) -> None:
    streams = Code2WavStreams(network, 4, device, torch.float32)
    ours = waves(decoded(streams, [2, 0], codes[:2], [2, 3, FRAMES]))
    assert snr_db(plain(network, codes[:2]), ours) > FLOAT32_DB


def test_stream_is_bitwise_identical_alone_and_among_32_streams(streams: Code2WavStreams, codes: Tensor) -> None:
    together = decoded(streams, list(range(32)), codes, [12, FRAMES])
    for row in (0, 7, 31):
        alone = decoded(streams, [33], codes[row : row + 1], [12, FRAMES])
        assert alone[0] == together[row], row


def test_stream_is_bitwise_independent_of_chunking(streams: Code2WavStreams, codes: Tensor) -> None:
    whole = decoded(streams, [3], codes[:1], [16, FRAMES])
    for ends in ([1, 2, 4, 8, 16, FRAMES], [3, 10, 23, FRAMES]):
        assert decoded(streams, [9], codes[:1], ends) == whole, ends


def test_stream_of_a_cloned_voice_starts_from_the_state_after_the_reference_codes(
    streams: Code2WavStreams, network: Code2Wav, codes: Tensor
) -> None:
    voice = ClonedVoice(torch.zeros(1), codes[0, :14], "Words.")
    with torch.inference_mode():
        truth = plain(network, codes[:1])[:, 14 * streams.samples_per_frame :]
    heard = []
    for slot in (8, 20):  # The first slot computes the reference's state; the second slot uses the stored state.
        streams.open(slot, voice)
        heard += continued(streams, [slot], codes[:1, 14:], [1, FRAMES - 14])
    assert heard[0] == heard[1]
    assert snr_db(truth, waves(heard[:1])) > 25


@pytest.mark.parametrize("frames", [9, 14, 24])
def test_reference_decoded_in_graphs_leaves_the_state_of_the_plain_network(
    streams: Code2WavStreams, codes: Tensor, frames: int
) -> None:
    reference = codes[0, :frames].to(streams.device.torch_device)
    with torch.inference_mode(), streams.device.stream(Stream.VOICES):
        sound = streams.after(reference)
        state, turn = streams.network.state_after(reference)
        torch.cuda.synchronize()
    assert torch.equal(sound.state.keys[0], state.keys[0])
    assert torch.equal(sound.state.convs[0][sound.parity], state.convs[0][turn])


def test_every_chunk_is_decoded_in_graphs(streams: Code2WavStreams, codes: Tensor) -> None:
    for frames, rows in ((1, 1), (5, 3), (24, 9), (2, 32)):
        decoded(streams, list(range(rows)), codes[:rows], [frames])
    assert streams.uncaptured == 0
