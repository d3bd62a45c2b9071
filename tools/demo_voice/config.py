"""The values of config.toml, which every stage reads."""

from __future__ import annotations

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
CONFIG = tomllib.loads((HERE / "config.toml").read_text())
