"""Recogniser that runs OpenAI's Whisper with faster-whisper on the CPU."""

from __future__ import annotations

import numpy as np
from faster_whisper import WhisperModel
from numpy.typing import NDArray

from studio.transcribing.plugin import Transcript

THREADS = 2
SIMPLIFIED = (
    "以下是普通话的句子。"  # Initial prompt for Chinese. Without it, the result may have traditional characters.
)


class Whisper:
    """Speech recogniser that uses Whisper.

    The model is a model name of faster-whisper, a Hub id or a folder.
    """

    def __init__(self, model: str, *, local_files_only: bool = False) -> None:
        self.name = f"faster-whisper {model}"
        self._model = WhisperModel(
            model, device="cpu", compute_type="int8", cpu_threads=THREADS, local_files_only=local_files_only
        )

    def transcribe(self, samples: NDArray[np.float32], language: str | None) -> Transcript:
        segments, info = self._model.transcribe(
            samples,
            language=language,
            beam_size=5,
            initial_prompt=SIMPLIFIED if language == "zh" else None,
            condition_on_previous_text=False,  # Recordings are short, and earlier text misleads the recogniser.
            without_timestamps=True,
        )
        return Transcript("".join(segment.text for segment in segments).strip(), info.language)
