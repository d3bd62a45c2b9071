"""What pip-audit says is read as it is meant: what it could not ask for is not clean."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.thorough import ROOT
from tools.audit import HOLES, UNKNOWN, Audit, read

# As pip-audit 2.10.1 writes them.
CLEAN = {"name": "attrs", "version": "26.1.0", "vulns": []}
HOLE = {
    "name": "idna",
    "version": "3.20",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3.21"], "aliases": ["GHSA-x"], "description": "…"}],
}
NOT_FOUND = {
    "name": "torch",
    "skip_reason": "Dependency not found on PyPI and could not be audited: torch (2.13.0)",
}


def audited(*packages: dict[str, Any]) -> Audit:
    audit = Audit()
    read(json.dumps({"dependencies": list(packages), "fixes": []}), "a.lock", audit)
    return audit


@pytest.mark.parametrize(
    ("packages", "status", "sentence"),
    [
        ((CLEAN,), 0, "Without a known hole: 1."),
        ((CLEAN, HOLE), HOLES, "Without a known hole: 1. Known holes: 1."),
        (
            (CLEAN, NOT_FOUND),
            UNKNOWN,
            "Without a known hole: 1. Not audited, since no service could be asked: 1 (torch).",
        ),
        ((NOT_FOUND,), UNKNOWN, "Not audited, since no service could be asked: 1 (torch)."),
        (
            (NOT_FOUND, HOLE),
            HOLES,
            "Known holes: 1. Not audited, since no service could be asked: 1 (torch).",
        ),
        ((), UNKNOWN, "Not audited: there is nothing in the locks."),
    ],
)
def test_only_what_was_asked_for_is_clean(packages: tuple[dict[str, Any], ...], status: int, sentence: str) -> None:
    audit = audited(*packages)
    assert (audit.status, audit.sentence) == (status, sentence)


def test_a_hole_is_named_with_what_mends_it() -> None:
    assert audited(HOLE).holes == {"a.lock: idna 3.20 has CVE-1; mended in 3.21"}


def test_a_network_that_is_not_there_is_said_and_is_no_clean_bill(tmp_path: Path) -> None:
    """As where no name can be resolved: pip-audit ends with a traceback and without a word of JSON."""
    silent = tmp_path / "pip-audit"
    silent.write_text(f"#!{sys.executable}\nraise ConnectionError('Failed to resolve the name')\n")
    silent.chmod(0o700)
    lock = tmp_path / "some.lock"
    lock.write_text("# Made by hand.\nattrs==26.1.0\nidna==3.20 ; python_version < '3.13'\n")
    command = [sys.executable, "tools/audit.py", str(silent), str(lock)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == UNKNOWN
    assert done.stdout == "Not audited, since no service could be asked: 2 (attrs, idna).\n"
    assert done.stderr == "some.lock: pip-audit could not ask: ConnectionError: Failed to resolve the name\n"
