"""Launcher of `python -m runtime.cli` with an engine that generates audio instantly."""

from __future__ import annotations

import os
import sys

from runtime.cli import main
from runtime.engine import engine
from tests.support.instant_engine import InstantEngine

if __name__ == "__main__":
    # The engine class is patched in this process, so the engine must not run in another process.
    os.environ.setdefault("VOICEWRIGHT_ENGINE_PROCESS", "shared")
    engine.Engine = InstantEngine  # type: ignore[misc, assignment]
    sys.exit(main())
