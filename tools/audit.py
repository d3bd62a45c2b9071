"""Audit of the locked packages for known vulnerabilities: `make audit`.

It can also be run as `python tools/audit.py PIP_AUDIT [LOCK …]`. pip-audit queries PyPI for each release, and reports
no vulnerabilities for a release that is not on PyPI. Here, a release counts as audited only if PyPI has returned data
for it. The exit status is 1 if there are vulnerabilities. It is 3 if some releases could not be audited, and the last
line lists them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VULNERABLE, UNKNOWN = 1, 3
TIMEOUT_S = 600
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
OPTIONS = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off")


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """Name and version of a package that a lock file pins."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(slots=True)
class Audit:
    """Results of the audit of all lock files.

    They are the releases without vulnerabilities, the vulnerabilities, and the releases that could not be audited.
    """

    clean: set[Pin] = field(default_factory=set)
    vulnerabilities: set[str] = field(default_factory=set)
    unknown: set[Pin] = field(default_factory=set)

    @property
    def status(self) -> int:
        """Return the exit status of the audit command."""
        return VULNERABLE if self.vulnerabilities else UNKNOWN if self.unknown or not self.clean else 0

    @property
    def sentence(self) -> str:
        """Return a summary of the audit, which is the last line of the output."""
        parts = [f"Without a known vulnerability: {len(self.clean)}."] if self.clean else []
        if self.vulnerabilities:
            parts.append(f"Known vulnerabilities: {len(self.vulnerabilities)}.")
        if self.unknown:
            some = ", ".join(map(str, sorted(self.unknown)[:5])) + (", …" if len(self.unknown) > 5 else "")
            parts.append(f"Not audited, since PyPI did not answer: {len(self.unknown)} ({some}).")
        return " ".join(parts or ["Not audited: there is nothing in the locks."])

    def add_findings(self, document: dict[str, Any], lock: str, locked: set[Pin]) -> None:
        """Add the JSON result of pip-audit for one lock file.

        Args:
            document: JSON object that pip-audit has printed.
            lock: Name of the lock file.
            locked: All releases in the lock file.
        """
        for package in document["dependencies"]:
            name = canonical(package["name"])
            if "skip_reason" in package:
                self.unknown |= {pin for pin in locked if pin.name == name}
                continue
            pin = Pin(name, package["version"])
            for found in package["vulns"]:
                fixed = ", ".join(found["fix_versions"]) or "no release"
                self.vulnerabilities.add(f"{lock}: {pin} has {found['id']}; fixed in {fixed}")
            if not package["vulns"]:
                self.clean.add(pin)


def canonical(name: str) -> str:
    """Return the normalized name of a Python package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: Path) -> set[Pin]:
    """Return all pinned releases in a lock file, for all platforms."""
    return {Pin(canonical(name), version) for name, version in PIN.findall(lock.read_text(encoding="utf-8"))}


def audit_lock(pip_audit: Path, lock: Path, audit: Audit) -> None:
    """Run pip-audit on a lock file and add the result to `audit`.

    If pip-audit fails, all releases of the lock file count as unknown.
    """
    command = [str(pip_audit), "--requirement", str(lock), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    try:
        audit.add_findings(json.loads(done.stdout), lock.name, pins(lock))
    except ValueError:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no output")
        print(f"{lock.name}: pip-audit failed: {reason}", file=sys.stderr)
        audit.unknown |= pins(lock)


def main() -> int:
    """Audit all lock files, and print a line for each vulnerability and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pip_audit", type=Path)
    parser.add_argument("lock", type=Path, nargs="*", help="all of this folder, if not given")
    arguments = parser.parse_args()
    audit = Audit()
    for lock in arguments.lock or sorted(Path().glob("requirements*.lock")):
        audit_lock(arguments.pip_audit, lock, audit)
    print(*sorted(audit.vulnerabilities), audit.sentence, sep="\n")
    return audit.status


if __name__ == "__main__":
    sys.exit(main())
