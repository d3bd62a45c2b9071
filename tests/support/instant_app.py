"""Runs the studio as app.py does, with a runtime of its own that makes its sound at once."""

from __future__ import annotations

import sys
from functools import partial

import studio.server
from studio.__main__ import main
from studio.supervisor import ChildRuntime

COMMAND = ("tests.support.instant_runtime", "runtime")

if __name__ == "__main__":
    vars(studio.server)["ChildRuntime"] = partial(ChildRuntime, command=COMMAND)
    sys.exit(main())
