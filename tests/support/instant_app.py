"""The studio as app.py starts it, but for the runtime that it owns: that one's sound is there at once."""

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
