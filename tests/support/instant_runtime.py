"""The runtime's process with an engine whose sound is there at once; as `python -m runtime.cli` in all else."""

from __future__ import annotations

import sys

from runtime.cli import main
from runtime.engine import engine
from tests.support.instant_engine import InstantEngine

if __name__ == "__main__":
    engine.Engine = InstantEngine  # type: ignore[misc, assignment]
    sys.exit(main())
