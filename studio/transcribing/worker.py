"""Recogniser process, so that leaks and crashes do not affect the studio."""

from __future__ import annotations

import multiprocessing
import os
import threading
from functools import cache

import numpy as np
from numpy.typing import NDArray

from runtime.shared.system import be_polite
from studio.transcribing.plugin import Choice, Transcriber

POLITENESS = 10  # Nice value: live speech comes first.


def begin() -> None:
    """Lower this process's priority, and end it with its parent."""
    be_polite(POLITENESS)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def written_down(choice: Choice, samples: NDArray[np.float32], language: str | None) -> dict[str, str | None]:
    """Transcribe a recording. Raises the recogniser's own errors.

    Shapes: samples [N] float32, mono, 16 kHz.
    """
    transcriber = _loaded(choice)
    heard = transcriber.transcribe(samples, language)
    return {"text": heard.text.strip(), "language": heard.language, "by": transcriber.name}


@cache
def _loaded(choice: Choice) -> Transcriber:
    return choice.load()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
