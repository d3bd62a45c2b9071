"""Number of Hypothesis examples for each test profile, such as `make test-all`."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 3
MORE = 50


def examples(count: int) -> int:
    """Return the number of Hypothesis examples for the current test profile.

    Args:
        count: Number of examples in the profile of `make test`.
    """
    match settings.get_current_profile_name():
        case "quick":
            return max(FEWEST, count // 10)
        case "proof":
            return MORE * count
        case _:
            return count
