"""The values of config.toml, which every stage reads."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1]))  # Networks and prompts are the runtime's.
CONFIG = tomllib.loads((HERE / "config.toml").read_text())
