"""Launcher of app.py and its runtime with a system date that a test can change.

A file contains the offset of the date in seconds. `python -m tests.support.jumping_date` starts the studio. With the
argument `runtime`, it starts the runtime. libfaketime 0.9.10 is not used, because `time.sleep` of Python 3.11 does not
work with it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FILE = "VOICEWRIGHT_TEST_DATE"  # Environment variable with the path of the file that contains the offset in seconds.
COMMAND = ("tests.support.jumping_date", "runtime")


def set_date_offset(file: Path, seconds: float) -> None:
    """Write a new offset of the system date in seconds to `file` atomically."""
    aside = file.with_suffix(".new")
    aside.write_text(str(seconds))
    aside.replace(file)


def follow(file: Path) -> None:
    """Patch `time.time` and `time.time_ns` of this process to add the offset in `file`."""
    date, date_ns = time.time, time.time_ns
    vars(time)["time"] = lambda: date() + float(file.read_text())
    vars(time)["time_ns"] = lambda: date_ns() + int(1e9 * float(file.read_text()))


def main() -> int:
    follow(Path(os.environ[FILE]))
    if sys.argv[1:2] == ["runtime"]:
        # The engine must run in this process, because it also needs the patched clock.
        os.environ.setdefault("VOICEWRIGHT_ENGINE_PROCESS", "shared")
        from runtime.cli import main as runtime

        return runtime()
    import studio.server
    from studio.__main__ import main as app
    from studio.runtimes.supervisor import ChildRuntime

    class JumpingRuntime(ChildRuntime):
        """Child process whose command starts the runtime through tests/support/jumping_date.py."""

        def __init__(self, args: Sequence[str], command: Sequence[str] = COMMAND, drain_s: float = 0.0) -> None:
            super().__init__(args, command, drain_s)

    vars(studio.server)["ChildRuntime"] = JumpingRuntime
    return app()


if __name__ == "__main__":
    sys.exit(main())
