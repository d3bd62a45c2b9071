"""Layers as TorchScript have the bits of their readable twins, with every kind of product, alone and in company."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from runtime.device import open_device
from runtime.device.packed import min_rows
from runtime.device.quantized import Int8, Quantization, WeightOnlyInt8, multiplies_float16, rounds_rows
from runtime.engine.execution.frame import operations_of
from runtime.engine.execution.sampling import LevelSettings, pick
from runtime.engine.execution.scripted_frame import scripted_frame
from runtime.model.code_predictor import CodePredictor, FrameCache
from runtime.model.config import DecoderConfig
from runtime.model.layers import Attention, DecoderStack, join_heads
from runtime.model.products import Linear, pack
from runtime.model.scripted import Int8Weights, PredictorPass, can_script, scripted, scripted_step

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
    pytest.param(CONFIG, torch.float32, None, id="float32"),
    pytest.param(ODD, torch.float32, None, id="float32, no fours"),
    pytest.param(
        CONFIG,
        torch.float32,
        INT8,
        id="int8",
        marks=pytest.mark.skipif(not rounds_rows(), reason="no fbgemm here"),
    ),
    pytest.param(CONFIG, torch.float32, INT4, id="int4"),
    pytest.param(
        CONFIG,
        torch.float32,
        FLOAT16,
        id="float16",
        marks=pytest.mark.skipif(not multiplies_float16(), reason="no fbgemm here"),
    ),
    pytest.param(
        CONFIG,
        torch.bfloat16,
        None,
        id="bfloat16",
        marks=pytest.mark.skipif(min_rows(64, 64, torch.bfloat16) is None, reason="no products of bfloat16 here"),
    ),
]
NARROW = [case for case in KINDS if case.values[0] is CONFIG]
Kind = Quantization | None
CPU = open_device("cpu")


def fill_at_random(network: nn.Module) -> None:
    random = torch.Generator().manual_seed(1)
    for name, parameter in network.named_parameters():
        mean, spread = (1.0, 0.1) if "norm" in name else (0.0, 0.2)
        parameter.data = mean + spread * torch.randn(parameter.shape, generator=random)


def made_ready(network: CodePredictor | DecoderStack, dtype: torch.dtype, kind: Kind) -> None:
    fill_at_random(network)
    network.to(dtype).requires_grad_(False)
    for module in network.modules():
        if isinstance(module, Linear) and kind is not None:
            module.quantize(kind)
        elif dtype is torch.bfloat16:
            pack(module)


def rows_of(config: DecoderConfig, B: int, T: int, dtype: torch.dtype) -> Tensor:
    return torch.randn((B, T, config.hidden_size), generator=torch.Generator().manual_seed(B + T)).to(dtype)


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize(("config", "dtype", "kind"), KINDS)
@torch.inference_mode()
def test_scripted_code_predictor_passes_equal_the_layers(
    config: DecoderConfig, dtype: torch.dtype, kind: Kind, B: int
) -> None:
    predictor = CodePredictor(config, config.hidden_size)
    made_ready(predictor, dtype, kind)
    ops, scripted_pass = operations_of(CPU), scripted(PredictorPass, predictor, dtype)
    assert scripted_pass is not None
    inputs = [rows_of(config, B, 2, dtype), *(rows_of(config, B, n, dtype)[:, :1] for n in range(1, 9))]
    expected: list[Tensor] = []

    def draw(group: int, logits: Tensor, into: Tensor | None) -> None:
        expected.append(logits.clone())
        if into is not None:
            into.copy_(inputs[group][:, 0])

    predictor.predict(inputs[0], FrameCache(predictor, 4, CPU, dtype, ops), ops, draw)
    assert len(expected) == config.num_code_groups - 1
    cache = FrameCache(predictor, 4, CPU, dtype, ops)
    for _ in range(3):
        used = 0
        for group, scores in enumerate(expected, 1):
            x = inputs[group - 1]
            made = scripted_pass(x, group, used, cache.keys, cache.values, cache.cos, cache.sin)
            used += x.shape[1]
            assert torch.equal(made, scores)


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
    ("config", "dtype", "kind", "width"),
    [
        *(pytest.param(*case.values, CONFIG.hidden_size, id=case.id, marks=case.marks) for case in NARROW),
        pytest.param(WIDER, torch.float32, None, 64, id="a projection"),
        pytest.param(WIDER, torch.float32, INT8, 64, id="a rounded projection", marks=KINDS[2].marks),
    ],
)
@torch.inference_mode()
def test_scripted_frame_draws_equal_the_layers(
    config: DecoderConfig, dtype: torch.dtype, kind: Kind, width: int, B: int, top_k: int | None, any_top_p: bool
) -> None:
    predictor = CodePredictor(config, width)
    made_ready(predictor, dtype, kind)
    ops, frame, random = operations_of(CPU), scripted_frame(predictor, dtype), torch.Generator().manual_seed(3)
    assert frame is not None
    x, V = rows_of(config, B, 2, dtype), config.vocab_size
    noise = None if top_k is None else torch.randn((B, config.num_code_groups - 1, V), generator=random)
    widest = min(top_k or V, V)
    level = LevelSettings(
        temperature=torch.tensor([0.9, 1.3, 0.2][:B]),
        top_k=torch.tensor([widest, max(1, widest - 3), widest][:B]),
        top_p=torch.tensor([0.8, 0.3, 1.0][:B]) if any_top_p else torch.ones(B),
        greedy=torch.tensor([False, False, True][:B]),
        widest_k=widest,
        any_top_p=any_top_p,
    )
    codes: list[Tensor] = []
    sums: list[Tensor] = []

    def draw(group: int, logits: Tensor, into: Tensor | None) -> None:
        sums.append(logits.float().sum(dim=-1))
        codes.append(pick(logits.float(), level, None if noise is None else noise[:, group - 1]))
        if into is not None:
            into.copy_(predictor.project(predictor.model.codec_embedding[group - 1](codes[-1])))

    predictor.predict(x, FrameCache(predictor, 4, CPU, dtype, ops), ops, draw)
    cache = FrameCache(predictor, 4, CPU, dtype, ops)
    settings = level.temperature, level.top_k, level.top_p, level.greedy, level.widest_k, level.any_top_p
    for _ in range(3):
        made = frame(x, cache.keys, cache.values, cache.cos, cache.sin, *settings, noise)
        assert torch.equal(made[0], torch.stack(codes, dim=-1))
        assert torch.equal(made[1], torch.stack(sums))


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize(("config", "dtype", "kind"), KINDS)
@torch.inference_mode()
def test_scripted_step_supports_rows_at_different_positions(
    config: DecoderConfig, dtype: torch.dtype, kind: Kind, B: int
) -> None:
    stack = DecoderStack(config)
    made_ready(stack, dtype, kind)
    ops, step = operations_of(CPU), scripted_step(stack, dtype)
    assert step is not None
    slots, starts = torch.tensor([2, 0, 4][:B]), torch.tensor([5, 11, 0][:B])
    shape = (5, config.num_key_value_heads, 12, config.head_dim)
    before = [torch.randn(shape, generator=torch.Generator().manual_seed(n)).to(dtype) for n in range(4)]
    cos, sin = stack.angles(starts[:, None], dtype)
    x = rows_of(config, B, 1, dtype)
    readable = [part.clone() for part in before]

    def attend(layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        at = CPU.attend_slots(slots, starts, 12, readable[0])
        return join_heads(at(*ops.heads(attention, qkv, cos, sin), readable[layer], readable[2 + layer]))

    expected = stack.decode(x, attend, ops)
    for _ in range(3):
        own = [part.clone() for part in before]
        made = step(x, own[:2], own[2:], slots.tolist(), starts.tolist(), cos, sin)
        assert torch.equal(made, expected)
        assert all(map(torch.equal, own, readable))


def test_unsupported_products_use_the_plain_layers() -> None:
    stack = DecoderStack(CONFIG)
    fill_at_random(stack)
    assert can_script(stack, torch.float32)
    assert not can_script(stack.to(torch.float64), torch.float64)
    stack.to(torch.float32)
    stack.layers[0].get_submodule("mlp.down_proj").take(lambda rows: rows)  # type: ignore[operator]
    assert scripted_step(stack, torch.float32) is None


@pytest.mark.parametrize("count", [1, 4, 5])
@torch.inference_mode()
def test_int8_weights_work_with_narrow_activations(count: int) -> None:
    """What processors without fbgemm's rounded rows have."""
    random = torch.Generator().manual_seed(4)
    products = [WeightOnlyInt8(Int8.of(torch.randn((48, 64), generator=random))) for _ in range(2)]
    both = scripted(Int8Weights, products, torch.float32)  # type: ignore[arg-type]
    rows = torch.randn((count, 64), generator=random)
    for index, product in enumerate(products):
        assert torch.equal(both(rows, index), product(rows))


@torch.inference_mode()
def test_scripted_program_is_not_reoptimized_at_run_time() -> None:
    stack = DecoderStack(CONFIG)
    made_ready(stack, torch.float32, None)
    step = scripted_step(stack, torch.float32)
    assert step is not None
    cos, sin = stack.angles(torch.zeros((1, 1), dtype=torch.int64), torch.float32)
    keys, values = [[torch.zeros((1, 2, 4, 16)) for _ in stack.layers] for _ in range(2)]
    before = torch._C._get_graph_executor_optimize()
    for _ in range(3):
        step(rows_of(CONFIG, 1, 1, torch.float32), keys, values, [0], [0], cos, sin)
        assert "prim::profile" not in str(torch.jit.last_executed_optimized_graph())  # type: ignore[attr-defined]
    assert torch._C._get_graph_executor_optimize() is before
