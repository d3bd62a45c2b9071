"""Tests for the soak test's report of violated guarantees."""

from __future__ import annotations

import pytest

from benchmarks.common.metrics import RequestOutcome, RequestTrace
from benchmarks.soak.clients import SoakReport


def test_soak_without_faults_reports_no_violation() -> None:
    report = SoakReport(leaked_slots=0, unloaded_ttfa_ms=[50.0], ttfa_ms=[60.0, 90.0, 100.0])
    report.note_error(RequestTrace(0, 0, outcome=RequestOutcome.REFUSED, code="overloaded"))
    assert report.broken() == []


@pytest.mark.parametrize(
    ("report", "promise"),
    [
        (SoakReport(leaked_slots=0, different=["whole: 3 Hello."]), "a stream was not its solo run"),
        (SoakReport(leaked_slots=1), "slots leaked"),
        (SoakReport(leaked_slots=0, stalls=1), "a reply hung"),
        (SoakReport(leaked_slots=0, unloaded_ttfa_ms=[50], ttfa_ms=[90, 101, 102]), "TTFA under load is more than"),
    ],
)
def test_soak_report_contains_the_violation(report: SoakReport, promise: str) -> None:
    (found,) = report.broken()
    assert found.startswith(promise)


def test_audio_after_a_cancel_is_reported_as_a_violation() -> None:
    report = SoakReport(leaked_slots=0)
    report.note_error(RequestTrace(0, 0, outcome=RequestOutcome.FAILED, code="audio_after_cancel"))
    assert report.broken() == ["audio came after a cancel"]
