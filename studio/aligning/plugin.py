"""Aligner interface, and discovery of installed aligners (docs/guide.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from studio.plugins import is_installed

GROUP = "voicewright.aligners"  # Entry point group.
BUILT_IN = "pocketsphinx"

Placed = tuple[str, float, float]  # Word, start and end in seconds from the beginning of the audio.


class Aligner(Protocol):
    """Says when words are spoken. It is called again and again in a process of its own, by one thread."""

    def __call__(
        self, samples: NDArray[np.float32], rate: int, text: str, language: str | None
    ) -> Sequence[Placed] | None:
        """Every word of the text in its order, or None where it cannot say, as of a language that it does not know.

        Words may be cut as the aligner likes; marks and capitals do not count. ``language`` is a code such as ``en``;
        None: it is not known.

        Shapes: samples [N] float32, mono, peak around 1, at ``rate`` Hz.
        """
        ...


def installed() -> list[tuple[str, Callable[[], Aligner]]]:
    """Names of the aligners that are there and what loads each: those of others by their names, and then ours."""
    others = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    found: list[tuple[str, Callable[[], Aligner]]] = [(point.name, point.load) for point in others]
    return [*found, (BUILT_IN, _built_in)] if is_installed(BUILT_IN) else found


def _built_in() -> Aligner:
    from studio.aligning.sphinx import align

    return align
