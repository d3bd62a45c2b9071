"""Tests for the dependency audit: results of pip-audit, and packages without results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.thorough import ROOT
from tools.audit import UNKNOWN, VULNERABLE, Audit, Pin, pins

# Report in the format of pip-audit 2.10.1.
CLEAN = {"name": "attrs", "version": "26.1.0", "vulns": []}
FOUND = {
    "name": "idna",
    "version": "3.20",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3.21"], "aliases": ["GHSA-x"], "description": "…"}],
}
NOT_FOUND = {
    "name": "torch",
    "skip_reason": "Dependency not found on PyPI and could not be audited: torch (2.13.0)",
}


LOCKED = {Pin("attrs", "26.1.0"), Pin("idna", "3.20"), Pin("torch", "2.13.0")}


def audited(*packages: dict[str, Any]) -> Audit:
    audit = Audit()
    audit.add_findings({"dependencies": list(packages), "fixes": []}, "a.lock", LOCKED)
    return audit


@pytest.mark.parametrize(
    ("packages", "status", "sentence"),
    [
        ((CLEAN,), 0, "Without a known vulnerability: 1."),
        ((CLEAN, FOUND), VULNERABLE, "Without a known vulnerability: 1. Known vulnerabilities: 1."),
        (
            (CLEAN, NOT_FOUND),
            UNKNOWN,
            "Without a known vulnerability: 1. Not audited, since PyPI did not answer: 1 (torch 2.13.0).",
        ),
        ((NOT_FOUND,), UNKNOWN, "Not audited, since PyPI did not answer: 1 (torch 2.13.0)."),
        (
            (NOT_FOUND, FOUND),
            VULNERABLE,
            "Known vulnerabilities: 1. Not audited, since PyPI did not answer: 1 (torch 2.13.0).",
        ),
        ((), UNKNOWN, "Not audited: there is nothing in the locks."),
    ],
)
def test_audit_passes_only_for_exactly_the_requested_packages(
    packages: tuple[dict[str, Any], ...], status: int, sentence: str
) -> None:
    audit = audited(*packages)
    assert (audit.status, audit.sentence) == (status, sentence)


def test_vulnerability_report_contains_the_fixed_release() -> None:
    assert audited(FOUND).vulnerabilities == {"a.lock: idna 3.20 has CVE-1; fixed in 3.21"}


def test_network_failure_is_reported_and_does_not_pass(tmp_path: Path) -> None:
    """If no host name can be resolved, pip-audit ends with a traceback and without JSON."""
    silent = tmp_path / "pip-audit"
    silent.write_text(f"#!{sys.executable}\nraise ConnectionError('Failed to resolve the name')\n")
    silent.chmod(0o700)
    lock = tmp_path / "some.lock"
    lock.write_text("# Made by hand.\nattrs==26.1.0\nidna==3.20 ; python_version < '3.13'\n")
    command = [sys.executable, "tools/audit.py", str(silent), str(lock)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == UNKNOWN
    assert done.stdout == "Not audited, since PyPI did not answer: 2 (attrs 26.1.0, idna 3.20).\n"
    assert done.stderr == "some.lock: pip-audit failed: ConnectionError: Failed to resolve the name\n"


def test_lock_file_is_parsed_with_normalized_names(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("# Made by hand.\nAutomat==25.4.16\nav==18.1.0 ; python_version < '3.12'\nzope.interface==7.0\n")
    assert pins(lock) == {Pin("automat", "25.4.16"), Pin("av", "18.1.0"), Pin("zope-interface", "7.0")}
