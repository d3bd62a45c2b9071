"""Stack traces of all threads of this process; they contain no text of clients."""

from __future__ import annotations

import sys
import threading
import traceback


def stacks() -> str:
    """Return one paragraph per thread."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
