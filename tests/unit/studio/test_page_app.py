"""Tests for the page's ASGI application, without a browser."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from studio.page.app import QUEUE_S, page
from tests.support.studio_port import studio_port
from tests.support.thorough import ROOT

pytestmark = pytest.mark.slow

LOOKS = 5


async def test_idle_gradio_queue_is_not_polled_continuously(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (gradio,) = (route.app for route in page(Starlette()).routes if isinstance(route, Mount) and route.path == "")
    queue = gradio.get_blocks()._queue  # type: ignore[attr-defined]
    looks: list[float] = []

    loop, length = asyncio.get_running_loop(), type(queue).__len__

    def counted(it: object) -> int:
        looks.append(loop.time())
        queue.stopped = len(looks) > LOOKS
        return int(length(it))

    monkeypatch.setattr(type(queue), "__len__", counted)
    queue.stopped = False
    await queue.start_processing()
    assert len(looks) == LOOKS + 1
    assert min(after - before for before, after in pairwise(looks)) > QUEUE_S / 2


def test_gradio_is_imported_without_writing_stub_files() -> None:
    program = """
import inspect
from pathlib import Path
from studio.page.app import without_stub_files

getfile, written = inspect.getfile, []
Path.write_text = lambda path, text, *rest, **others: written.append(path)
with without_stub_files():
    import gradio
    import gradio.component_meta as meta
    meta.create_or_modify_pyi(gradio.Button, "Button", [])
assert inspect.getfile is getfile
assert [path for path in written if path.suffix == ".pyi"] == [], written
assert inspect.getfile(gradio.Button).endswith("button.py")
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


PAGE_FILES = {
    ("GET", "/assets/nope.js"): (404, "unknown_route"),
    ("GET", "/static/img/nope.svg"): (404, "unknown_route"),
    ("GET", "/svelte/nope.js"): (404, "unknown_route"),
    ("GET", "/gradio_api/queue/join"): (405, "method_not_allowed"),
}
OWN_FILES = {
    ("GET", "/studio/js/nope.js"): (404, "unknown_route"),
    ("GET", "/studio/css/"): (404, "unknown_route"),
    ("GET", "/docs/images/nope.png"): (404, "unknown_route"),
    ("POST", "/studio/js/app.js"): (405, "method_not_allowed"),
}


def test_missing_files_are_refused_in_the_api_error_format() -> None:
    def refusals(client: httpx.Client, files: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
        answers = {file: client.request(*file) for file in files}
        return {file: (answer.status_code, answer.json()["error"]["code"]) for file, answer in answers.items()}

    assert refusals(TestClient(page(Starlette())), PAGE_FILES) == PAGE_FILES
    with studio_port("http://127.0.0.1:1") as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert refusals(client, OWN_FILES) == OWN_FILES
