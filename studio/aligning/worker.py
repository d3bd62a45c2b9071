"""Discovery of installed aligners, and functions that run in their child process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points

import numpy as np
from numpy.typing import NDArray

from runtime.shared.text.word_times import TimedWords
from studio.aligning.fitting import MisfitError, align_to_text
from studio.aligning.plugin import ENTRY_POINT_GROUP, Aligner
from studio.plugins import is_installed

BUILT_IN = "pocketsphinx"


@dataclass(frozen=True, slots=True)
class Aligned:
    """Result of an alignment: the words with their times, and the aligner's name (`by`).

    `words` is None if no aligner supports the text. `faults` are error messages of aligners. They contain no text of
    the recording.
    """

    words: TimedWords | None = None
    by: str = ""
    faults: list[str] = field(default_factory=list)


def installed() -> list[tuple[str, Callable[[], Aligner]]]:
    """Return pairs of the name and the loader of each installed aligner.

    Third-party aligners are sorted by name and precede the built-in aligner.
    """
    others = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    found: list[tuple[str, Callable[[], Aligner]]] = [(point.name, point.load) for point in others]
    return [*found, (BUILT_IN, _built_in)] if is_installed(BUILT_IN) else found


def _built_in() -> Aligner:
    from studio.aligning.sphinx import align

    return align


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
