"""Launcher of child modules that end with their parent: ``python -m runtime.shared.child runtime.cli runtime``.

The parent holds the other end of standard input. The kernel closes it however the parent ends, kill -9
included, on every system alike; there is no handler to forget and no process id to be reused.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def main() -> None:
    """Watch standard input on a thread and become the module that the first argument names."""
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # The parent is gone, and this process has nothing to write.


if __name__ == "__main__":
    main()
