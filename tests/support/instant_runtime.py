"""Run `python -m runtime.cli` with an engine that generates audio instantly."""

from __future__ import annotations

import os
import sys

from runtime.cli import main
from runtime.engine import engine
from tests.support.instant_engine import InstantEngine

if __name__ == "__main__":
    # The engine is replaced in this process, so it must not run in another one.
    os.environ.setdefault("VOICEWRIGHT_ENGINE_PROCESS", "shared")
    engine.Engine = InstantEngine  # type: ignore[misc, assignment]
    sys.exit(main())
