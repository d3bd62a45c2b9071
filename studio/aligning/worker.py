"""Functions that run in the child process of the installed aligners."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from runtime.shared.text.word_times import TimedWords
from studio.aligning.fitting import MisfitError, align_to_text
from studio.aligning.plugin import Aligner, installed


@dataclass(frozen=True, slots=True)
class Aligned:
    """Result of an alignment: the words with their times, and the aligner's name (`by`).

    `words` is None if no aligner supports the text. `faults` are error messages of aligners. They contain no text of
    the recording.
    """

    words: TimedWords | None = None
    by: str = ""
    faults: list[str] = field(default_factory=list)


def align(samples: NDArray[np.float32], rate: int, text: str, language: str | None) -> Aligned:
    """Align a recording with each installed aligner in order, until one returns a result.

    The returned `Aligned` object also has the errors of the aligners that failed.

    Shapes: samples [N] float32, mono.
    """
    faults: list[str] = []
    for name in _names():
        try:
            placed = _loaded(name)(samples, rate, text, language)
            if placed is not None:
                return Aligned(align_to_text(placed, text, len(samples) / rate), name, faults)
        except MisfitError as misfit:
            faults.append(f"{name}: {misfit}")
        except Exception as error:
            faults.append(f"{name}: {type(error).__name__}")
    return Aligned(faults=faults)


@cache
def _names() -> list[str]:
    return [name for name, _ in installed()]


@cache
def _loaded(name: str) -> Aligner:
    return dict(installed())[name]()
