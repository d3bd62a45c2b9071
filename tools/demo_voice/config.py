"""Reads config.toml, and over it the file of differences that DEMO_VOICE_DESIGN names: a design on trial."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def _over(base: dict, changes: dict) -> dict:
    """Return `base` with the values of `changes`, table by table."""
    tables = {k: _over(base.get(k, {}), v) for k, v in changes.items() if isinstance(v, dict)}
    return {**base, **changes, **tables}


CONFIG = tomllib.loads((HERE / "config.toml").read_text())
if design := os.environ.get("DEMO_VOICE_DESIGN"):
    CONFIG = _over(CONFIG, tomllib.loads(Path(design).read_text()))
