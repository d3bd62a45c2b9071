"""docs/reliability.md names every promise of the register, and only tests that exist, where they run."""

from __future__ import annotations

import pytest

from tests.support.reliability_table import PAGE, promises, where

REGISTER = {"T": 12, "P": 7, "E": 12, "S": 12, "D": 6, "O": 4}  # kinds of promises, and how many of each
ROWS = promises(PAGE.read_text(encoding="utf-8"))


def test_every_promise_of_the_register_is_there_once() -> None:
    assert [row.number for row in ROWS] == [f"{kind}{n}" for kind, most in REGISTER.items() for n in range(1, most + 1)]


@pytest.mark.parametrize("row", ROWS, ids=[row.number for row in ROWS])
def test_each_is_held_by_tests_that_run_where_it_is_said(row: object) -> None:
    (promise,) = [each for each in ROWS if each is row]
    assert promise.figure
    assert promise.tests
    assert {test: where(test) for test in promise.tests} == dict(zip(promise.tests, promise.runs_in, strict=True))


def test_a_test_that_is_gone_would_be_seen() -> None:
    assert where("unit/test_reliability_table.py::test_a_test_that_is_gone_would_be_seen") == "test"
    assert where("unit/test_reliability_table.py::test_that_was_never_there") == ""
    assert where("unit/test_nothing.py::test_it") == ""
    assert where("wire/test_watchdog.py::test_the_supervisor_starts_an_ailing_runtime_again_and_says_why") == "test-all"
