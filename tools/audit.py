"""Audit of locked packages for known vulnerabilities: `make audit`, or `python tools/audit.py PIP_AUDIT [LOCK ...]`.

pip-audit asks PyPI, release by release, and says of one that PyPI does not answer for that nothing is known: an index
that only mirrors files, or a machine without a network, would so pass for a clean bill. Here nothing counts as audited
that was not. With ``--index URL`` the index is asked once more for what pip-audit could not learn, by its page of the
whole project, which some mirrors have alone: it tells of the holes of the newest release, and so of a pin that is the
newest, and of no other. Exit status 1: there are holes; 3: not everything could be asked for, and the last line says
so.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

HOLES, UNKNOWN = 1, 3
LONGEST_S = 600
PAGE_S = 30
TOGETHER = 4
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
OPTIONS = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off")


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """A release that is locked."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(slots=True)
class Audit:
    """Audit results of some releases."""

    clean: set[Pin] = field(default_factory=set)
    holes: set[str] = field(default_factory=set)  # a sentence each
    unasked: set[Pin] = field(default_factory=set)  # of which nothing could be learnt

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
            some = ", ".join(map(str, sorted(self.unasked)[:5])) + (", …" if len(self.unasked) > 5 else "")
            said.append(f"Not audited, since no service could be asked: {len(self.unasked)} ({some}).")
        return " ".join(said or ["Not audited: there is nothing in the locks."])

    def learn(self, pin: Pin, lock: str, holes: Iterable[tuple[str, list[str]]]) -> None:
        """Store a service's findings on a release: vulnerabilities with the releases that fix them."""
        told = {f"{lock}: {pin} has {hole}; mended in {', '.join(mended) or 'nothing yet'}" for hole, mended in holes}
        self.holes |= told
        if not told:
            self.clean.add(pin)


def canonical(name: str) -> str:
    """A project's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: Path) -> set[Pin]:
    """Every release of a lock, for whatever machine it is."""
    return {Pin(canonical(name), version) for name, version in PIN.findall(lock.read_text(encoding="utf-8"))}


def read(said: str, lock: str, locked: set[Pin], audit: Audit) -> None:
    """Add what pip-audit has said of a lock, in JSON.

    Raises:
        ValueError: it is none.
    """
    document: dict[str, Any] = json.loads(said)
    for package in document["dependencies"]:
        if "skip_reason" in package:
            audit.unasked |= {pin for pin in locked if pin.name == canonical(package["name"])}
            continue
        pin = Pin(canonical(package["name"]), package["version"])
        audit.learn(pin, lock, ((hole["id"], hole["fix_versions"]) for hole in package["vulns"]))


def ask(pip_audit: Path, lock: Path, audit: Audit) -> None:
    """Let pip-audit ask for a lock; where it cannot, every release of the lock is unasked."""
    command = [str(pip_audit), "--requirement", str(lock), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    try:
        read(done.stdout, lock.name, pins(lock), audit)
    except ValueError:
        why = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
        print(f"{lock.name}: pip-audit could not ask: {why}", file=sys.stderr)
        audit.unasked |= pins(lock)


def page_of(index: str, name: str) -> dict[str, Any]:
    """The index's page of a project; empty where it has none, or cannot be asked."""
    try:
        with urllib.request.urlopen(f"{index}/{name}/json", timeout=PAGE_S) as answer:
            page: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):
        return {}
    return page


def ask_newest(index: str, locks: Iterable[Path], audit: Audit) -> None:
    """Ask the index for the projects that are unasked; what it tells goes for the newest release alone."""
    names = sorted({pin.name for pin in audit.unasked})
    with ThreadPoolExecutor(TOGETHER) as pool:
        pages = dict(zip(names, pool.map(partial(page_of, index), names), strict=True))
    # Without the list nothing was said, which is not the same as an empty one.
    told = {pin for pin in audit.unasked if "vulnerabilities" in pages[pin.name]}
    told = {pin for pin in told if pages[pin.name]["info"]["version"] == pin.version}
    for lock in locks:
        for pin in pins(lock) & told:
            holes = [hole for hole in pages[pin.name]["vulnerabilities"] if not hole.get("withdrawn")]
            audit.learn(pin, lock.name, ((hole["id"], hole["fixed_in"]) for hole in holes))
    audit.unasked -= told


def main() -> int:
    """Every lock, then a line for each hole, then one for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pip_audit", type=Path)
    parser.add_argument("lock", type=Path, nargs="*", help="all of this folder, if not given")
    parser.add_argument("--index", metavar="URL", help="of projects' pages in JSON, without the name of a project")
    arguments = parser.parse_args()
    audit, locks = Audit(), arguments.lock or sorted(Path().glob("requirements*.lock"))
    for lock in locks:
        ask(arguments.pip_audit, lock, audit)
    if arguments.index:
        ask_newest(arguments.index, locks, audit)
    for hole in sorted(audit.holes):
        print(hole)
    print(audit.sentence)
    return audit.status


if __name__ == "__main__":
    sys.exit(main())
