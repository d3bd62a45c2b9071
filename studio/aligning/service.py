"""Service that measures the word times of recordings in a child process, one at a time.

The child process is killed if it exceeds a timeout.
"""

from __future__ import annotations

import logging
from concurrent.futures import BrokenExecutor

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.text.word_times import TimedWords
from studio.aligning.worker import Aligned, align, installed
from studio.plugins import PluginWorker, WorkerBusyError

log = logging.getLogger(__name__)

MAX_WAITING = 4  # Maximum number of waiting takes, including the one that is being aligned.
# Timeout of an alignment in seconds, including the loading of the model. The audio's duration is added.
TIMEOUT_S = 60.0


class AlignmentService:
    """Service that measures the word times of recordings in a child process, one at a time.

    Thread: event loop.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._is_there = bool(installed())
        self._worker = PluginWorker(MAX_WAITING)

    async def align(
        self, samples: NDArray[np.float32], text: str, language: str | None
    ) -> tuple[TimedWords, str] | None:
        """Return the words of a recording with their times, and the name of the aligner.

        The result is None if no aligner supports the text, or if too many recordings are waiting.

        Shapes: samples [N] float32, mono, 24 kHz.
        """
        if not self._is_there:
            return None
        timeout_s = self._timeout_s + len(samples) / SAMPLE_RATE
        try:
            with self._worker.place():
                aligned = await self._worker.call(timeout_s, align, samples, SAMPLE_RATE, text, language)
        except WorkerBusyError:
            return None
        except TimeoutError:
            aligned = Aligned(faults=["it took too long"])
        except BrokenExecutor:
            aligned = Aligned(faults=["its process ended"])
        if aligned.faults:
            log.warning("an aligner could not align the words of a take: %s", "; ".join(aligned.faults))
        return None if aligned.words is None else (aligned.words, aligned.by)

    def close(self) -> None:
        """End the child process that measures word times."""
        self._worker.close()
