"""Aligner interface.

A package registers its function `align` as an aligner with these lines in pyproject.toml:

    [project.entry-points."voicewright.aligners"]
    mine = "my_aligner:align"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ENTRY_POINT_GROUP = "voicewright.aligners"

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
