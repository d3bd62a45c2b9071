"""Number of Hypothesis examples per profile (`make test`, `make test-all`, proof)."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 3
MORE = 50


def examples(count: int) -> int:
    """Return the number of Hypothesis examples for the current profile.

    Args:
        count: Number of examples of the default profile.
    """
    match settings.get_current_profile_name():
        case "quick":
            return max(FEWEST, count // 10)
        case "proof":
            return MORE * count
        case _:
            return count
