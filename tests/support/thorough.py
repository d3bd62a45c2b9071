"""Selection of tests by the markers `slow` and `quick`.

`make test` runs one test of each behaviour, and `make test-all` runs all tests. `slow`, at a test or in a file's
`pytestmark`, marks tests for `make test-all` only; `quick` reverses it. A parameter's mark has priority over the
test's, and this over the file's. Both markers accept ids of cases.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
THIRDS = 3  # Number of parts into which the files are divided. One CI run tests one part.
# Each file opens a studio, imports client packages for seconds, or kills processes.
SLOW_FOLDERS = ("tests/browser/", "tests/clients/", "tests/chaos/", "tests/proof/")
_MARK_OF_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(slow|quick)\b", re.MULTILINE)


def third_of(path: str) -> int:
    """Return the index (0 to 2) of the third to which a file belongs."""
    return zlib.crc32(path.encode()) % THIRDS


def is_thorough(item: pytest.Item) -> bool:
    """True if only `make test-all` runs the test."""
    case = item.nodeid.partition("[")[2].removesuffix("]")
    parameters = getattr(item, "callspec", None)
    levels = [node.own_markers for node in reversed(item.listchain())]
    for marks in [parameters.marks, *levels] if parameters else levels:
        names = {mark.name for mark in marks if not mark.args or case in mark.args}
        if names & {"slow", "quick"}:
            return "quick" not in names
    return item.nodeid.startswith(SLOW_FOLDERS)


def is_slow_file(path: str, source: str) -> bool:
    """True if the tests of a file are thorough unless they are marked `quick`."""
    mark = _MARK_OF_FILE.search(source)
    return mark[1] == "slow" if mark else path.startswith(SLOW_FOLDERS)


def is_thorough_file(path: str, source: str) -> bool:
    """True if `make test` runs no test of a file, so that the file is not imported."""
    return is_slow_file(path, source) and "pytest.mark.quick" not in source
