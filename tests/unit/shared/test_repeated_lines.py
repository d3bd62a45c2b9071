"""Tests for the rate limit of repeated log messages."""

from __future__ import annotations

import logging

from fastapi import FastAPI

from runtime.settings import Settings
from runtime.shared.repeated_lines import RepeatedLines
from studio.server import config


def test_repeated_line_is_logged_once_a_second_with_a_count() -> None:
    now, lines = 100.0, []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log, handler = logging.Logger("test"), Kept()
    handler.addFilter(RepeatedLines(lambda: now))
    log.addHandler(handler)
    for step in range(5001):
        now = 100.0 + step / 1000
        log.warning("a request of %d could not be read", step)
        if step % 1000 == 1:
            log.warning("another place")
    assert lines == [
        "a request of 0 could not be read",
        "another place",
        "a request of 1000 could not be read (999 more like this in 1 s)",
        "another place",
        "a request of 2000 could not be read (999 more like this in 1 s)",
        "another place",
        "a request of 3000 could not be read (999 more like this in 1 s)",
        "another place",
        "a request of 4000 could not be read (999 more like this in 1 s)",
        "another place",
        "a request of 5000 could not be read (999 more like this in 1 s)",
    ]


def test_request_log_lines_are_never_suppressed() -> None:
    record = logging.makeLogRecord({"figures": {"request": "1"}})
    lines = RepeatedLines(lambda: 0.0)
    assert [lines.filter(record) for _ in range(10)] == [True] * 10


def test_studio_server_logs_through_rate_limited_handlers() -> None:
    """Otherwise, Uvicorn would add a log handler without a limit for malformed requests."""
    before = list(logging.getLogger("uvicorn").handlers)  # Libraries in other tests may have added handlers.
    port = config(FastAPI(), Settings())
    assert port.log_config is None
    assert logging.getLogger("uvicorn").handlers == before
