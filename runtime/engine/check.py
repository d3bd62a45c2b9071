"""Checks checkpoints before they are loaded: configurations, tokenizers, names and shapes of weights, and memory.

It is the loading itself on a device without memory, so that only the headers of the weights are read. Nothing that
runs is touched. ``voicewright runtime --check`` prints what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from runtime.device import Device, open_device
from runtime.device.open_device import choose_dtype
from runtime.engine.registry import Registry
from runtime.engine.sizing import CPU_SLOTS, GIB, MOST_SLOTS, RESERVE, slot_bytes
from runtime.errors import CheckpointTooLarge
from runtime.model.checkpoint import Checkpoint, load_checkpoint
from runtime.settings import EngineSettings, Settings

PROCESS = 2**30  # bytes of a runtime process on a CPU beside its weights: torch, and what a frame computes


@dataclass(frozen=True, slots=True)
class Checked:
    """Checkpoints that can be loaded. Bytes are the device's."""

    names: tuple[str, ...]
    modes: tuple[str, ...]
    need: int  # of weights and of all the slots that would be taken
    free: int  # of which this process may have, now

    @property
    def fits_beside(self) -> bool:
        """Whether they fit beside what the device holds already, with all their slots."""
        return self.need <= self.free


def check(settings: Settings) -> Checked:
    """Check what the settings name. Takes seconds, and a download where a Hub id is not here yet.

    Raises:
        SetUpError: it could not be loaded; the sentence says why.
    """
    device = open_device(settings.engine.device, eager=True)
    dtype = choose_dtype(settings.engine.dtype, device)
    registry = Registry.read(settings.models)
    checkpoints: list[Checkpoint] = []
    for entry in registry.entries:
        checkpoints.append(load_checkpoint(entry.reference, torch.device("meta"), dtype, checkpoints))
    names = tuple(entry.name for entry in registry.entries)
    weights = sum(map(_bytes_of, {network for checkpoint in checkpoints for network in _networks(checkpoint)}))
    on_cpu = device.torch_device.type == "cpu"
    beside = PROCESS if on_cpu else RESERVE
    least, most = (
        weights + beside + sum(slots * _slot_bytes(checkpoint, settings.engine, dtype) for checkpoint in checkpoints)
        for slots in (
            settings.engine.max_slots or 1,
            settings.engine.max_slots or (CPU_SLOTS if on_cpu else MOST_SLOTS),
        )
    )
    total, free = memory_of(device)
    may_have = total if on_cpu else int(settings.engine.memory_share * total)
    if least > may_have:
        raise CheckpointTooLarge(
            name=", ".join(names), need=round(least / GIB, 2), have=round(may_have / GIB, 2), device=device.name
        )
    return Checked(names, registry.modes, most, free - (total - may_have))


def _networks(checkpoint: Checkpoint) -> Iterator[nn.Module]:
    yield checkpoint.talker
    if checkpoint.speaker_encoder is not None:
        yield checkpoint.speaker_encoder
    yield checkpoint.speech_tokenizer.code2wav
    yield checkpoint.speech_tokenizer.encoder


def _bytes_of(network: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in network.state_dict().values())


def _slot_bytes(checkpoint: Checkpoint, settings: EngineSettings, dtype: torch.dtype) -> int:
    length = min(settings.max_model_len, checkpoint.config.talker.max_position_embeddings)
    return slot_bytes(checkpoint, length, dtype.itemsize)


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
        files = sum(int(line.split()[1]) for line in _lines("/sys/fs/cgroup/memory.stat") if line.startswith("file "))
        return int(most), min(free, int(most) - int(used) + files)
    return total, free


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []
