"""Aligner interface, and discovery of installed aligners.

A package registers its function `align` as an aligner with these lines in pyproject.toml:

    [project.entry-points."voicewright.aligners"]
    mine = "my_aligner:align"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from studio.plugins import is_installed

ENTRY_POINT_GROUP = "voicewright.aligners"
BUILT_IN = "pocketsphinx"

Placed = tuple[str, float, float]  # Word, start and end in seconds.


class Aligner(Protocol):
    """Callable that returns the start and end time of every word in a recording.

    All calls run on one thread of a child process.
    """

    def __call__(
        self, samples: NDArray[np.float32], rate: int, text: str, language: str | None
    ) -> Sequence[Placed] | None:
        """Return every word of the text in order, with its start and end in seconds.

        Return None if the aligner does not support the text, for example its language. The aligner may choose the word
        boundaries. Punctuation and case are ignored. `language` is a code such as ``en``, or None if unknown.

        Shapes: samples [N] float32, mono, peak around 1, at ``rate`` Hz.
        """
        ...


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
