"""Recordings are written down one at a time, on a thread, by a recogniser that is loaded when it is first wanted."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from runtime.audio import Sound, resample
from runtime.errors import SpeechError, TranscriberBusy, TranscriberMissing, TranscriptionFailed
from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.voices.reference import read_reference
from studio.transcribing.plugin import RATE, Choice, Heard, Transcriber

log = logging.getLogger(__name__)

MOST_WAITING = 4  # recordings, with the one that is being written down
AGAIN_S = 10.0

CODES = {
    **{"chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de"},
    **{"french": "fr", "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it"},
}


class Desk:
    """Where recordings are handed in. Thread: the event loop."""

    def __init__(self, choice: Choice, limits: Limits) -> None:
        self.choice, self._limits = choice, limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="transcriber")
        self._transcriber: Transcriber | None = None
        self._waiting = 0

    def feature(self) -> dict[str, object]:
        """What the page is told before anybody asks."""
        return {"available": self.choice.missing is None, "how": self.choice.missing or ""}

    async def transcribe(self, recording: bytes, language: str) -> dict[str, str | None]:
        """The words of a recording. ``language`` is a name or a code; anything else stands for any.

        Raises:
            TranscriberMissing: nothing here can.
            BadReferenceAudio, ReferenceTooShort, ReferenceTooLong: it is no recording that a voice could be made of.
            TranscriberBusy: too many wait.
            TranscriptionFailed: the recogniser broke; the log says how.
        """
        if self.choice.missing is not None:
            raise TranscriberMissing(why=self.choice.missing)
        if self._waiting >= MOST_WAITING:
            raise TranscriberBusy(retry_after_s=AGAIN_S)
        self._waiting += 1
        try:
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._work, recording, language.lower())
            return await work
        finally:
            self._waiting -= 1

    def _work(self, recording: bytes, language: str) -> dict[str, str | None]:
        samples = resample(Sound(read_reference(recording, self._limits), SAMPLE_RATE), RATE).samples
        code = CODES.get(language, language if language in CODES.values() else None)
        try:
            if self._transcriber is None:
                self._transcriber = self.choice.load()
            heard: Heard = self._transcriber.transcribe(samples, code)
            return {"text": heard.text.strip(), "language": heard.language, "by": self._transcriber.name}
        except SpeechError:
            raise
        except Exception:
            log.exception("%s could not write down a recording", self.choice.setting)
            raise TranscriptionFailed from None

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
