"""Tests for the number of slots that fit into the memory of a device."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.device import Device, cpu, open_device
from runtime.device.cpu import CpuDevice
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.capacity import memory
from runtime.engine.capacity.memory import CPU_SLOTS, GIB, GRAPH_BYTES, MAX_SLOTS, RESERVE_BYTES, slots_for
from runtime.engine.engine import Engine
from runtime.engine.execution.model_runner import ModelRunner
from runtime.engine.loading import loader
from runtime.engine.loading.loader import _expected_bytes
from runtime.engine.loading.registry import RegistryEntry
from runtime.errors import DeviceMemory
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.settings import EngineSettings, Settings
from tests.conftest import FolderOf
from tests.support.engines import engine_of

LENGTH, FLOAT32 = 256, 4


@dataclass
class Card:
    """Fake GPU with this free and total memory in bytes."""

    free: float
    total: float = 100 * GIB
    torch_device: torch.device = field(default_factory=lambda: torch.device("meta"))
    name: str = "card"

    def free_bytes(self) -> int:
        return int(self.free)

    def total_bytes(self) -> int:
        return int(self.total)


def slots(checkpoint: Checkpoint, card: object, to_come: int = 1, kept_bytes: int = 0, **settings: float) -> int:
    words = {"memory_share": 0.9, "max_model_len": LENGTH, **settings}
    engine = EngineSettings(**words)  # type: ignore[arg-type]
    assert hasattr(card, "torch_device")
    device: Device = card  # type: ignore[assignment]
    return slots_for(device, engine, slot_bytes(checkpoint), to_come, kept_bytes)


def slot_bytes(checkpoint: Checkpoint, kv_cache: str = "auto") -> int:
    code2wav, settings = checkpoint.speech_tokenizer.code2wav, EngineSettings(max_model_len=LENGTH, kv_cache=kv_cache)
    return memory.slot_bytes(checkpoint.config, code2wav, settings, FLOAT32)


def card_for(checkpoint: Checkpoint, count: float) -> Card:
    """Return a fake GPU whose free memory is sufficient for this number of slots."""
    return Card(0.1 * 100 * GIB + RESERVE_BYTES + count * slot_bytes(checkpoint))


@pytest.mark.parametrize(("kv_cache", "cache_dtype"), [("auto", torch.float32), ("fp8", torch.float8_e4m3fn)])
def test_slot_size_equals_the_size_of_its_tensors(speaker: Checkpoint, kv_cache: str, cache_dtype: torch.dtype) -> None:
    def held(count: int) -> int:
        runner = ModelRunner(speaker, CpuDevice(), torch.float32, count, LENGTH, 16, cache_dtype=cache_dtype)
        slot_cache, frame = runner.slot_cache, runner.frame
        parts = [*slot_cache.keys, *slot_cache.values, slot_cache.trailing, slot_cache.seen, frame.hidden]
        parts += [part for cache in (frame.cache, frame.first_frame_cache) for part in (cache.keys, cache.values)]
        streams = Code2WavStreams(speaker.speech_tokenizer.code2wav, count)
        parts += streams.network.state.tensors()  # type: ignore[attr-defined]
        return sum(part.nbytes for part in parts)

    assert held(4) - held(3) == slot_bytes(speaker, kv_cache)


def test_gpu_gets_as_many_slots_as_fit_up_to_the_maximum(speaker: Checkpoint) -> None:
    assert slots(speaker, card_for(speaker, 5.5)) == 5
    assert slots(speaker, card_for(speaker, 1.0)) == 1
    assert slots(speaker, card_for(speaker, 500.0)) == MAX_SLOTS


def test_first_of_two_checkpoints_gets_half_of_the_slots(speaker: Checkpoint) -> None:
    assert slots(speaker, card_for(speaker, 10.5), to_come=2) == 5


def test_first_of_two_checkpoints_reserves_the_fixed_memory_of_the_second(speaker: Checkpoint) -> None:
    each = slot_bytes(speaker)
    assert slots(speaker, card_for(speaker, 10.5), to_come=2, kept_bytes=4 * each) == 3
    # Every checkpoint gets at least one slot.
    assert slots(speaker, card_for(speaker, 10.5), to_come=2, kept_bytes=20 * each) == 1


def test_memory_of_later_checkpoints_is_estimated_from_file_sizes(folder_of: FolderOf, tmp_path: Path) -> None:
    entries = [RegistryEntry.read(str(folder_of(*words))) for words in (("tiny", "custom_voice"), ("brief", "base"))]
    first, second = entries
    sizes = [(entry.source.folder / "model.safetensors").stat().st_size for entry in entries]
    assert sizes[0] != sizes[1]
    expected = round(1000 * sizes[1] / sizes[0]) + GRAPH_BYTES
    assert _expected_bytes([second], first, 1000) == expected
    assert _expected_bytes([second, second], first, 1000) == 2 * expected
    assert _expected_bytes([], first, 1000) == 0
    gone = shutil.copytree(second.source.folder, tmp_path / "gone")
    third = RegistryEntry.read(str(gone))
    (gone / "model.safetensors").unlink()
    # A missing file is not an error of the estimate. Loading the checkpoint reports it.
    assert _expected_bytes([third], first, 1000) == GRAPH_BYTES


def test_gpu_reserves_memory_for_later_checkpoints(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def noting(*args: Any) -> int:
        seen.append(args[-2:])
        return 1

    monkeypatch.setattr(loader, "slots_for", noting)
    folders = [str(folder_of("tiny", mode)) for mode in ("custom_voice", "voice_design")]
    engine = Engine.open(Settings(models=tuple(folders), engine=EngineSettings(device="cpu", max_model_len=256)))
    engine.close()
    (first_to_come, kept), last = seen
    assert first_to_come == 2
    assert kept >= GRAPH_BYTES
    assert last == (1, 0)


def test_requested_slots_are_allocated_or_refused_with_the_required_bytes(speaker: Checkpoint) -> None:
    assert slots(speaker, card_for(speaker, 5.5), max_slots=3) == 3
    with pytest.raises(
        DeviceMemory, match=r"6 slots need .* GiB\. Of the .* GiB that are free .*, 10\.0 must stay free"
    ):
        slots(speaker, card_for(speaker, 5.5), max_slots=6)


def test_gpu_without_space_for_one_slot_is_refused(speaker: Checkpoint) -> None:
    with pytest.raises(DeviceMemory, match="1 slots need"):
        slots(speaker, card_for(speaker, 0.9))


def test_cpu_limits_the_default_slots_by_memory_and_never_the_requested_slots(
    speaker: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, each = open_device("cpu"), slot_bytes(speaker)
    assert slots(speaker, device) == CPU_SLOTS
    assert slots(speaker, device, max_slots=200) == 200
    monkeypatch.setattr(cpu, "memory_bytes", lambda: (100 * each, 3 * each))
    assert slots(speaker, device) == 3
    monkeypatch.setattr(cpu, "memory_bytes", lambda: (100 * each, 0))
    assert (slots(speaker, device), slots(speaker, device, max_slots=5)) == (1, 5)


@pytest.mark.parametrize("asked", [0, 3])
def test_measured_and_estimated_bytes_give_the_same_slots(asked: int) -> None:
    """The number of slots must be equal before and after the checkpoint is loaded."""
    for count in (0.9, 1.0, 4.2, 90.0):
        card = Card(100 * GIB)
        settings = EngineSettings(memory_share=1.0, max_slots=asked)
        room = memory.MemoryBudget.of(card, settings)  # type: ignore[arg-type]
        each = 10**6
        need = memory.MemoryRequirement(room.may_have - int(count * each), each)
        card.free = count * each + RESERVE_BYTES
        try:
            measured = slots_for(card, settings, each)  # type: ignore[arg-type]
        except DeviceMemory:
            measured = 0
        assert measured == need.slots_in(room)


def test_engine_and_model_cards_report_the_actual_number_of_slots(speaker: Checkpoint) -> None:
    engine = engine_of(speaker, slots=0)
    assert engine.load().slots == CPU_SLOTS
    assert [card.slots for card in engine.cards] == [CPU_SLOTS]
