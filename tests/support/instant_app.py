"""Runs the studio as app.py does, with a runtime of its own that makes its sound at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import studio.server
from studio.__main__ import main
from studio.runtimes.supervisor import ChildRuntime

COMMAND = ("tests.support.instant_runtime", "runtime")


class InstantRuntime(ChildRuntime):
    """A child of another command; to the studio it is as its own."""

    def __init__(self, args: Sequence[str], command: Sequence[str] = COMMAND, drain_s: float = 0.0) -> None:
        super().__init__(args, command, drain_s)


if __name__ == "__main__":
    vars(studio.server)["ChildRuntime"] = InstantRuntime
    sys.exit(main())
