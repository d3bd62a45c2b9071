"""Launcher of child processes that end together with their parent process.

Example: ``python -m runtime.shared.child runtime.cli runtime``. Standard input is a pipe from the parent. The kernel
closes the pipe when the parent ends, also after kill -9. This works on every system and needs neither signal handlers
nor pids.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def main() -> None:
    """Run the module in the first argument, and exit when standard input is closed."""
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # This process can exit immediately, because the parent has ended and no data must be saved.


if __name__ == "__main__":
    main()
