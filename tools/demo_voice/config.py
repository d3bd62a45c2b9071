"""Configuration of the embedded voice from config.toml, for all stages of the training."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
# The stages import modules of the runtime. This folder may have been copied to any place in a checkout.
sys.path.append(str(next(folder for folder in HERE.parents if (folder / "runtime" / "engine").is_dir())))
CONFIG = tomllib.loads((HERE / "config.toml").read_text())
