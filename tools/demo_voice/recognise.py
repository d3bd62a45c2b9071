"""Speech metrics: word errors by Whisper base, opinion scores by DNSMOS, and F0.

`fetch.sh` downloads Whisper base (MIT), and DNSMOS P.835 (MIT) in the package `speechmos`.
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.common.pitch import median_f0, track_f0
from config import WORK

DNSMOS_SAMPLES = 144_160  # Number of samples that DNSMOS reads: 9.01 s at 16 kHz.
WINDOW_SAMPLES = 480_000  # Number of samples that Whisper reads in one pass. Longer audio requires timestamps.
# Polynomial that converts the raw overall score to an opinion score (speechmos 0.0.1.1, dnsmos.py).
OVERALL = (-0.06766283, 1.11546468, 0.04602535)
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Heard:
    """Transcript, overall DNSMOS score and median F0 of an utterance."""

    text: str
    mos: float
    f0: float


@cache
def _whisper() -> Any:
    from faster_whisper import WhisperModel

    return WhisperModel(str(WORK / "whisper"), device="cpu", compute_type="int8", cpu_threads=1)


@cache
def _dnsmos() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # Each worker process has its own session.
    return onnxruntime.InferenceSession(str(files("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx"), options)


def _judge(audio: np.ndarray) -> Heard:
    from scipy.signal import resample_poly

    small = resample_poly(audio, 2, 3).astype(np.float32)
    segments, _ = _whisper().transcribe(small, language="en", beam_size=1, temperature=0.0,
                                        condition_on_previous_text=False,
                                        without_timestamps=len(small) <= WINDOW_SAMPLES)  # fmt: skip
    # DNSMOS reads 9.01 s. Shorter audio is repeated.
    raw = _dnsmos().run(None, {"input_1": np.resize(small, DNSMOS_SAMPLES)[None]})[0][0]
    return Heard(" ".join(s.text for s in segments), float(np.polyval(OVERALL, raw[2])), median_f0(track_f0(audio)))


def judge(audios: list[np.ndarray], workers: int) -> list[Heard]:
    """Return the metrics of 24 kHz waveforms, which are computed in `workers` processes."""
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(_judge, audios, chunksize=4))


def words(text: str) -> list[str]:
    """Return the lower-case words of a text.

    Whole numbers up to twelve are spelled out, because Whisper writes digits.
    """
    plain = re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("’", "'").replace("-", " "))
    return [DIGITS[int(w)] if w.isdigit() and int(w) < len(DIGITS) else w for w in plain.split()]


def scores(truths: list[str], heard: list[Heard]) -> dict[str, float]:
    """Return the word error rate, its standard error and the mean DNSMOS score.

    The rate is the total number of errors divided by the total number of words. Its standard error is that of a ratio
    estimator.
    """
    from rapidfuzz.distance import Levenshtein

    pairs = [(words(truth), words(one.text)) for truth, one in zip(truths, heard, strict=True)]
    wrong, count = np.array([(Levenshtein.distance(true, said), len(true)) for true, said in pairs]).T
    rate = wrong.sum() / count.sum()
    deviation = np.sqrt(np.square(wrong - rate * count).sum()) / count.sum()
    return {"words": float(rate), "error": float(deviation), "mos": float(np.mean([one.mos for one in heard]))}
