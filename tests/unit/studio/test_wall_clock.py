"""Tests that a wrong system date does not delete stored data."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import httpx
import pytest

from studio import store_service
from studio.store_service import WallClock
from tests.support.keeping import save, serving, visitor_client

YEAR = 365 * 86400.0


def test_clock_jump_is_logged_once() -> None:
    wall, passed = 1000.0, 0.0
    clock = WallClock(lambda: wall, lambda: passed)
    wall, passed = wall + 3600, passed + 3601  # The wall clock advances by one second less than the monotonic clock.
    assert clock.jumped_s() == 0
    wall, passed = wall + YEAR, passed + 3600
    assert clock.jumped_s() == pytest.approx(YEAR - 3600)
    wall, passed = wall + 3600, passed + 3600
    assert clock.jumped_s() == 0
    wall, passed = wall - YEAR, passed + 3600
    assert clock.jumped_s() == pytest.approx(-YEAR - 3600)


def test_deleted_take_can_be_restored_after_a_temporary_clock_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The recycle bin is checked for expired takes every 0.6 s.

    With a clock that is one year ahead, all takes in the bin would be expired.
    """
    true_time, ahead, looks = time.time, 0, []
    monkeypatch.setattr(store_service, "TIDY_S", 0.6)

    class Back(logging.Handler):
        """Log handler that corrects the clock as soon as the jump is logged.

        The next check of the recycle bin is later.
        """

        def emit(self, record: logging.LogRecord) -> None:
            nonlocal ahead
            if "clock jumped" in record.getMessage():
                looks.append(record.getMessage())
                ahead = 0

    with caplog.at_level(logging.WARNING), serving(tmp_path) as address, visitor_client(address) as client:
        handler = Back()
        store_service.log.addHandler(handler)
        take = save(client)["id"]
        assert client.delete(f"studio/takes/{take}").is_success
        monkeypatch.setattr(time, "time", lambda: true_time() + ahead)
        ahead = YEAR
        until = time.monotonic() + 60
        while len(looks) < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        store_service.log.removeHandler(handler)
        assert "jumped by 3153" in looks[0]
        assert "jumped by -3153" in looks[1]
        time.sleep(0.8)  # The bin is checked once more in this time.
        answer: httpx.Response = client.post(f"studio/takes/{take}/restore")
        assert answer.is_success
        assert client.get(f"studio/takes/{take}").json()["id"] == take
