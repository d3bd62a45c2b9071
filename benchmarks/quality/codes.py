"""Comparison of the codes of equal requests: alone, in a batch, and with other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.listener import CodesAndPcm, first_difference, speak_all
from benchmarks.common.report import Row, Tables, log_step
from benchmarks.common.texts import Dataset
from benchmarks.common.variants import Environment, Variant
from benchmarks.common.voices import request_for
from runtime.engine.engine import Engine
from runtime.request import Broken, Mode, ModelCard, Refused, SpeechRequest

TEXTS = (Dataset.ENGLISH_SHORT, Dataset.ENGLISH_LONG, Dataset.CHINESE_SHORT, Dataset.CHINESE_LONG)

Key = tuple[str, int]  # Mode and index of a request.


class CodeRun:
    """Comparison of codes between batch sizes and between variants.

    Args:
        shared: Environment variables of all variants.
        rows: Batch sizes.
        frames: Number of frames of each utterance.
        baseline: File with the results of single requests with the first variant, or None. It is read if it exists, and
            otherwise written.
    """

    def __init__(self, shared: Environment, rows: Sequence[int], frames: int, baseline: Path | None) -> None:
        self.shared = shared
        self.rows = rows
        self.frames = frames
        self.baseline = baseline

    def run(self, variants: Sequence[Variant]) -> Tables:
        """Run all comparisons, and return the result tables.

        One table compares batches with single requests. Another table compares each variant with the first variant.
        """
        batch: list[Row] = []
        solo: dict[str, dict[Key, CodesAndPcm]] = {}
        if self.baseline is not None and self.baseline.exists():
            solo["baseline"] = read_utterances(self.baseline)
        for variant in variants:
            engine = Engine.open(variant.settings(self.shared), lambda loaded, of, step: log_step(step))
            engine.start()
            try:
                for card in engine.cards:
                    for mode in card.modes:
                        log_step(f"{variant.name}: {mode}")
                        requests = [self._request(card, mode, number) for number in range(max(self.rows))]
                        utterances = [speak_all(engine, [request])[0][0].result for request in requests]
                        about = {"variant": variant.name, "mode": str(mode)}
                        batch += [self._batch_row(engine, requests[:count], utterances, about) for count in self.rows]
                        numbered = {(str(mode), number): one for number, one in enumerate(utterances)}
                        solo.setdefault(variant.name, {}).update(numbered)
            finally:
                engine.close()
        if self.baseline is not None and "baseline" not in solo:
            write_utterances(self.baseline, next(iter(solo.values())))
        (_, first), *others = solo.items()
        against = [{"variant": name, **difference_row(utterances, first)} for name, utterances in others]
        return {"batch": batch} | ({"against the first": against} if against else {})

    def _request(self, card: ModelCard, mode: Mode, number: int) -> SpeechRequest:
        datasets = [dataset for dataset in TEXTS if dataset.language in card.languages] or [TEXTS[0]]
        dataset = datasets[number % len(datasets)]
        text = dataset.text(number)
        return request_for(card, mode, text, self.frames, number, language=dataset.language)

    def _batch_row(
        self, engine: Engine, requests: Sequence[SpeechRequest], solo: Sequence[CodesAndPcm], about: Row
    ) -> Row:
        listeners, _ = speak_all(engine, requests)
        utterances = [listener.result for listener in listeners]
        return {
            **about,
            "rows": len(requests),
            "failed": sum(isinstance(listener.end, Broken | Refused) for listener in listeners),
            **_compared(list(zip(utterances, solo, strict=False))),
            "frames": sum(len(one.codes) for one in utterances),
        }


def difference_row(result: Mapping[Key, CodesAndPcm], first: Mapping[Key, CodesAndPcm]) -> Row:
    """Return a table row that compares the codes of two sets of utterances.

    Utterances of the same request are compared.
    """
    shared = [key for key in result if key in first]
    return {"texts": len(shared), **_compared([(result[key], first[key]) for key in shared])}


def write_utterances(path: Path, result: Mapping[Key, CodesAndPcm]) -> None:
    """Write utterances to a file, which `read_utterances` can read."""
    named = {
        f"{mode} {number} {name}": array
        for (mode, number), one in result.items()
        for name, array in one._asdict().items()
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **named)


def read_utterances(path: Path) -> dict[Key, CodesAndPcm]:
    """Read utterances from a file that `write_utterances` has written."""
    with np.load(path) as arrays:
        keys = dict.fromkeys(tuple(name.split()[:2]) for name in arrays.files)
        return {
            (mode, int(number)): CodesAndPcm(*(arrays[f"{mode} {number} {name}"] for name in CodesAndPcm._fields))
            for mode, number in keys
        }


def _compared(pairs: Sequence[tuple[CodesAndPcm, CodesAndPcm]]) -> Row:
    first = [first_difference(*pair) for pair in pairs]
    equal = [pair for pair, frame in zip(pairs, first, strict=True) if frame is None and len(pair[0].samples)]
    differences = [int(np.abs(one.samples.astype(np.int64) - other.samples).max()) for one, other in equal]
    return {
        "codes_differ": sum(frame is not None for frame in first),
        "first_frame": min((frame for frame in first if frame is not None), default=None),
        "samples_apart": max(differences, default=None),
    }
