"""Speech recogniser plug-in, based on pocketsphinx and its English model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pocketsphinx import Decoder

from studio.transcribing.plugin import RATE_HZ, Transcript


class Sphinx:
    name = "pocketsphinx"

    def __init__(self) -> None:
        self._decoder = Decoder(samprate=RATE_HZ, loglevel="FATAL")

    def transcribe(self, samples: NDArray[np.float32], language: str | None) -> Transcript:
        self._decoder.start_utt()
        self._decoder.process_raw((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return Transcript(hypothesis.hypstr if hypothesis else "", "en")


def transcriber() -> Sphinx:
    return Sphinx()


def break_sphinx() -> Sphinx:
    raise OSError("no model of that name")
