"""Aligner interface, and discovery of installed aligners (docs/guide.md)."""

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
    """Aligner of text and audio.

    One thread of a separate process calls it repeatedly.
    """

    def __call__(
        self, samples: NDArray[np.float32], rate: int, text: str, language: str | None
    ) -> Sequence[Placed] | None:
        """Return every word of the text in order with its times, or None.

        None means that the aligner cannot align it, for example because of its language. Word boundaries are the
        aligner's choice. Punctuation and case are ignored. `language` is a code such as ``en``, or None if unknown.

        Shapes: samples [N] float32, mono, peak around 1, at ``rate`` Hz.
        """
        ...


def installed() -> list[tuple[str, Callable[[], Aligner]]]:
    """Return the installed aligners by name with their loaders.

    Third-party aligners, sorted by name, precede ours.
    """
    others = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    found: list[tuple[str, Callable[[], Aligner]]] = [(point.name, point.load) for point in others]
    return [*found, (BUILT_IN, _built_in)] if is_installed(BUILT_IN) else found


def _built_in() -> Aligner:
    from studio.aligning.sphinx import align

    return align
