"""Run the studio like app.py, with a runtime that generates audio instantly."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import studio.server
from studio.__main__ import main
from studio.runtimes.supervisor import ChildRuntime

COMMAND = ("tests.support.instant_runtime", "runtime")


class InstantRuntime(ChildRuntime):
    """Child process of the runtime that runs the instant runtime instead."""

    def __init__(self, args: Sequence[str], command: Sequence[str] = COMMAND, drain_s: float = 0.0) -> None:
        super().__init__(args, command, drain_s)


if __name__ == "__main__":
    vars(studio.server)["ChildRuntime"] = InstantRuntime
    sys.exit(main())
