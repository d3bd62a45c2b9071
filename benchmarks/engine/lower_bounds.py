"""Lower bounds for the times of the engine's parts.

A bound is computed from the number of bytes that must be read and the number of multiplications.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.common.report import Row, Tables
from benchmarks.engine.model_parts import synchronize
from runtime.engine.capacity.probe import layer_size
from runtime.model.config import DecoderConfig, ModelConfig

GPU_BYTES, CPU_BYTES = 2**31, 2**24  # Number of bytes to read. On a GPU, this is many times the cache size.
GPU_SIDE, CPU_SIDE = 8192, 256  # Number of rows and columns of the matrices.
REPEATS = 10
BFLOAT16_BYTES = 2


@dataclass(frozen=True, slots=True)
class HardwareRates:
    """Measured rates of a device.

    `read` is in bytes per second. `multiplied` is the rate of matrix products in operations per second.
    """

    read: float
    multiplied: float

    def row(self) -> Row:
        tera = {"read_tb_s": self.read, "tflop_s": self.multiplied}
        return {name: round(value / 1e12, 4) for name, value in tera.items()}


@dataclass(frozen=True, slots=True)
class OperationCost:
    """Minimum work of one part of the engine.

    `weights` is the number of weights to read, `kv_cache` the number of keys and values to read, and `operations` the
    number of arithmetic operations.
    """

    weights: float
    kv_cache: float
    operations: float

    def __add__(self, other: OperationCost) -> OperationCost:
        return OperationCost(
            self.weights + other.weights, self.kv_cache + other.kv_cache, self.operations + other.operations
        )

    def floor_ms(self, rates: HardwareRates, weight_bytes: float = BFLOAT16_BYTES) -> float:
        """Return the lower bound of the time in ms: the larger of reading time and computing time.

        `weight_bytes` is the size of one weight in bytes.
        """
        read = weight_bytes * self.weights + BFLOAT16_BYTES * self.kv_cache
        return 1000 * max(read / rates.read, self.operations / rates.multiplied)


def measure_rates() -> HardwareRates:
    """Measure the memory read rate and the matrix product rate of this device.

    The fastest of several runs is used.
    """
    has_gpu = torch.accelerator.is_available()
    device = torch.accelerator.current_accelerator() if has_gpu else torch.device("cpu")
    source = torch.randn((GPU_BYTES if has_gpu else CPU_BYTES) // 4, device=device)
    side = GPU_SIDE if has_gpu else CPU_SIDE
    left, right = (torch.randn((side, side), device=device).bfloat16() for _ in "ab")
    out = torch.empty_like(left)

    def fastest_s(work: Callable[[], object]) -> float:
        work()
        spent = []
        for _ in range(REPEATS):
            synchronize()
            began = time.perf_counter()
            work()
            synchronize()
            spent.append(time.perf_counter() - began)
        return min(spent)

    def multiply() -> Tensor:
        return torch.mm(left, right, out=out)

    return HardwareRates(
        read=source.nbytes / fastest_s(lambda: torch.amax(source)),
        multiplied=2 * side**3 / fastest_s(multiply),
    )


def weights_of(decoder: DecoderConfig) -> int:
    """Return the number of weights in the matrices of all layers of a decoder."""
    return decoder.num_hidden_layers * layer_size(decoder)


def predictor_cost(config: ModelConfig, rows: int) -> OperationCost:
    """Return the minimum work of the code predictor for one frame (codes 1 to Q-1).

    Each code needs one pass, which reads all weights. `rows` is the batch size.
    """
    total = OperationCost(0, 0, 0)
    for done in range(config.talker.num_code_groups - 1):
        # The first pass has two positions: the hidden state of the talker, and the code of codebook 0.
        total += _layers(config.predictor, rows * (2 if done == 0 else 1), done + 2) + _head(config.predictor, rows)
    return total


def frame_cost(config: ModelConfig, rows: int, context: int) -> OperationCost:
    """Return the minimum work to generate one frame for each row of a batch.

    Args:
        config: Configuration of the checkpoint.
        rows: Batch size.
        context: Position of the frame, which is the number of cached positions per row.
    """
    return _layers(config.talker, rows, context) + _head(config.talker, rows) + predictor_cost(config, rows)


def prefill_cost(config: ModelConfig, positions: int) -> OperationCost:
    """Return the minimum work to prefill a prompt and to generate its first frame.

    `positions` is the length of the prompt.
    """
    decoder, weights = config.talker, weights_of(config.talker)
    attended = 4 * decoder.num_hidden_layers * decoder.num_attention_heads * decoder.head_dim * positions / 2
    read = OperationCost(weights, 0, positions * (2 * weights + attended))
    return read + _head(decoder, 1) + predictor_cost(config, 1)


def add_lower_bounds(
    config: ModelConfig, rates: HardwareRates, tables: Tables, weight_bytes: float = BFLOAT16_BYTES
) -> None:
    """Add two columns to each row of the result tables: the lower bound and a ratio.

    The lower bound is in ms. The ratio is the measured time divided by the lower bound.
    """
    kinds: dict[str, tuple[str, Callable[[Row], OperationCost]]] = {
        "frames": ("frame_ms", lambda row: frame_cost(config, row["batch"], row["context"])),
        "predictor": ("predictor_ms", lambda row: predictor_cost(config, row["batch"])),
        "prefill": ("prefill_ms", lambda row: prefill_cost(config, row["positions"])),
    }
    for name, (column, cost_of) in kinds.items():
        for row in tables[name]:
            floor = cost_of(row).floor_ms(rates, weight_bytes)
            row["floor_ms"], row["times_floor"] = round(floor, 3), round(row[column] / floor, 2)


def _layers(decoder: DecoderConfig, rows: int, context: float) -> OperationCost:
    """Return the cost of one pass through all layers for rows with `context` positions."""
    cache_values = 2 * decoder.num_hidden_layers * decoder.num_key_value_heads * decoder.head_dim
    attended = 4 * decoder.num_hidden_layers * decoder.num_attention_heads * decoder.head_dim * context
    weights = weights_of(decoder)
    return OperationCost(weights, rows * context * cache_values, rows * (2 * weights + attended))


def _head(decoder: DecoderConfig, rows: int) -> OperationCost:
    weights = decoder.vocab_size * decoder.hidden_size
    return OperationCost(weights, 0, 2 * rows * weights)
