"""Functions that run in the child process of the speech recogniser."""

from __future__ import annotations

import pkgutil
from functools import cache

import numpy as np
from numpy.typing import NDArray

from studio.transcribing.plugin import Choice, Transcriber


def transcribe(choice: Choice, samples: NDArray[np.float32], language: str | None) -> dict[str, str | None]:
    """Transcribe a recording with the chosen speech recogniser.

    The first call loads the recogniser, which takes seconds and may download a model. Exceptions of the recogniser
    propagate to the caller.

    Shapes: samples [N] float32, mono, 16 kHz.
    """
    transcriber = _loaded(choice)
    transcript = transcriber.transcribe(samples, language)
    return {"text": transcript.text.strip(), "language": transcript.language, "by": transcriber.name}


@cache
def _loaded(choice: Choice) -> Transcriber:
    if choice.model:
        from studio.transcribing.whisper import Whisper

        return Whisper(choice.model, local_files_only=choice.hub_id is not None)
    # The named function may safely run, because only the operator can change this setting.
    transcriber: Transcriber = pkgutil.resolve_name(choice.setting)()
    return transcriber
