"""Checks checkpoints before they are loaded: what loading would refuse, and whether there is memory.

Only the headers of the weights are read (runtime/model/inspection.py), and nothing that runs is touched. ``voicewright
runtime --check`` prints what comes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.device import open_device
from runtime.engine.memory import MemoryNeed, MemoryRoom
from runtime.engine.registry import Registry
from runtime.engine.weight_bits import WeightBits
from runtime.model.checkpoint import resolve
from runtime.model.inspection import inspect_folder
from runtime.settings import Settings


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
    engine = settings.engine
    device = open_device(engine.device, eager=True)
    registry = Registry.read(settings.models)
    found = [inspect_folder(resolve(entry.reference)) for entry in registry.entries]
    for inspection in found:
        inspection.require()
    names, room = tuple(entry.name for entry in registry.entries), MemoryRoom.of(device, engine)
    bits = WeightBits(engine, device)
    pairs = zip(registry.entries, found, strict=True)
    chosen = [bits.of(entry.config, entry.name, inspection.types.values()) for entry, inspection in pairs]
    need = MemoryNeed.of(found, room, engine, chosen)
    need.require(", ".join(names), room, engine)
    return Checked(names, registry.modes, need.with_slots(engine.max_slots or room.most_slots), room.free)
