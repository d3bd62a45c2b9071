"""Memory estimates for checkpoints, and the number of slots that fit.

All sizes are in bytes of device memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from runtime.device import Device
from runtime.device.cpu import CpuDevice
from runtime.device.fused import FP8
from runtime.device.open_device import choose_code2wav_dtype
from runtime.device.quantized import Quantization, quantized_bytes
from runtime.engine.capacity.probe import Weights
from runtime.errors import CheckpointTooLarge, DeviceMemory
from runtime.model.checkpoints.checkpoint import DECODER, ENCODER, TALKER, have_same_contents
from runtime.model.checkpoints.inspection import Inspection
from runtime.model.checkpoints.weights import is_exact, is_mapped
from runtime.model.code2wav import Code2Wav
from runtime.model.config import ModelConfig
from runtime.model.products import Linear, MappedEmbedding, low_precision_modules
from runtime.settings import EngineSettings

# Torch dtypes by their name in safetensors files.
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
GIB = 2**30
CPU_SLOTS = 8
MAX_SLOTS = 64  # Default maximum number of slots. A larger number would not reduce the time to first audio.
# Memory in bytes that a runtime process on a CPU needs in addition to the weights: torch and one frame's activations.
PROCESS_BYTES = 2**30
# GPU memory in bytes that a process needs in addition to its tensors, for the CUDA context, kernels and modules.
CONTEXT_BYTES = 900 * 2**20
# GPU memory in bytes that is reserved for graphs, prompts, voices, and the largest Code2Wav call.
RESERVE_BYTES = 2 * 2**30
GRAPH_BYTES = RESERVE_BYTES // 2  # Part of the reserved memory that stays allocated while a checkpoint is served.


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Device memory that this process may use.

    On a GPU, the budget is the fraction of the total memory in the settings. On a CPU, it is the total memory.
    """

    device: str
    settings: EngineSettings
    on_cpu: bool
    may_have: int
    free: int  # Number of bytes that are free now.

    @classmethod
    def of(cls, device: Device, settings: EngineSettings) -> MemoryBudget:
        on_cpu = device.torch_device.type == "cpu"
        total, free = device.total_bytes(), device.free_bytes()
        may_have = total if on_cpu else int(settings.memory_share * total)
        return cls(device.name, settings, on_cpu, may_have, free - (total - may_have))

    @property
    def max_slots(self) -> int:
        """Return the default maximum number of slots."""
        return CPU_SLOTS if self.on_cpu else MAX_SLOTS

    def slots_in(self, size: float, slot: int) -> int:
        """Return the number of slots to allocate in `size` bytes, where a slot has `slot` bytes.

        The number is the setting `max_slots` or, without this setting, the number that fits, up to the default maximum.
        The result is 0 if this number of slots does not fit.
        """
        fitting = int(size // slot)
        wanted = self.settings.max_slots or min(max(fitting, 1), self.max_slots)
        return wanted if wanted <= fitting else 0


def slots_for(device: Device, settings: EngineSettings, slot: int, unready: int = 1, kept_bytes: int = 0) -> int:
    """Return the number of slots for a checkpoint whose weights are on the device.

    Each of the `unready` checkpoints gets an equal part of the free memory without `kept_bytes`. On a CPU, the number
    in the settings is used even if the memory is not free now, because other processes may release memory. The result
    is at least 1.

    Args:
        slot: Size of one slot in bytes.
        unready: Number of checkpoints that have no slots yet, including this checkpoint.
        kept_bytes: Number of bytes to reserve for the other checkpoints that have no slots yet.

    Raises:
        DeviceMemory: The number of slots in the settings does not fit, or no slot fits.
    """
    budget = MemoryBudget.of(device, settings)
    left, least = budget.free - (0 if budget.on_cpu else RESERVE_BYTES), settings.max_slots or 1
    if not budget.on_cpu and not budget.slots_in(left, slot):
        total, free = device.total_bytes(), device.free_bytes()
        raise DeviceMemory(
            slots=least,
            need=round(least * slot / GIB, 2),
            free=round(free / GIB, 2),
            kept=round((total - budget.may_have) / GIB, 2),
            reserve=round(RESERVE_BYTES / GIB, 2),
        )
    return settings.max_slots or max(1, budget.slots_in((left - kept_bytes) / unready, slot))


def slot_bytes(config: ModelConfig, code2wav: Code2Wav, settings: EngineSettings, element: int) -> int:
    """Return the size of one slot in bytes: KV cache, other slot state, and Code2Wav stream.

    Args:
        element: Bytes per element in the talker and code predictor.
    """
    talker, predictor = config.talker, config.predictor
    length = min(settings.max_model_len, talker.max_position_embeddings)
    keys = 2 * talker.num_hidden_layers * talker.num_key_value_heads * (length + 1) * talker.head_dim
    inner = (
        2 * predictor.num_hidden_layers * predictor.num_key_value_heads * talker.num_code_groups * predictor.head_dim
    )
    row = 8 * length + talker.vocab_size
    audio = sum(part.nbytes for part in code2wav.fresh_state(1).tensors())
    cached = FP8.itemsize if settings.kv_cache == "fp8" else element
    return keys * cached + (inner + talker.hidden_size) * element + row + audio


@dataclass(frozen=True, slots=True)
class MemoryRequirement:
    """Memory of several checkpoints: a constant number of bytes, and bytes per slot."""

    once: int  # Bytes of memory that do not depend on the number of slots: weights, process and graphs.
    slot: int

    @classmethod
    def of(cls, budget: MemoryBudget, *checkpoints: tuple[Inspection, Weights]) -> MemoryRequirement:
        """Estimate the device memory of inspected checkpoints.

        A speech tokenizer that several checkpoints share is counted once. The speech encoder is always included,
        because it is loaded if a Base checkpoint is added later.
        """
        once, slot = PROCESS_BYTES if budget.on_cpu else CONTEXT_BYTES + RESERVE_BYTES, 0
        tokenizers: list[Sequence[Path]] = []
        for inspection, weights in checkpoints:
            files, code2wav = inspection.speech_files, inspection.networks[DECODER]
            is_shared = any(have_same_contents(files, others) for others in tokenizers)
            tokenizers.append(files)
            for prefix, network in inspection.networks.items():
                if not (is_shared and prefix in (DECODER, ENCODER)):
                    once += _network_bytes(inspection, prefix, network, weights, budget)
            assert inspection.config is not None
            assert isinstance(code2wav, Code2Wav)
            slot += slot_bytes(inspection.config, code2wav, budget.settings, weights[0].itemsize)
        return cls(once, slot)

    def with_slots(self, slots: int) -> int:
        return self.once + slots * self.slot

    def slots_in(self, budget: MemoryBudget) -> int:
        """Return the number of slots per checkpoint if no other process uses the device.

        The number is 0 if the checkpoints do not fit.
        """
        return budget.slots_in(budget.may_have - self.once, self.slot)

    def require(self, name: str, budget: MemoryBudget) -> None:
        """Raise an error if the checkpoints do not fit on a device without other processes.

        Raises:
            CheckpointTooLarge: The number of slots in the settings does not fit, or no slot fits.
        """
        if not self.slots_in(budget):
            need = round(self.with_slots(budget.settings.max_slots or 1) / GIB, 2)
            raise CheckpointTooLarge(name=name, need=need, have=round(budget.may_have / GIB, 2), device=budget.device)


def tensor_bytes(network: nn.Module, element: int, quantization: Quantization | None = None) -> int:
    """Return the size of a network's tensors in bytes.

    Args:
        element: Bytes per floating-point number.
        quantization: Quantization of the linear layers, or None.
    """
    tensors: dict[str, torch.Tensor] = network.state_dict(keep_vars=True)
    rounded = 0
    if quantization is not None:
        for name, module in network.named_modules():
            if isinstance(module, Linear):
                outputs, inputs = tensors.pop(f"{name}.weight").shape
                rounded += quantized_bytes(outputs, inputs, quantization)
    return rounded + sum(
        tensor.numel() * (element if tensor.is_floating_point() else tensor.itemsize) for tensor in tensors.values()
    )


def _network_bytes(
    inspection: Inspection, prefix: str, network: nn.Module, weights: Weights, budget: MemoryBudget
) -> int:
    """Return the memory of a network in bytes.

    On a CPU, some tables are memory-mapped, and some weights are stored in a narrower dtype.
    """
    dtype, quantization = weights
    if prefix == TALKER:
        return tensor_bytes(network, dtype.itemsize, quantization) - budget.on_cpu * _table_savings(
            inspection, network, dtype
        )
    used_bytes = tensor_bytes(network, torch.float32.itemsize)
    if prefix == DECODER and budget.on_cpu:
        code2wav_dtype = choose_code2wav_dtype(budget.settings.sound_dtype, CpuDevice(), dtype, quantization)
        products = sum(
            network.get_parameter(f"{name}.weight").numel() for name in low_precision_modules(network, code2wav_dtype)
        )
        used_bytes -= (torch.float32.itemsize - code2wav_dtype.itemsize) * products
    return used_bytes


def _table_savings(inspection: Inspection, talker: nn.Module, dtype: torch.dtype) -> int:
    """Return the bytes that a CPU saves compared with embedding tables in `dtype`.

    A table without a known header is assumed to be bfloat16.
    """
    saved = 0
    for name, module in talker.named_modules():
        if isinstance(module, MappedEmbedding):
            rows = module.weight.to(FLOATS[inspection.types.get(f"{TALKER}{name}.weight", "BF16")])
            if is_exact(rows.dtype, dtype):
                saved += dtype.itemsize * rows.numel() - (0 if is_mapped(rows, dtype) else rows.nbytes)
    return saved
