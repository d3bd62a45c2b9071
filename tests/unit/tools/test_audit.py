"""What pip-audit says is read as it is meant: what it could not ask for is not clean."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.thorough import ROOT
from tools.audit import HOLES, UNKNOWN, Audit, Pin, ask_newest, pins, read

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


LOCKED = {Pin("attrs", "26.1.0"), Pin("idna", "3.20"), Pin("torch", "2.13.0")}


def audited(*packages: dict[str, Any]) -> Audit:
    audit = Audit()
    read(json.dumps({"dependencies": list(packages), "fixes": []}), "a.lock", LOCKED, audit)
    return audit


@contextmanager
def index(pages: dict[str, dict[str, Any]]) -> Iterator[str]:
    """An index that has these projects' pages, and no page of any release."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/").removesuffix("/json")
            self.send_response(200 if name in pages else 404)
            self.end_headers()
            self.wfile.write(json.dumps(pages.get(name)).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def page(version: str, *holes: dict[str, Any]) -> dict[str, Any]:
    """As PyPI writes them."""
    return {"info": {"version": version}, "vulnerabilities": list(holes)}


@pytest.mark.parametrize(
    ("packages", "status", "sentence"),
    [
        ((CLEAN,), 0, "Without a known hole: 1."),
        ((CLEAN, HOLE), HOLES, "Without a known hole: 1. Known holes: 1."),
        (
            (CLEAN, NOT_FOUND),
            UNKNOWN,
            "Without a known hole: 1. Not audited, since no service could be asked: 1 (torch 2.13.0).",
        ),
        ((NOT_FOUND,), UNKNOWN, "Not audited, since no service could be asked: 1 (torch 2.13.0)."),
        (
            (NOT_FOUND, HOLE),
            HOLES,
            "Known holes: 1. Not audited, since no service could be asked: 1 (torch 2.13.0).",
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
    assert done.stdout == "Not audited, since no service could be asked: 2 (attrs 26.1.0, idna 3.20).\n"
    assert done.stderr == "some.lock: pip-audit could not ask: ConnectionError: Failed to resolve the name\n"


def test_a_lock_is_read_with_the_names_that_an_index_has(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("# Made by hand.\nAutomat==25.4.16\nav==18.1.0 ; python_version < '3.12'\nzope.interface==7.0\n")
    assert pins(lock) == {Pin("automat", "25.4.16"), Pin("av", "18.1.0"), Pin("zope-interface", "7.0")}


def test_the_page_of_a_project_tells_of_its_newest_release_and_of_no_other(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("attrs==26.1.0\nav==18.1.0\necdsa==0.19.2\nidna==3.20\nnobody==1.0\nregex==2026.1\n")
    hole = {"id": "PYSEC-1", "fixed_in": [], "withdrawn": None}
    pages = {
        "attrs": page("26.1.0"),
        "av": page("19.0.2"),
        "ecdsa": page("0.19.2", hole),
        "idna": page("3.20", hole | {"withdrawn": "2026-01-01T00:00:00Z"}),
        "regex": {"info": {"version": "2026.1"}},
    }
    audit = Audit(unasked=pins(lock))
    with index(pages) as url:
        ask_newest(url, [lock], audit)
    assert audit.clean == {Pin("attrs", "26.1.0"), Pin("idna", "3.20")}
    assert audit.holes == {"some.lock: ecdsa 0.19.2 has PYSEC-1; mended in nothing yet"}
    assert audit.unasked == {Pin("av", "18.1.0"), Pin("nobody", "1.0"), Pin("regex", "2026.1")}


def test_an_index_that_is_not_there_has_told_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("attrs==26.1.0\n")
    with index({}) as url:
        pass
    audit = Audit(unasked=pins(lock))
    ask_newest(url, [lock], audit)
    assert (audit.status, audit.unasked) == (UNKNOWN, pins(lock))
