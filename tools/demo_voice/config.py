"""Configuration of the embedded voice for all stages, from config.toml and phrases.toml."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
# The stages import modules of the runtime. This folder may have been copied to any place in a checkout.
ROOT = next(folder for folder in HERE.parents if (folder / "runtime" / "engine").is_dir())
sys.path.append(str(ROOT))
CONFIG, PHRASES = (tomllib.loads((HERE / f"{name}.toml").read_text()) for name in ("config", "phrases"))
WORK = HERE / CONFIG["paths"]["work"]
VOICE = ROOT / "assets" / "demo-voice"
