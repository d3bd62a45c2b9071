"""Tests for request logs: one line per request, without the user's text."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from runtime.errors import EngineDead, QueueTimeout
from runtime.request import Broken, Finished, Mode, RequestStats, StopReason
from runtime.server.logs import RequestLog, configure_logging, log_end
from runtime.settings import ServerSettings

DONE = Finished(stop_reason=StopReason.EOS, stats=RequestStats(frames=3, audio_s=0.24, total_ms=120, ttfa_ms=31.25))


@pytest.fixture
def root() -> Iterator[io.StringIO]:
    """Yield the output of the root logger at level INFO."""
    written, logger = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(written)
    before = logger.handlers, logger.level
    # The handlers of pytest are saved, because configure_logging() also changes them.
    pytests = [(one, one.formatter, list(one.filters)) for one in logger.handlers]
    logger.handlers, logger.level = [handler], logging.INFO
    logger.setLevel(logging.INFO)
    yield written
    logger.handlers = before[0]
    logger.setLevel(before[1])
    for one, formatter, filters in pytests:
        one.setFormatter(formatter)
        one.filters = filters


def spoken(text: str | None = None) -> RequestLog:
    entry = RequestLog(id="9b1c/2", dialect="voicewright", mode=Mode.BASE, text=text)
    entry.append_text("My words, ")
    entry.append_text("und dann.")
    return entry


def test_json_log_line_contains_every_metric(root: io.StringIO) -> None:
    configure_logging(ServerSettings(log_format="json"))
    log_end(spoken(), DONE)
    (line,) = root.getvalue().splitlines()
    fields = json.loads(line)
    assert fields["time"].endswith("Z")
    known = ("level", "request", "dialect", "mode", "chars", "stop", "code", "frames", "ttfa_ms", "rtf")
    assert [fields[name] for name in known] == [
        "INFO", "9b1c/2", "voicewright", "base", 19, "eos", None, 3, 31.25, 0.5,
    ]  # fmt: skip
    assert "words" not in line


def test_text_log_line_contains_every_metric(root: io.StringIO) -> None:
    configure_logging(ServerSettings())
    log_end(spoken(), Broken(QueueTimeout(limit=30, retry_after_s=2), RequestStats()))
    (line,) = root.getvalue().splitlines()
    assert " INFO runtime.server.logs: request ended " in line
    assert 'request="9b1c/2" dialect="voicewright" mode="base" chars=19 stop="error" code="queue_timeout"' in line
    assert "words" not in line


@pytest.mark.logs_errors
def test_internal_error_is_logged_at_error_level(root: io.StringIO) -> None:
    configure_logging(ServerSettings(log_format="json"))
    log_end(spoken(), Broken(EngineDead(), RequestStats()))
    assert json.loads(root.getvalue())["level"] == "ERROR"


def test_failure_after_a_cancel_is_not_logged_as_an_error(root: io.StringIO) -> None:
    configure_logging(ServerSettings(log_format="json"))
    entry = spoken()
    entry.is_cancelled = True
    log_end(entry, Broken(EngineDead(), RequestStats()))
    assert json.loads(root.getvalue())["level"] == "INFO"


def test_text_is_logged_only_if_enabled_and_on_one_line(root: io.StringIO) -> None:
    for form in ("text", "json"):
        configure_logging(ServerSettings(log_format=form))
        log_end(spoken(text="Line\n"), DONE)
    assert len(root.getvalue().splitlines()) == 2
    assert all("Line\\nMy words, und dann." in line for line in root.getvalue().splitlines())


@pytest.mark.logs_errors
def test_internal_exception_is_one_json_line_with_its_traceback(root: io.StringIO) -> None:
    configure_logging(ServerSettings(log_format="json"))
    try:
        raise RuntimeError("cause")
    except RuntimeError:
        logging.getLogger("runtime").exception("it failed")
    (line,) = root.getvalue().splitlines()
    assert "RuntimeError: cause" in json.loads(line)["exception"]
