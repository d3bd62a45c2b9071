"""Test of the time to first audio on a GPU with four clients, compared with one client."""

from __future__ import annotations

from tests.support.concurrent_clients import MAX_RATIO, medians_on
from tests.support.cuda import needs_gpu

pytestmark = needs_gpu


def test_four_clients_wait_at_most_four_times_as_long_as_one() -> None:
    alone, together = medians_on("cuda")
    assert together <= MAX_RATIO * alone, (alone, together)
