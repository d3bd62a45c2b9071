"""Selection of tests by the pytest markers `slow` and `quick`.

`make test` runs at least one test of each behaviour, and `make test-all` runs all tests. A test or file with the
marker `slow` runs only in `make test-all`. The marker `quick` overrides `slow`. The marker of a case has priority
over the marker of its test, which has priority over the marker of the file. Arguments of a marker select cases by ID.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GROUP_COUNT = 4  # Number of groups of test files. One CI run executes one group.
# Folders whose tests open a studio, import client packages for seconds, or kill processes.
SLOW_FOLDERS = ("tests/browser/", "tests/clients/", "tests/chaos/", "tests/proof/")
_MARK_OF_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(slow|quick)\b", re.MULTILINE)


def group_of(path: str) -> int:
    """Return the group number (0 to 3) of a test file, which is computed from its path."""
    return zlib.crc32(path.encode()) % GROUP_COUNT


def is_thorough(item: pytest.Item) -> bool:
    """Return True if only `make test-all` runs the test."""
    case = item.nodeid.partition("[")[2].removesuffix("]")
    parameters = getattr(item, "callspec", None)
    levels = [node.own_markers for node in reversed(item.listchain())]
    for marks in [parameters.marks, *levels] if parameters else levels:
        names = {mark.name for mark in marks if not mark.args or case in mark.args}
        if names & {"slow", "quick"}:
            return "quick" not in names
    return item.nodeid.startswith(SLOW_FOLDERS)


def is_slow_file(path: str, source: str) -> bool:
    """Return True if `make test` runs only the tests of a file that are marked `quick`."""
    mark = _MARK_OF_FILE.search(source)
    return mark[1] == "slow" if mark else path.startswith(SLOW_FOLDERS)


def is_thorough_file(path: str, source: str) -> bool:
    """Return True if `make test` runs no test of the file, so that pytest need not import it."""
    return is_slow_file(path, source) and "pytest.mark.quick" not in source
