"""Computes what cards of a size hold: slots of each published size by how many of its modes are loaded.

`python -m benchmarks.cards` prints the table of docs/performance.md. It is the engine's own reckoning
(runtime/engine/memory.py) over networks without memory, in bfloat16 and with weights of eight bits; nothing is
measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.layout.files import GENERATION, model_config, speech_tokenizer_config
from benchmarks.layout.published import PUBLISHED
from runtime.device.quantized import Quantization
from runtime.engine.memory import MemoryNeed, MemoryRoom
from runtime.model.inspection import inspect_folder
from runtime.settings import EngineSettings

GB = 10**9
CARDS = (24, 16, 12, 8)  # GB
MODES = ("custom_voice", "base", "voice_design")


def slots(size: str, modes: int, card: int, settings: EngineSettings, kind: Quantization | None = None) -> int:
    """Slots of each checkpoint, so many modes of a size loaded together; 0: they do not fit.

    Args:
        card: bytes of its memory, all of it free.
        kind: bits of the weights; None: bfloat16.
    """
    spec = PUBLISHED[size]
    with tempfile.TemporaryDirectory() as place:
        found = []
        for mode in MODES[:modes]:
            folder = Path(place) / mode
            sound = folder / "speech_tokenizer"
            sound.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps(model_config(spec, mode)), encoding="utf-8")
            (folder / "generation_config.json").write_text(json.dumps(GENERATION), encoding="utf-8")
            (sound / "config.json").write_text(json.dumps(speech_tokenizer_config(spec)), encoding="utf-8")
            (sound / "model.safetensors").touch()  # the same in all, and so shared
            found.append(inspect_folder(folder))
        may_have = int(settings.memory_share * card)
        room = MemoryRoom("cuda", on_cpu=False, may_have=may_have, free=may_have)
        need = MemoryNeed.of(found, room, settings, [(torch.bfloat16, kind)] * modes)
    return need.slots_in(room, settings)


def main() -> int:
    """Print the table."""
    settings = EngineSettings()
    cases = [(size, modes) for size in ("0.6B", "1.7B") for modes in (1, 2, 3) if not (size == "0.6B" and modes == 3)]
    print("| card | " + " | ".join(f"{size}, {modes} mode{'s' * (modes > 1)}" for size, modes in cases) + " |")
    print("|---" * (len(cases) + 1) + "|")
    for card in CARDS:
        held = [_cell(size, modes, card * GB, settings) for size, modes in cases]
        print(f"| {card} GB | " + " | ".join(held) + " |")
    return 0


def _cell(size: str, modes: int, card: int, settings: EngineSettings) -> str:
    counts = [slots(size, modes, card, settings, kind) for kind in (None, Quantization.INT8)]
    return " / ".join(str(count) if count else "-" for count in counts)


if __name__ == "__main__":
    sys.exit(main())
