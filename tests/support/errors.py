"""Class hierarchy of all errors that the runtime and the studio can raise."""

from __future__ import annotations

import runtime.errors
import studio.errors
from runtime.errors import SpeechError

ROOMS = (runtime.errors, studio.errors)


def tree(root: type[SpeechError] = SpeechError) -> dict[type[SpeechError], type[SpeechError]]:
    """Return all subclasses of the error class `root`, mapped to their parent classes.

    Only classes of this repository are included.
    """
    pairs: dict[type[SpeechError], type[SpeechError]] = {}
    for child in root.__subclasses__():
        if child.__module__ in {room.__name__ for room in ROOMS}:
            pairs[child] = root
            pairs |= tree(child)
    return pairs


BY_CODE = {kind.code: kind for kind in tree() if hasattr(kind, "code")}
BY_NAME = {kind.__name__: kind for kind in tree()}
