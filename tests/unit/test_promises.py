"""Tests that each promise in docs/reliability.md has a test."""

from __future__ import annotations

import pytest

from tests.support.promises import command_of, holding_tests, read_promises

REGISTER = {"T": 12, "P": 7, "E": 12, "S": 12, "D": 6, "O": 4}  # Number of promises of each kind.
HELD_BY = holding_tests()


def test_every_promise_is_documented_once_and_has_tests() -> None:
    register = [f"{kind}{n}" for kind, most in REGISTER.items() for n in range(1, most + 1)]
    assert read_promises() == register
    assert list(HELD_BY) == register


@pytest.mark.parametrize(("number", "tests"), HELD_BY.items(), ids=HELD_BY)
def test_tests_of_each_promise_exist(number: str, tests: list[str]) -> None:
    assert tests, number
    assert [test for test in tests if not command_of(test)] == []


def test_missing_test_is_detected() -> None:
    assert command_of("unit/test_promises.py::test_missing_test_is_detected") == "test"
    assert command_of("unit/test_promises.py::test_that_was_never_there") == ""
    assert command_of("unit/test_nothing.py::test_it") == ""
    assert command_of("wire/test_watchdog.py::test_supervisor_restarts_an_unhealthy_runtime_with_the_reason") == (
        "test-all"
    )
