"""Tests for Code2Wav in C++, which must equal the PyTorch network except for rounding.

The tests cover every instruction set.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from runtime.device import native
from runtime.device.cpu import CpuDevice
from runtime.engine.audio.code2wav_streams import code2wav_interface
from runtime.model.code2wav import Code2Wav
from runtime.model.code2wav_interface import TorchCode2Wav
from runtime.model.native_code2wav import NativeCode2Wav, native_code2wav
from runtime.model.products import lay_out
from tests.support.examples import examples
from tests.support.sound_networks import SMALL, random_network

pytestmark = pytest.mark.skipif(not native.supports_convolution(), reason="no C++ compiler built the operator")

LEVELS = range(torch.ops.voicewright.use_level(-1) + 1 if native.is_loaded() else 0)
# Configuration in which no width is a multiple of a tile, and several heads share keys.
ODD = replace(
    SMALL,
    codebook_dim=26,
    latent_dim=21,
    hidden_size=30,
    intermediate_size=37,
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=10,
    decoder_dim=44,
    upsample_rates=(5, 2),
    upsampling_ratios=(3,),
)
SLOTS, FRAMES = 5, 11
ROUNDING_STEPS = 2  # Maximum difference in steps of 16-bit samples.


@pytest.fixture(params=[SMALL, ODD], ids=["small", "odd"], scope="module")
def readable(request: pytest.FixtureRequest) -> Code2Wav:
    return random_network(request.param, torch.device("cpu"))


def network_of(readable: Code2Wav, dtype: torch.dtype = torch.float32) -> NativeCode2Wav:
    laid_out = copy.deepcopy(readable)
    lay_out(laid_out, dtype)
    return NativeCode2Wav(laid_out, SLOTS)


@pytest.fixture(scope="module")
def network(readable: Code2Wav) -> NativeCode2Wav:
    return network_of(readable)


@pytest.fixture(scope="module")
def bfloat16(readable: Code2Wav) -> NativeCode2Wav:
    """Return the network in bfloat16.

    CPUs without bfloat16 instructions use portable code.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "supports_convolution", lambda dtype: True)
        return network_of(readable, torch.bfloat16)


@pytest.fixture(params=LEVELS, ids=lambda level: f"level {level}")
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.ops.voicewright.use_level(request.param)
    yield
    torch.ops.voicewright.use_level(-1)


def codes_of(readable: Code2Wav, rows: int, seed: int = 0) -> Tensor:
    shape, random = (rows, FRAMES, readable.config.num_quantizers), torch.Generator().manual_seed(seed)
    return torch.randint(readable.config.codebook_size, shape, generator=random, dtype=torch.int32)


@torch.inference_mode()
def decoded(network: NativeCode2Wav | TorchCode2Wav, codes: Tensor, sizes: Iterator[int], begin: int = 0) -> Tensor:
    """Decode codes in chunks of these sizes, in the last slots of the network."""
    slots, pieces = range(SLOTS - len(codes), SLOTS), []
    if not begin:
        for slot in slots:
            network.reset(slot)
    while begin < codes.shape[1]:
        chunk = codes[:, begin : begin + next(sizes)]
        pieces.append(network.decode(torch.tensor([[slot, 0, begin] for slot in slots], dtype=torch.int32), chunk))
        begin += chunk.shape[1]
    assert not any(piece[:, -1].any() for piece in pieces)
    return torch.cat([piece[:, :-1] for piece in pieces], dim=1)


@pytest.mark.parametrize("sizes", [(FRAMES,), (1,), (2, 5)], ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_native_code2wav_audio_equals_the_pytorch_network(
    readable: Code2Wav, network: NativeCode2Wav, level: None, rows: int, sizes: tuple[int, ...]
) -> None:
    codes = codes_of(readable, rows)
    expected = decoded(TorchCode2Wav(readable, SLOTS), codes, cycle(sizes))
    assert expected.float().std() > 1000
    made = decoded(network, codes, cycle(sizes))
    assert (made.int() - expected.int()).abs().max() <= ROUNDING_STEPS


def test_float16_weights_change_the_audio_only_slightly(readable: Code2Wav) -> None:
    codes = codes_of(readable, 2)
    expected = decoded(TorchCode2Wav(readable, SLOTS), codes, cycle([4])).float()
    made = decoded(network_of(readable, torch.float16), codes, cycle([4])).float()
    assert 0 < (made - expected).norm() < 0.01 * expected.norm()


def test_bfloat16_products_change_the_audio_only_slightly(readable: Code2Wav, bfloat16: NativeCode2Wav) -> None:
    codes = codes_of(readable, 2)
    expected = decoded(TorchCode2Wav(readable, SLOTS), codes, cycle([4])).float()
    made = decoded(bfloat16, codes, cycle([4])).float()
    assert 0 < (made - expected).norm() < 0.05 * expected.norm()


@settings(max_examples=examples(20), deadline=None)
@given(
    sizes=st.lists(st.integers(1, FRAMES), min_size=1, max_size=6),
    rows=st.integers(1, SLOTS),
    level=st.sampled_from(LEVELS),
    threads=st.integers(1, 2),
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_audio_is_bitwise_independent_of_chunks_batch_threads_and_instructions(
    dtype: torch.dtype,
    network: NativeCode2Wav,
    bfloat16: NativeCode2Wav,
    readable: Code2Wav,
    sizes: list[int],
    rows: int,
    level: int,
    threads: int,
) -> None:
    network = bfloat16 if dtype is torch.bfloat16 else network
    codes, before = codes_of(readable, SLOTS), torch.get_num_threads()
    whole = torch.cat([decoded(network, row[None], cycle([FRAMES])) for row in codes[:rows]])
    torch.set_num_threads(threads)
    torch.ops.voicewright.use_level(level)
    try:
        assert torch.equal(decoded(network, codes[:rows], cycle(sizes)), whole)
    finally:
        torch.set_num_threads(before)
        torch.ops.voicewright.use_level(-1)


@pytest.mark.parametrize("reference", [1, FRAMES - 1])
@torch.inference_mode()
def test_reference_frames_give_the_state_of_decoding_them(
    readable: Code2Wav, network: NativeCode2Wav, reference: int
) -> None:
    readable = copy.copy(readable)
    codes = codes_of(readable, 1)
    samples = reference * readable.config.samples_per_frame
    expected = decoded(network, codes, cycle([3]))[:, samples:]
    state, turn = network.state_after(codes[0, :reference].long())
    network.write_state(SLOTS - 1, state)
    assert turn == 0
    made = decoded(network, codes, cycle([2]), reference)
    assert (made.int() - expected.int()).abs().max() <= ROUNDING_STEPS


@torch.inference_mode()
def test_non_finite_stream_is_flagged_and_does_not_affect_other_streams(
    readable: Code2Wav, network: NativeCode2Wav
) -> None:
    codes = codes_of(readable, 2)
    expected = decoded(network, codes, cycle([FRAMES]))
    for slot in (3, 4):
        network.reset(slot)
    network.state.convs[0][3, 5] = torch.nan
    made = network.decode(torch.tensor([[3, 0, 0], [4, 0, 0]], dtype=torch.int32), codes)
    assert made[:, -1].tolist() == [1, 0]
    assert torch.equal(made[1, :-1], expected[1])
    network.reset(3)
    assert torch.equal(decoded(network, codes, cycle([FRAMES])), expected)


@pytest.mark.parametrize("code", [-1, SMALL.codebook_size])
def test_unknown_code_is_refused_and_changes_no_state(readable: Code2Wav, network: NativeCode2Wav, code: int) -> None:
    codes = codes_of(readable, 1)
    decoded(network, codes, cycle([FRAMES]))
    before = network.state.convs[0].clone()
    codes[0, 3, 1] = code
    with pytest.raises(RuntimeError, match="a code is not in its codebook"):
        decoded(network, codes, cycle([FRAMES]), begin=1)
    assert torch.equal(network.state.convs[0], before)


def test_network_in_another_weight_layout_uses_the_pytorch_implementation(readable: Code2Wav) -> None:
    assert native_code2wav(readable, SLOTS) is None
    assert isinstance(code2wav_interface(readable, SLOTS, CpuDevice(), torch.float32), TorchCode2Wav)
    laid_out = copy.deepcopy(readable)
    lay_out(laid_out)
    assert isinstance(code2wav_interface(laid_out, SLOTS, CpuDevice(), torch.float32), NativeCode2Wav)
