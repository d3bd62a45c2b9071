"""Service that aligns takes one at a time in a child process, which is killed if an aligner hangs."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.word_times import TimedWords
from studio.aligning.plugin import installed

log = logging.getLogger(__name__)

MAX_WAITING = 4  # Takes, with the one being aligned.
WALL_S = 60.0  # Timeout of an alignment including the model's loading, plus the length of the audio.
LINE_BYTES = 2**25  # Maximum size of a response line.

COMMAND = (sys.executable, "-m", "studio.aligning.worker")
ROOT = Path(__file__).resolve().parents[2]  # The child's working folder, to import this package.


class AlignmentService:
    """Alignment service. Thread: the event loop."""

    def __init__(self, wall_s: float = WALL_S) -> None:
        self._wall_s = wall_s
        self._is_there = bool(installed())
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._process: Process | None = None

    async def align(
        self, samples: NDArray[np.float32], text: str, language: str | None
    ) -> tuple[TimedWords, str] | None:
        """Return the words with times and the aligner's name; None if no aligner can, or too many takes wait.

        Shapes: samples [N] float32, mono, 24 kHz.
        """
        if not self._is_there or self._waiting >= MAX_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn:
                return await self._align(samples, text, language)
        finally:
            self._waiting -= 1

    async def _align(
        self, samples: NDArray[np.float32], text: str, language: str | None
    ) -> tuple[TimedWords, str] | None:
        question = {"samples": len(samples), "rate": SAMPLE_RATE, "text": text, "language": language}
        fault = None
        try:
            async with asyncio.timeout(self._wall_s + len(samples) / SAMPLE_RATE):
                answer = await self._asked(json.dumps(question).encode() + b"\n", samples.astype("<f4").tobytes())
            if answer["faults"]:
                fault = "; ".join(answer["faults"])
            if answer["by"] is not None:
                return TimedWords(answer["spans"], answer["start"], answer["end"]), answer["by"]
        except TimeoutError:
            fault = "it took too long"
        except (OSError, ValueError, EOFError):
            fault = "its process ended"
        finally:
            if fault is not None:
                log.warning("an aligner could not place the words of a take: %s", fault)
        return None

    async def _asked(self, question: bytes, sound: bytes) -> dict[str, Any]:
        """Send a request to the child; a request without a response is not retried."""
        process = self._process
        if process is None or process.returncode is not None:
            process = await asyncio.create_subprocess_exec(
                *COMMAND, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LINE_BYTES
            )
        self._process = None  # Set again after it has responded.
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question + sound)
            await process.stdin.drain()
            line = await process.stdout.readline()
            if not line:
                raise EOFError
            answer: dict[str, Any] = json.loads(line)
        except BaseException:
            await _end(process)
            raise
        self._process = process
        return answer

    async def aclose(self) -> None:
        """End the process."""
        if self._process is not None:
            await _end(self._process)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
