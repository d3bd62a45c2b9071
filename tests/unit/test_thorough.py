"""The table of what `make test` leaves out names tests that are there."""

from __future__ import annotations

import ast

import pytest

from tests.support.thorough import KEPT, ROOT, THIRDS, THOROUGH, is_thorough, is_wholly_thorough, third_of


@pytest.mark.parametrize("table", [THOROUGH, KEPT], ids=["thorough", "kept"])
def test_every_row_names_a_file_and_tests_in_it(table: dict[str, tuple[str, ...]]) -> None:
    for path, names in table.items():
        assert (ROOT / path).exists(), path
        if names:
            defined = {
                each.name for each in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))) if hasattr(each, "name")
            }
            assert {name.partition("[")[0] for name in names} <= defined, path


def test_the_thirds_are_all_files_and_about_as_many_each() -> None:
    thirds = [third_of(f"{path.relative_to(ROOT)}::test_any") for path in (ROOT / "tests").rglob("test_*.py")]
    assert {*thirds} == {*range(THIRDS)}
    assert all(0.25 < thirds.count(third) / len(thirds) < 0.42 for third in range(THIRDS))


def test_a_row_of_a_folder_holds_for_its_files_and_what_is_kept_is_not_left_out() -> None:
    assert is_thorough("tests/clients/test_openai.py::test_speech[pcm]")
    assert is_thorough("tests/browser/test_clone.py::test_the_countdown_can_be_called_off")
    assert not is_thorough(
        "tests/browser/test_clone.py::test_a_long_recording_says_what_can_be_used_of_it_and_nothing_outlives_the_next"
    )
    assert not is_thorough("tests/browser/test_scheduled.py::test_any[1]")
    assert not is_thorough("tests/unit/test_cli.py::test_any")


def test_a_file_is_left_out_whole_where_no_test_of_it_is_kept() -> None:
    assert is_wholly_thorough("tests/clients/test_openai.py")
    assert is_wholly_thorough("tests/browser/test_host.py")
    assert not is_wholly_thorough("tests/browser/test_clone.py")
    assert not is_wholly_thorough("tests/browser/test_scheduled.py")
    assert not is_wholly_thorough("tests/unit/test_cli.py")
