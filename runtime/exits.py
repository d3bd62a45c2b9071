"""Exit statuses of the runtime process."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit status of the runtime process.

    A supervisor should restart the process if the status is 70 or higher.
    """

    ASKED = 0
    FAILED = 1  # An error that the operator cannot correct.
    BAD_INPUT = 2  # An error that the operator can correct. A restart would not help.
    ENGINE_DIED = 70  # The engine's thread has ended with an exception. The value is EX_SOFTWARE.
    FRAME_OVERDUE = 71  # The device did not return a frame in time.
    # The result of the server's self-test has changed, so weights, device or memory may be corrupt.
    CANARY_DIFFERS = 72
