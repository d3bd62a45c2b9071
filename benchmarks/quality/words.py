"""Words that a recogniser hears wrongly, by the bits of the weights. The recogniser's own errors are in every rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.listener import speak_all
from benchmarks.common.report import Row, log_step
from benchmarks.common.texts import sentences
from benchmarks.common.voices import request_for
from benchmarks.quality.scores import cpu_settings
from runtime.engine.engine import Engine
from tests.speech.recogniser import heard_words, words

MAX_FRAMES = 150  # Twelve seconds, three times the length of the text.
RESAMPLES = 2000

Counts = NDArray[np.int64]


def edit_distance(truth: Sequence[str], heard: Sequence[str]) -> int:
    """Return the words to replace, insert or remove to turn one into the other."""
    row = list(range(len(heard) + 1))
    for place, wanted in enumerate(truth, 1):
        before, row[0] = row[0], place
        for other, word in enumerate(heard, 1):
            before, row[other] = row[other], min(row[other] + 1, row[other - 1] + 1, before + (wanted != word))
    return row[-1]


def count_edits(model: str, weights: str, texts: Sequence[str]) -> Counts:
    """Return the edits of each text as it is heard. Shapes: result [texts]."""
    engine = Engine.open(cpu_settings(model, weights), lambda loaded, of, step: None)
    engine.start()
    found, card = [], engine.cards[0]
    try:
        for serial, text in enumerate(texts):
            (listener,), _ = speak_all(engine, [request_for(card, card.modes[0], text, MAX_FRAMES, serial)])
            found.append(edit_distance(words(text), heard_words(listener.said.samples)))
    finally:
        engine.close()
    return np.array(found, np.int64)


def rate_row(weights: str, own: Counts, truth: Counts, lengths: Counts) -> Row:
    """Return rates in per cent. Shapes: edits of these weights and of the first ones, and words, of each text."""
    drawn = np.random.default_rng(0).integers(len(lengths), size=(RESAMPLES, len(lengths)))
    gaps = (own - truth)[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    return {
        "weights": weights,
        "texts": len(lengths),
        "words": int(lengths.sum()),
        "wer": round(100 * own.sum() / lengths.sum(), 1),
        "more_than_first": round(100 * (own - truth).sum() / lengths.sum(), 1),
        "error": round(100 * float(gaps.std()), 1),
    }


def measure_words(model: str, kinds: Sequence[str], count: int) -> list[Row]:
    """Return a row for each kind of weights; the others are compared with the first."""
    texts, edits = sentences()[:count], {}
    for kind in kinds:
        log_step(kind)
        edits[kind] = count_edits(model, kind, texts)
    lengths = np.array([len(words(text)) for text in texts], np.int64)
    return [rate_row(kind, own, edits[kinds[0]], lengths) for kind, own in edits.items()]
