"""Configuration of the embedded voice, and folders of the files, for all stages."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
# Root of the checkout, whose runtime modules are imported. This folder may have been copied to any place in a checkout.
ROOT = next(folder for folder in HERE.parents if (folder / "runtime" / "engine").is_dir())
sys.path.append(str(ROOT))
CONFIG, PHRASES = (tomllib.loads((HERE / f"{name}.toml").read_text()) for name in ("config", "phrases"))
DEBS, WORK = HERE / "debs", HERE / "work"
VOICE = ROOT / "assets" / "demo-voice"  # Shipped voice. The sizes of its networks are in its config.json files.
