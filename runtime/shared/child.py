"""Launcher of child modules that end with their parent: ``python -m runtime.shared.child runtime.cli runtime``.

The parent has the other end of standard input. The kernel closes it however the parent ends, also after kill -9, on
every system, without signal handlers or process ids.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def main() -> None:
    """Watch standard input on a thread, and run the module that the first argument names."""
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # The parent is gone, and this process has nothing to write.


if __name__ == "__main__":
    main()
