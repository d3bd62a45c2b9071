"""Tests for decoder layers in C++: equal to the PyTorch layers except for rounding.

The tests cover every kind of quantization and every instruction set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from runtime.device import native, open_device
from runtime.device.quantized import Quantization
from runtime.engine.execution.frame import choose_operations
from runtime.engine.execution.sampling import BatchSamplingParams, gumbel_noise, sample_codes
from runtime.model.code_predictor import CodePredictor, FrameCache
from runtime.model.config import DecoderConfig
from runtime.model.layers import Attention, DecoderStack, join_heads
from runtime.model.native_layers import RowSampling, native_layers, native_predictor
from runtime.model.products import Linear

pytestmark = pytest.mark.skipif(not native.is_loaded(), reason="no C++ compiler built the operators")

FLOAT16, INT8, INT4 = Quantization
CONFIG = DecoderConfig(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    num_code_groups=5,
    vocab_size=48,
)
ODD = DecoderConfig(
    hidden_size=30,
    intermediate_size=26,
    num_hidden_layers=2,
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=10,
    num_code_groups=4,
    vocab_size=17,
)
KINDS = [
    pytest.param(CONFIG, None, id="float32"),
    pytest.param(ODD, None, id="float32, odd sizes"),
    pytest.param(ODD, FLOAT16, id="float16, odd sizes"),
    *(pytest.param(CONFIG, kind, id=kind) for kind in Quantization),
]
Kind = Quantization | None
ROUNDING = {"rtol": 1e-4, "atol": 2e-4}
LEVELS = range(torch.ops.voicewright.use_level(-1) + 1 if native.is_loaded() else 0)
CPU = open_device("cpu")


def fill_at_random(network: nn.Module) -> None:
    random = torch.Generator().manual_seed(1)
    for name, parameter in network.named_parameters():
        mean, spread = (1.0, 0.1) if "norm" in name else (0.0, 0.2)
        parameter.data = mean + spread * torch.randn(parameter.shape, generator=random)


@pytest.fixture(params=LEVELS, ids=lambda level: f"level {level}", autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.ops.voicewright.use_level(request.param)
    yield
    torch.ops.voicewright.use_level(-1)


def made_ready(network: CodePredictor | DecoderStack, kind: Kind) -> None:
    fill_at_random(network)
    network.requires_grad_(False)
    for module in network.modules():
        if isinstance(module, Linear) and kind is not None:
            module.quantize(kind)


def rows_of(config: DecoderConfig, B: int, T: int) -> Tensor:
    return torch.randn((B, T, config.hidden_size), generator=torch.Generator().manual_seed(B + T))


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize(("config", "kind"), KINDS)
@torch.inference_mode()
def test_layers_support_rows_at_different_positions(config: DecoderConfig, kind: Kind, B: int) -> None:
    stack = DecoderStack(config)
    made_ready(stack, kind)
    ops, layers = choose_operations(CPU), native_layers(stack)
    assert layers is not None
    slots, starts = torch.tensor([2, 0, 4][:B]), torch.tensor([5, 11, 0][:B])
    shape = (2, config.num_hidden_layers, 5, config.num_key_value_heads, 12, config.head_dim)
    before = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    angles = stack.angles(starts[:, None], torch.float32)
    x = rows_of(config, B, 1)
    readable = before.clone()

    def attend(layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        at = CPU.attend_slots(slots, starts, 12, readable[0, 0])
        return join_heads(at(*ops.heads(attention, qkv, *angles), readable[0, layer], readable[1, layer]))

    expected = stack.decode(x, attend, ops)[:, 0]
    cos, sin = stack.angles(torch.arange(12)[None], torch.float32)
    own, rows = before.clone(), x[:, 0].clone()
    made = layers(rows, (own[0], own[1]), (cos[0, 0], sin[0, 0]), slots, starts)
    torch.testing.assert_close(made, expected, **ROUNDING)
    torch.testing.assert_close(own, readable, **ROUNDING)
    assert torch.equal(rows, x[:, 0]), "the input is not changed"
    for row in range(B):
        at, alone = slice(row, row + 1), before.clone()
        again = layers(rows[at], (alone[0], alone[1]), (cos[0, 0], sin[0, 0]), slots[at], starts[at])
        assert torch.equal(again, made[at])
        assert torch.equal(alone[:, :, slots[row]], own[:, :, slots[row]])
    rows[0, 3] = torch.nan
    broken = layers(rows, (own[0], own[1]), (cos[0, 0], sin[0, 0]), slots, starts)
    assert not broken[0].isfinite().any()
    assert torch.equal(broken[1:], made[1:])


@pytest.mark.parametrize(("config", "kind"), KINDS)
@torch.inference_mode()
def test_several_positions_in_one_call_are_bitwise_equal_to_single_calls(config: DecoderConfig, kind: Kind) -> None:
    stack = DecoderStack(config)
    made_ready(stack, kind)
    layers, (cos, sin) = native_layers(stack), stack.angles(torch.arange(14)[None], torch.float32)
    assert layers is not None
    angles = cos[0, 0], sin[0, 0]
    keys, values = torch.zeros((2, config.num_hidden_layers, 3, config.num_key_value_heads, 14, config.head_dim))
    others, x = (keys.clone(), values.clone()), rows_of(config, 2, 10).flatten(0, 1)
    slots, starts = torch.tensor([2, 0]), torch.tensor([0, 3])
    made = layers(x, (keys, values), angles, slots, starts)
    for row, step in ((row, step) for row in range(2) for step in range(10)):
        at = slice(10 * row + step, 10 * row + step + 1)
        assert torch.equal(layers(x[at], others, angles, slots[row : row + 1], starts[row : row + 1] + step), made[at])
    assert torch.equal(keys, others[0])
    assert torch.equal(values, others[1])


WIDER = replace(CONFIG, hidden_size=48)
DRAWS = [
    pytest.param(None, False, id="greedy"),
    pytest.param(50, False, id="all"),
    pytest.param(7, False, id="top-k"),
    pytest.param(50, True, id="top-p"),
    pytest.param(7, True, id="top-k and top-p"),
]


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize(("top_k", "any_top_p"), DRAWS)
@pytest.mark.parametrize(
    ("config", "kind", "width"),
    [
        *(pytest.param(*case.values, case.values[0].hidden_size, id=case.id) for case in KINDS),  # type: ignore[union-attr]
        pytest.param(WIDER, None, 64, id="a projection"),
        pytest.param(WIDER, INT8, 64, id="a rounded projection"),
    ],
)
@torch.inference_mode()
def test_predictor_samples_the_same_codes_as_the_pytorch_layers(
    config: DecoderConfig, kind: Kind, width: int, B: int, top_k: int | None, any_top_p: bool
) -> None:
    predictor = CodePredictor(config, width)
    made_ready(predictor, kind)
    for table, dtype in zip(predictor.model.codec_embedding, (torch.bfloat16, torch.float16), strict=False):
        table.weight, table.dtype = nn.Parameter(table.weight.to(dtype), requires_grad=False), torch.float32
    ops, operator = choose_operations(CPU), native_predictor(predictor)
    assert operator is not None
    x, V, Q = rows_of(config, B, 2), config.vocab_size, config.num_code_groups
    widest = min(top_k or V, V)
    seeds, frames, rows = torch.tensor([7, 2**40 + 1, 3, 0]), torch.tensor([1, 5, 900, 0]), torch.tensor([1, 3, 0][:B])
    reals = torch.tensor([[0.9, 1.3, 0.2, 1.0], [0.8, 0.3, 1.0, 0.6] if any_top_p else [1.0] * 4])
    ints = torch.tensor([[widest, max(1, widest - 3), widest, widest], [top_k is None] * 3 + [True]], dtype=torch.int64)
    noise = gumbel_noise(seeds[rows], frames[rows], Q, V)
    settings = BatchSamplingParams(reals[0, rows], ints[0, rows], reals[1, rows], ints[1, rows] != 0, widest, any_top_p)
    codes: list[Tensor] = []

    def draw(group: int, logits: Tensor, into: Tensor | None) -> None:
        codes.append(sample_codes(logits, settings, noise[:, group]))
        if into is not None:
            into.copy_(predictor.project(predictor.model.codec_embedding[group - 1](codes[-1])))

    predictor.predict(x, FrameCache(predictor, 4, CPU, torch.float32, ops), ops, draw)
    cache = FrameCache(predictor, 4, CPU, torch.float32, ops)
    made = operator.predict(x, cache, RowSampling(reals, ints, seeds, frames, rows))
    assert torch.equal(made[:, :-1], torch.stack(codes, dim=-1))
    assert made[:, -1].tolist() == [1] * B
    for row in range(B):
        alone = operator.predict(x[row : row + 1], cache, RowSampling(reals, ints, seeds, frames, rows[row : row + 1]))
        assert torch.equal(alone, made[row : row + 1])
    x[0, 1, 2] = torch.nan
    broken = operator.predict(x, cache, RowSampling(reals, ints, seeds, frames, rows))
    assert broken[:, -1].tolist() == [0] + [1] * (B - 1)
    assert torch.equal(broken[1:], made[1:])


def test_unsupported_products_use_the_pytorch_layers() -> None:
    stack = DecoderStack(CONFIG)
    fill_at_random(stack)
    assert native_layers(stack) is not None
    stack.layers[0].get_submodule("mlp.down_proj").set_product(lambda rows: rows)  # type: ignore[operator]
    assert native_layers(stack) is None
    assert native_layers(DecoderStack(CONFIG).bfloat16()) is None
