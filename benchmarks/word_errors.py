"""Counts the words that a recogniser hears wrongly of what a voice says with weights of fewer bits, beside float32.

python -m benchmarks.word_errors [--model assets/demo-voice] [--weights float32,bfloat16,int8,int4] [--texts 60]

The same English sentences with the same seeds by each kind of weights; the judge is pocketsphinx with the English model
in its package. A rate is edits over words of all sentences, and its difference from float32's has the standard error
that sentences drawn anew give it. The recogniser's own errors are in every rate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.arguments import parser_of, several
from benchmarks.laptop import settings_of
from benchmarks.pipeline import ask
from benchmarks.prompts import sentences
from benchmarks.report import show, tell
from runtime.engine.engine import Engine
from tests.speech.recogniser import heard_words, words

KINDS = ("float32", "bfloat16", "int8", "int4")
FRAMES = 150  # of an utterance at most: twelve seconds, three times what its text takes
DRAWS = 2000  # of whole sentences, for the error

Counts = NDArray[np.int64]


def edits(truth: Sequence[str], heard: Sequence[str]) -> int:
    """Words that have to be exchanged, put in or left out to make one of the other."""
    row = list(range(len(heard) + 1))
    for place, wanted in enumerate(truth, 1):
        before, row[0] = row[0], place
        for other, word in enumerate(heard, 1):
            before, row[other] = row[other], min(row[other] + 1, row[other - 1] + 1, before + (wanted != word))
    return row[-1]


def counted(model: str, weights: str, texts: Sequence[str]) -> Counts:
    """Edits of each text as it is heard. Shapes: result [texts]."""
    engine = Engine.open(settings_of(model, weights), lambda loaded, of, step: None)
    engine.start()
    found = []
    try:
        for serial, text in enumerate(texts):
            (listener,), _ = ask(engine, [serial], FRAMES, text)
            found.append(edits(words(text), heard_words(listener.said.samples)))
    finally:
        engine.close()
    return np.array(found, np.int64)


def row_of(weights: str, own: Counts, truth: Counts, lengths: Counts) -> dict[str, Any]:
    """Rates in per cent. Shapes: own and the truth's edits, and words, of each text [texts]."""
    drawn = np.random.default_rng(0).integers(len(lengths), size=(DRAWS, len(lengths)))
    gaps = (own - truth)[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    return {
        "weights": weights,
        "texts": len(lengths),
        "words": int(lengths.sum()),
        "wer": round(100 * own.sum() / lengths.sum(), 1),
        "more_than_float32": round(100 * (own - truth).sum() / lengths.sum(), 1),
        "error": round(100 * float(gaps.std()), 1),
    }


def measure(
    model: str, kinds: Sequence[str], count: int, tell: Callable[[str], None] = lambda step: None
) -> list[dict[str, Any]]:
    """A row for each kind of weights; the first is what the others are compared with."""
    texts, edited = sentences()[:count], {}
    for kind in kinds:
        tell(kind)
        edited[kind] = counted(model, kind, texts)
    lengths = np.array([len(words(text)) for text in texts], np.int64)
    return [row_of(kind, own, edited[kinds[0]], lengths) for kind, own in edited.items()]


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="assets/demo-voice", help="a folder")
    parser.add_argument(
        "--weights", type=several(str), default=KINDS, help="the first is what the others are compared with"
    )
    parser.add_argument("--texts", type=int, default=60)
    arguments = parser.parse_args()
    rows = measure(arguments.model, arguments.weights, arguments.texts, tell)
    show({"words heard wrongly": rows}, arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
