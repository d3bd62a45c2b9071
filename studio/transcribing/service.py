"""Service that transcribes recordings in a child process, one at a time.

The child process is started when the first recording is transcribed.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np
from numpy.typing import NDArray

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.shared.audio.reference import read_reference
from runtime.shared.audio.samples import DecodedAudio, resample
from studio.errors import TranscriberBusy, TranscriberMissing, TranscriptionFailed
from studio.plugins import PluginWorker, WorkerBusyError, code_of
from studio.transcribing.model_download import ModelDownload
from studio.transcribing.plugin import RATE_HZ, Choice
from studio.transcribing.worker import transcribe

log = logging.getLogger(__name__)

MAX_WAITING = 4  # Maximum number of waiting recordings, including the one that is being transcribed.
AGAIN_S = 10.0


class TranscriptionService:
    """Service that transcribes recordings in a child process, one at a time.

    Thread: event loop.
    """

    def __init__(self, choice: Choice, limits: Limits) -> None:
        self.choice = choice
        self.model = ModelDownload(choice)
        self._limits = limits
        self._worker = PluginWorker(MAX_WAITING)

    @property
    def is_available(self) -> bool:
        return self.choice.missing is None and self.model.is_here

    def feature(self, *, is_host: bool) -> dict[str, object]:
        """Return the state of transcription for the page, as a JSON object.

        For the operator of the studio (`is_host`), it also has the reason why transcription is unavailable (``how``)
        and the state of the model download (``model``).
        """
        how = self.choice.missing if is_host and self.choice.setting else None
        model = self.model.state() if is_host and self.choice.missing is None else None
        return {"available": self.is_available, "how": how or "", "model": model}

    async def transcribe(self, recording: bytes, language: str) -> dict[str, str | None]:
        """Return the transcript of a recording as a JSON object.

        `language` is a name or a code. For other values, the language is detected.

        Raises:
            TranscriberMissing: No recogniser is available.
            BadReferenceAudio, ReferenceTooShort, ReferenceTooLong: The recording is unsuitable for a voice.
            TranscriberBusy: Too many recordings are waiting.
            TranscriptionFailed: The recogniser failed. The log has the reason.
        """
        if not self.is_available:
            raise TranscriberMissing
        try:
            with self._worker.place():
                samples = await asyncio.to_thread(self._decoded_samples, recording)
                return await self._worker.call(None, transcribe, self.choice, samples, code_of(language))
        except WorkerBusyError:
            raise TranscriberBusy(retry_after_s=AGAIN_S) from None
        except SpeechError:
            raise
        except Exception:
            log.exception("%s could not transcribe a recording", self.choice.setting)
            raise TranscriptionFailed from None

    def _decoded_samples(self, recording: bytes) -> NDArray[np.float32]:
        return resample(DecodedAudio(read_reference(recording, self._limits), SAMPLE_RATE), RATE_HZ).samples

    async def aclose(self) -> None:
        """End the child process, and stop a running download of the recogniser's model.

        Waiting recordings are not transcribed.
        """
        self._worker.close()
        await self.model.stop()
