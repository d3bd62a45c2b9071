"""Reckons what checkpoints would take of the device's memory, and says what there is of it. Bytes are the device's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from runtime.device import Device
from runtime.device.cpu import CpuDevice
from runtime.device.open_device import choose_sound_dtype
from runtime.device.quantized import Quantization, quantized_bytes
from runtime.engine.frame_shape import Weights
from runtime.engine.sizing import CPU_SLOTS, GIB, MOST_SLOTS, RESERVE, slot_bytes
from runtime.errors import CheckpointTooLarge
from runtime.model.checkpoint import DECODER, ENCODER, TALKER, are_same
from runtime.model.code2wav import Code2Wav
from runtime.model.inspection import Inspection
from runtime.model.products import Linear, Table, narrowed_names
from runtime.model.weights import lies
from runtime.settings import EngineSettings

FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}  # of safetensors
PROCESS = 2**30  # bytes of a runtime process on a CPU beside its weights: torch, and what a frame computes
CONTEXT = 900 * 2**20  # bytes that a process takes of a card beside its tensors: CUDA's context, kernels, modules


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    """A device's memory, as far as this process may have it."""

    device: str
    on_cpu: bool
    may_have: int
    free: int  # of that, now

    @classmethod
    def of(cls, device: Device, settings: EngineSettings) -> MemoryRoom:
        """On a card the setting says what share; on a CPU it may have all."""
        on_cpu = device.torch_device.type == "cpu"
        total, free = memory_of(device)
        may_have = total if on_cpu else int(settings.memory_share * total)
        return cls(device.name, on_cpu, may_have, free - (total - may_have))

    @property
    def most_slots(self) -> int:
        """Slots of a checkpoint that are taken unasked, where there is room."""
        return CPU_SLOTS if self.on_cpu else MOST_SLOTS


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What checkpoints take together: once, and for each slot."""

    once: int  # weights, and what the process or its graphs need beside them
    slot: int  # of each of them

    @classmethod
    def of(
        cls,
        found: Sequence[Inspection],
        room: MemoryRoom,
        settings: EngineSettings,
        weights: Sequence[Weights],
    ) -> MemoryNeed:
        """What inspected checkpoints without problems take, those that ship the same speech tokenizer share it.

        Args:
            weights: dtype and bits of talker and code predictor of each of those found.
        """
        taken = sum(_bytes_here(*loaded, settings, on_cpu=room.on_cpu) for loaded in _networks(found, weights))
        kinds = zip(found, weights, strict=True)
        slots = sum(_slot_bytes(inspection, settings, dtype) for inspection, (dtype, _) in kinds)
        return cls(taken + (PROCESS if room.on_cpu else CONTEXT + RESERVE), slots)

    def with_slots(self, slots: int) -> int:
        return self.once + slots * self.slot

    def slots_in(self, room: MemoryRoom, settings: EngineSettings) -> int:
        """Slots of each that would be taken; 0 where not even those that are asked for fit, or one."""
        fitting = (room.may_have - self.once) // self.slot
        wanted = settings.max_slots or min(max(fitting, 1), room.most_slots)
        return wanted if wanted <= fitting else 0

    def require(self, name: str, room: MemoryRoom, settings: EngineSettings) -> None:
        """Refuse what does not fit, whatever else the device holds now.

        Raises:
            CheckpointTooLarge: the slots that are asked for do not fit, or not one.
        """
        if not self.slots_in(room, settings):
            need = round(self.with_slots(settings.max_slots or 1) / GIB, 2)
            raise CheckpointTooLarge(name=name, need=need, have=round(room.may_have / GIB, 2), device=room.device)


def _networks(
    found: Sequence[Inspection], weights: Sequence[Weights]
) -> Iterator[tuple[Inspection, str, nn.Module, Weights]]:
    """Every network that would be loaded, with its checkpoint, the prefix of its keys and the weights of both."""
    sounds: list[Sequence[Path]] = []
    for inspection, kind in zip(found, weights, strict=True):
        files = inspection.speech_files
        is_shared = any(are_same(files, others) for others in sounds)
        sounds.append(files)
        for prefix, network in inspection.networks.items():
            if not (is_shared and prefix in (DECODER, ENCODER)):
                yield inspection, prefix, network, kind


def _bytes_of(network: nn.Module, element: int, quantization: Quantization | None = None) -> int:
    """The bytes of a network's numbers, ``element`` each but for whole numbers and products of fewer bits."""
    tensors: dict[str, torch.Tensor] = network.state_dict(keep_vars=True)
    fewer = 0
    if quantization is not None:
        for name, module in network.named_modules():
            if isinstance(module, Linear):
                outputs, inputs = tensors.pop(f"{name}.weight").shape
                fewer += quantized_bytes(outputs, inputs, quantization)
    return fewer + sum(
        tensor.numel() * (element if tensor.is_floating_point() else tensor.itemsize) for tensor in tensors.values()
    )


def _bytes_here(
    inspection: Inspection,
    prefix: str,
    network: nn.Module,
    weights: Weights,
    settings: EngineSettings,
    *,
    on_cpu: bool,
) -> int:
    """The memory that a network of a checkpoint takes; on a CPU without tables that stay in their file."""
    dtype, quantization = weights
    if prefix == TALKER:
        return _bytes_of(network, dtype.itemsize, quantization) - on_cpu * _lying(inspection, network, dtype)
    taken = _bytes_of(network, torch.float32.itemsize)
    if prefix == DECODER and on_cpu:
        sound = choose_sound_dtype(settings.sound_dtype, CpuDevice(), dtype, quantization)
        products = sum(network.get_parameter(f"{name}.weight").numel() for name in narrowed_names(network, sound))
        taken -= (torch.float32.itemsize - sound.itemsize) * products
    return taken


def _lying(inspection: Inspection, talker: nn.Module, dtype: torch.dtype) -> int:
    """The bytes, of those that `_bytes_of` counts, of tables that stay in their file; one not read yet is bfloat16."""
    return sum(
        dtype.itemsize * module.weight.numel()
        for name, module in talker.named_modules()
        if isinstance(module, Table)
        and lies(module.weight.to(FLOATS[inspection.types.get(f"{TALKER}{name}.weight", "BF16")]), dtype)
    )


def _slot_bytes(inspection: Inspection, settings: EngineSettings, dtype: torch.dtype) -> int:
    code2wav = inspection.networks[DECODER]
    assert inspection.config is not None
    assert isinstance(code2wav, Code2Wav)
    length = min(settings.max_model_len, inspection.config.talker.max_position_embeddings)
    return slot_bytes(inspection.config, code2wav, length, dtype.itemsize)


def memory_of(device: Device) -> tuple[int, int]:
    """All of the device's memory, and what is free of it."""
    total, free = device.total_bytes(), device.free_bytes()
    if device.torch_device.type != "cpu":
        return total, free
    # What files occupy in memory is given back when it is asked for, and so counts as free.
    for line in _lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            free = 1024 * int(rest.split()[0])
    # A container may be allowed less than the machine has.
    most, used = (" ".join(_lines(f"/sys/fs/cgroup/memory.{name}")) for name in ("max", "current"))
    if most.isdecimal() and used.isdecimal() and int(most) < total:
        return int(most), min(free, int(most) - int(used) + files_in(_lines("/sys/fs/cgroup/memory.stat")))
    return total, free


def files_in(stat: Sequence[str]) -> int:
    """Bytes of files that a container has in memory, by its ``memory.stat``, and that are given back on demand.

    What is shared between processes or lies in a file system of memory (Ray's objects do) counts as files there, and
    is never given back.
    """
    counts = dict(line.split(maxsplit=1) for line in stat)
    return max(0, int(counts.get("file", 0)) - int(counts.get("shmem", 0)))


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []
