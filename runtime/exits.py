"""Exit statuses of the runtime's process."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Above 70 a supervisor does well to start the process again; the names are the reasons in figures."""

    ASKED = 0
    FAILED = 1  # The operator cannot fix it.
    BAD_INPUT = 2  # The operator can fix it; a restart cannot.
    ENGINE_DIED = 70  # EX_SOFTWARE: the engine's thread ended by an exception
    FRAME_OVERDUE = 71  # The device did not return a frame in time.
    CANARY_DIFFERS = 72  # A result that never changes has changed: weights, device or memory cannot be trusted.
