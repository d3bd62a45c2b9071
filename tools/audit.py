"""Asks whether anything that is locked has a known hole: `make audit`, or `python tools/audit.py PIP_AUDIT [LOCK ...]`.

pip-audit asks PyPI, package by package, and says of one that PyPI does not answer for that nothing is known: an index
that only mirrors files, or a machine without a network, would so pass for a clean bill. Here nothing counts as audited
that was not. Exit status 1: there are holes; 3: not everything could be asked for, and the last line says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOLES, UNKNOWN = 1, 3
LONGEST_S = 600
OPTIONS = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off")


@dataclass(slots=True)
class Audit:
    """What is known of some packages."""

    clean: set[str] = field(default_factory=set)  # name and version
    holes: set[str] = field(default_factory=set)  # a sentence each
    unasked: set[str] = field(default_factory=set)  # name, of those of which nothing could be learnt

    @property
    def status(self) -> int:
        """The exit status."""
        return HOLES if self.holes else UNKNOWN if self.unasked or not self.clean else 0

    @property
    def sentence(self) -> str:
        """The last line."""
        said = [f"Without a known hole: {len(self.clean)}."] if self.clean else []
        if self.holes:
            said.append(f"Known holes: {len(self.holes)}.")
        if self.unasked:
            some = ", ".join(sorted(self.unasked)[:5]) + (", …" if len(self.unasked) > 5 else "")
            said.append(f"Not audited, since no service could be asked: {len(self.unasked)} ({some}).")
        return " ".join(said or ["Not audited: there is nothing in the locks."])


def read(said: str, lock: str, audit: Audit) -> None:
    """Add what pip-audit has said of a lock, in JSON.

    Raises:
        ValueError: it is none.
    """
    document: dict[str, Any] = json.loads(said)
    for package in document["dependencies"]:
        if "skip_reason" in package:
            audit.unasked.add(package["name"])
            continue
        name = f"{package['name']} {package['version']}"
        for hole in package["vulns"]:
            mended = ", ".join(hole["fix_versions"]) or "nothing yet"
            audit.holes.add(f"{lock}: {name} has {hole['id']}; mended in {mended}")
        if not package["vulns"]:
            audit.clean.add(name)


def ask(pip_audit: Path, lock: Path, audit: Audit, *options: str) -> None:
    """Let pip-audit ask for a lock; where it cannot, every package of the lock is unasked."""
    command = [str(pip_audit), "--requirement", str(lock), *OPTIONS, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    try:
        read(done.stdout, lock.name, audit)
    except ValueError:
        why = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
        print(f"{lock.name}: pip-audit could not ask: {why}", file=sys.stderr)
        audit.unasked |= {pin.partition("==")[0] for pin in lock.read_text("utf-8").splitlines() if "==" in pin}


def main() -> int:
    """Every lock, then a line for each hole, then one for all."""
    pip_audit, *locks = map(Path, sys.argv[1:])
    audit = Audit()
    for lock in locks or sorted(Path().glob("requirements*.lock")):
        ask(pip_audit, lock, audit)
    for hole in sorted(audit.holes):
        print(hole)
    print(audit.sentence)
    return audit.status


if __name__ == "__main__":
    sys.exit(main())
