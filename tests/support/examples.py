"""Hypothesis tries so many examples: all in `make test-all`, a tenth in `make test`."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 3


def examples(count: int) -> int:
    """How many of ``count`` examples the profile that was chosen takes."""
    return max(FEWEST, count // 10) if settings.get_current_profile_name() == "quick" else count
