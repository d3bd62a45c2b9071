"""Service that transcribes recordings one at a time, in a process that is started on first use."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.shared.audio import Sound, resample
from runtime.shared.reference import read_reference
from studio.errors import TranscriberBusy, TranscriberMissing, TranscriptionFailed
from studio.plugins import code_of
from studio.transcribing.plugin import RATE, Choice
from studio.transcribing.worker import begin, written_down

log = logging.getLogger(__name__)

MAX_WAITING = 4  # Recordings, with the one being transcribed.
AGAIN_S = 10.0


class TranscriptionService:
    """Transcription service. Thread: the event loop."""

    def __init__(self, choice: Choice, limits: Limits) -> None:
        self.choice = choice
        self._limits = limits
        self._process: ProcessPoolExecutor | None = None
        self._waiting = 0

    def feature(self) -> dict[str, object]:
        """Return the transcription feature for the page; ``how`` tells a host how to enable it."""
        how = self.choice.missing if self.choice.setting else None
        return {"available": self.choice.missing is None, "how": how or ""}

    async def transcribe(self, recording: bytes, language: str) -> dict[str, str | None]:
        """Return the transcript of a recording. `language` is a name or a code; other values mean any language.

        Raises:
            TranscriberMissing: No recogniser is available.
            BadReferenceAudio, ReferenceTooShort, ReferenceTooLong: The recording is not usable for a voice.
            TranscriberBusy: Too many recordings wait.
            TranscriptionFailed: The recogniser failed; the log has the cause.
        """
        if self.choice.missing is not None:
            raise TranscriberMissing
        if self._waiting >= MAX_WAITING:
            raise TranscriberBusy(retry_after_s=AGAIN_S)
        self._waiting += 1
        try:
            samples = await asyncio.to_thread(self._heard, recording)
            return await self._written_down(samples, code_of(language))
        finally:
            self._waiting -= 1

    def _heard(self, recording: bytes) -> NDArray[np.float32]:
        return resample(Sound(read_reference(recording, self._limits), SAMPLE_RATE), RATE).samples

    async def _written_down(self, samples: NDArray[np.float32], code: str | None) -> dict[str, str | None]:
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")  # A fork would copy sockets and locks.
            self._process = ProcessPoolExecutor(1, mp_context=spawn, initializer=begin)
        process = self._process
        try:
            return await asyncio.get_running_loop().run_in_executor(process, written_down, self.choice, samples, code)
        except Exception as error:
            if process is self._process and isinstance(error, RuntimeError):  # The pool's process has ended.
                self.close()
            log.exception("%s could not write down a recording", self.choice.setting)
            raise TranscriptionFailed from None

    def close(self) -> None:
        """Drop waiting recordings; a running transcription may finish."""
        if self._process is not None:
            self._process.shutdown(wait=False, cancel_futures=True)
            self._process = None
