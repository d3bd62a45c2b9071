"""Fake Hugging Face Hub that serves local checkpoint folders over HTTP.

Clients use huggingface_hub. As on the Hub, weights are served after a redirect and with range requests. The fake Hub
can be slow, cut the connection, return errors, serve bytes that do not match its listing, or ignore ranges.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = (".safetensors", ".bin")
PIECE = 16384


@dataclass
class Hub:
    """Fake Hugging Face Hub with repositories, and with faults that a test selects."""

    repositories: dict[str, Path] = field(default_factory=dict)
    rate: float | None = None  # Number of bytes of weights per second. None disables the limit.
    # Number of bytes of weights after which a response stalls. Setting it to None ends the stall.
    hold_at: int | None = None
    break_after: int | None = None  # Number of bytes of weights after which the first connection is cut.
    status: int | None = None  # HTTP status of every response. None selects the normal status.
    is_damaged: bool = False
    knows_ranges: bool = True
    gated: set[str] = field(default_factory=set)
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # Method, path and range of each received request.
    sent: int = 0  # Number of bytes of weights sent.
    url: str = ""

    @property
    def elsewhere(self) -> str:
        """Return the base URL from which weights are served.

        Its host name differs from that of `url`, as on the real Hub.
        """
        return self.url.replace("127.0.0.1", "localhost")

    def weights_asked(self) -> list[str]:
        """Return the Range headers of all requests for weights, in order.

        An empty string is a request for the whole file.
        """
        return [ranges for method, path, ranges in self.asked if method == "GET" and path.startswith("/cdn/")]


@contextmanager
def asked_here(hub: Hub, home: Path) -> Iterator[Hub]:
    """Make huggingface_hub use the fake Hub and the cache folder `home` in the block."""
    with serving(hub), pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_CACHE", str(home))
        yield hub


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Run the HTTP server of the fake Hub at `hub.url`, and yield the fake Hub."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            hub.hold_at = None
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        self.hub.asked.append((self.command, path, self.headers.get("range", "")))
        with suppress(ConnectionError):
            if self.hub.status is not None:
                self._respond(self.hub.status, b"not today")
            elif path.startswith("/cdn/"):
                self._weights(path.removeprefix("/cdn/"))
            elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
                self._list(match[1], match[2] or "revision", match[3] or "main")
            elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                self._resolve(match[1], match[3])
            else:
                self._respond(404, b"")

    def _list(self, name: str, kind: str, revision: str) -> None:
        if name in self.hub.gated:
            return self._respond(403, b"", {"X-Error-Code": "GatedRepo"})
        folder = self.hub.repositories.get(name)
        if folder is None:
            return self._respond(404, b"", {"X-Error-Code": "RepoNotFound"})
        if revision not in {"main", COMMIT}:
            return self._respond(404, b"", {"X-Error-Code": "RevisionNotFound"})
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        listed = [_listed(folder, path, as_tree=kind == "tree") for path in files]
        answer: Any = listed if kind == "tree" else {"id": name, "sha": COMMIT, "siblings": listed}
        self._respond(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _resolve(self, name: str, path: str) -> None:
        file = self.hub.repositories.get(name, Path("/nowhere")) / path
        if not file.is_file():
            return self._respond(404, b"", {"X-Error-Code": "EntryNotFound"})
        head = {"X-Repo-Commit": COMMIT}
        if path.endswith(WEIGHTS):
            found = _sha256(file)
            linked = {"X-Linked-Etag": f'"{found}"', "X-Linked-Size": str(file.stat().st_size)}
            return self._respond(302, b"", {**head, **linked, "Location": f"{self.hub.elsewhere}/cdn/{name}/{path}"})
        return self._respond(200, file.read_bytes(), {**head, "ETag": f'"{_git_sha1(file)}"'})

    def _weights(self, path: str) -> None:
        owner, name, rest = path.split("/", 2)
        file = self.hub.repositories[f"{owner}/{name}"] / rest
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        is_part = wanted is not None and self.hub.knows_ranges
        whole = file.stat().st_size
        start, stop = int(wanted[1]) if wanted and is_part else 0, whole
        if wanted and is_part and wanted[2]:
            stop = min(whole, int(wanted[2]) + 1)
        self.send_response(206 if is_part else 200)
        self.send_header("Content-Length", str(stop - start))
        if is_part:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{whole}")
        self.end_headers()
        if self.command == "HEAD":
            return
        # Weights can have gigabytes, so they are sent in pieces. Simulated faults need smaller pieces.
        is_held = {self.hub.rate, self.hub.hold_at, self.hub.break_after} != {None}
        piece = PIECE if is_held else 64 * PIECE
        with file.open("rb") as source:
            source.seek(start)
            self._pass_on(source, start, stop, whole, piece)

    def _pass_on(self, source: BinaryIO, start: int, stop: int, whole: int, piece: int) -> None:
        for at in range(start, stop, piece):
            left = self.hub.break_after
            if left is not None and self.hub.sent >= left:
                self.hub.break_after = None
                self.close_connection = True
                return
            while self.hub.hold_at is not None and self.hub.sent >= self.hub.hold_at:
                time.sleep(0.02)
            data = source.read(min(piece, stop - at))
            if self.hub.is_damaged and at + len(data) == whole:
                data = data[:-1] + bytes([data[-1] ^ 1])
            self.wfile.write(data)
            self.hub.sent += len(data)
            if self.hub.rate is not None:
                time.sleep(piece / self.hub.rate)

    def _respond(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _listed(folder: Path, path: Path, *, as_tree: bool) -> dict[str, Any]:
    """Return the JSON entry of a file in a tree listing or in the model info."""
    size, name = path.stat().st_size, path.relative_to(folder).as_posix()
    lfs = {"size": size, "pointerSize": 134} if path.suffix in WEIGHTS else None
    if as_tree:
        entry = {"type": "file", "path": name, "size": size, "oid": _git_sha1(path)}
        return entry | ({"lfs": {**lfs, "oid": _sha256(path)}} if lfs else {})
    entry = {"rfilename": name, "size": size, "blobId": _git_sha1(path)}
    return entry | ({"lfs": {**lfs, "sha256": _sha256(path)}} if lfs else {})


def _sha256(path: Path) -> str:
    return _digest(path, "sha256", path.stat().st_mtime_ns)


def _git_sha1(path: Path) -> str:
    return _digest(path, "sha1", path.stat().st_mtime_ns)


@cache
def _digest(path: Path, kind: str, written_at: int) -> str:
    """Return the SHA-256 or git blob SHA-1 of a file, cached because weights are large."""
    known = hashlib.new(kind, usedforsecurity=False)
    if kind == "sha1":
        known.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while piece := file.read(2**20):
            known.update(piece)
    return known.hexdigest()
