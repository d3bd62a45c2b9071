"""Tests for the markers `slow` and `quick`, which select tests for `make test-all`."""

from __future__ import annotations

import pytest

from tests.support.thorough import GROUP_COUNT, ROOT, group_of, is_thorough, is_thorough_file

SLOW_FILE = "pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.browser,\n]\n"


def test_test_files_are_distributed_evenly_over_the_groups() -> None:
    groups = [group_of(str(path.relative_to(ROOT))) for path in (ROOT / "tests").rglob("test_*.py")]
    assert {*groups} == {*range(GROUP_COUNT)}
    assert all(0.19 < groups.count(group) / len(groups) < 0.31 for group in range(GROUP_COUNT))


@pytest.mark.slow("slow case", "slow parameter")
@pytest.mark.parametrize(
    "is_slow",
    [
        pytest.param(True, id="slow case"),
        pytest.param(False, id="other case"),
        pytest.param(True, id="parameter", marks=pytest.mark.slow),
        pytest.param(False, id="slow parameter", marks=pytest.mark.quick),
    ],
)
def test_pytest_mark_closest_to_a_test_takes_precedence(request: pytest.FixtureRequest, is_slow: bool) -> None:
    assert is_thorough(request.node) is is_slow


@pytest.mark.parametrize(
    ("path", "source", "is_left_out"),
    [
        ("tests/clients/test_any.py", "", True),
        ("tests/unit/test_any.py", "", False),
        ("tests/unit/test_any.py", SLOW_FILE, True),
        ("tests/unit/test_any.py", SLOW_FILE + "@pytest.mark.quick\n", False),
        ("tests/unit/test_any.py", "@pytest.mark.slow\n", False),
        ("tests/browser/test_any.py", "pytestmark = [pytest.mark.quick, pytest.mark.browser]\n", False),
    ],
)
def test_file_without_quick_tests_is_not_imported(path: str, source: str, is_left_out: bool) -> None:
    assert is_thorough_file(path, source) is is_left_out
