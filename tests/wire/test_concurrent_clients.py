"""Test of the time to first audio on a CPU with four clients, compared with one client."""

from __future__ import annotations

import pytest

from tests.support.concurrent_clients import MAX_RATIO, medians_on


@pytest.mark.slow
def test_four_clients_wait_at_most_four_times_as_long_as_one() -> None:
    alone, together = medians_on("cpu")
    assert together <= MAX_RATIO * alone, (alone, together)
