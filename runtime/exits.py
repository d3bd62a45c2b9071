"""Says with which status the runtime's process ends, and why."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Above 70 a supervisor does well to start the process again; the names are the reasons in figures."""

    ASKED = 0
    FAILED = 1  # the operator cannot mend it
    BAD_INPUT = 2  # the operator can mend it; starting again cannot
    ENGINE_DIED = 70  # EX_SOFTWARE: the engine's thread ended by an exception
    FRAME_OVERDUE = 71  # the device has not come back with a frame
    CANARY_DIFFERS = (
        72  # what is always the same has come out otherwise: weights, device or memory are not to be trusted
    )
