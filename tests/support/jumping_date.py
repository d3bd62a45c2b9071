"""Run app.py and its runtime with a system date that a test can change.

The offset of the date is read from a file. `python -m tests.support.jumping_date` is the studio, and with the argument
`runtime` the runtime. We do not use libfaketime, because `time.sleep` of Python 3.11 does not work with its version
0.9.10.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FILE = "VOICEWRIGHT_TEST_DATE"  # The variable with the path of a file that has the clock's offset in seconds.
COMMAND = ("tests.support.jumping_date", "runtime")


def move(file: Path, seconds: float) -> None:
    """Set the clock's offset atomically."""
    aside = file.with_suffix(".new")
    aside.write_text(str(seconds))
    aside.replace(file)


def follow(file: Path) -> None:
    """Add the offset in the file to the date of this process."""
    date, date_ns = time.time, time.time_ns
    vars(time)["time"] = lambda: date() + float(file.read_text())
    vars(time)["time_ns"] = lambda: date_ns() + int(1e9 * float(file.read_text()))


def main() -> int:
    follow(Path(os.environ[FILE]))
    if sys.argv[1:2] == ["runtime"]:
        os.environ.setdefault("VOICEWRIGHT_ENGINE_PROCESS", "shared")  # The engine needs the patched clock too.
        from runtime.cli import main as runtime

        return runtime()
    import studio.server
    from studio.__main__ import main as app
    from studio.runtimes.supervisor import ChildRuntime

    class JumpingRuntime(ChildRuntime):
        """Child process of the runtime that runs this module instead."""

        def __init__(self, args: Sequence[str], command: Sequence[str] = COMMAND, drain_s: float = 0.0) -> None:
            super().__init__(args, command, drain_s)

    vars(studio.server)["ChildRuntime"] = JumpingRuntime
    return app()


if __name__ == "__main__":
    sys.exit(main())
