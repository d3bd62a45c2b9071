"""Exit statuses of the runtime's process."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit status of a process. A supervisor should restart the process after a status of 70 or more."""

    ASKED = 0
    FAILED = 1  # The operator cannot fix it.
    BAD_INPUT = 2  # The operator can fix it; a restart cannot.
    ENGINE_DIED = 70  # EX_SOFTWARE: the engine's thread ended with an exception.
    FRAME_OVERDUE = 71  # The device did not return a frame in time.
    CANARY_DIFFERS = 72  # A result that never changes has changed: weights, device or memory cannot be trusted.
