"""Word error rate by pocketsphinx's packaged English model."""

from __future__ import annotations

import re
from multiprocessing import Pool

import numpy as np
from scipy.signal import resample_poly

_decoder = None


def _hear(audio: np.ndarray) -> str:
    global _decoder
    if _decoder is None:
        from pocketsphinx import Decoder

        _decoder = Decoder(loglevel="FATAL")
    small = resample_poly(audio, 2, 3)
    # a little of the same noise everywhere: digital silence upsets the recogniser's noise tracking
    small = small * 0.5 / max(1e-3, np.abs(small).max()) + 1e-4 * np.random.default_rng(0).standard_normal(len(small))
    _decoder.start_utt()
    _decoder.process_raw((small * 32767).astype(np.int16).tobytes(), full_utt=True)
    _decoder.end_utt()
    return _decoder.hyp().hypstr if _decoder.hyp() else ""


def hear(audios: list[np.ndarray], workers: int = 2) -> list[str]:
    """Return what is heard in each 24 kHz waveform."""
    with Pool(workers) as pool:
        return pool.map(_hear, audios, chunksize=4)


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", " ", re.sub(r"-", " ", text.lower())).split()


def errors(truth: str, heard: str) -> tuple[int, int]:
    """Return (edit distance in words, words of the truth)."""
    a, b = words(truth), words(heard)
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1], len(a)


def rate(truths: list[str], heards: list[str]) -> float:
    """Return the pooled word error rate."""
    pairs = [errors(t, h) for t, h in zip(truths, heards, strict=True)]
    return sum(e for e, _ in pairs) / max(1, sum(n for _, n in pairs))


def apart(truths: list[str], teacher: list[str], ours: list[str], draws: int = 2000) -> tuple[float, float]:
    """Return (our word error rate over the teacher's, its standard error by drawing whole sentences again)."""
    table: dict[str, np.ndarray] = {}
    for truth, theirs, mine in zip(truths, teacher, ours, strict=True):
        (a, count), (b, _) = errors(truth, theirs), errors(truth, mine)
        table[truth] = table.get(truth, np.zeros(2)) + np.array((b - a, count))
    cells = np.stack(list(table.values()))
    drawn = cells[np.random.default_rng(0).integers(len(cells), size=(draws, len(cells)))].sum(1)
    gap = cells.sum(0)
    return float(gap[0] / gap[1]), float((drawn[:, 0] / drawn[:, 1]).std())
