"""A real Chromium, started once, with a microphone that hears a file."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import soundfile
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.support.signals import SAMPLE_RATE, voice

ROOT = Path(__file__).resolve().parents[2]
HOW_TO_GET_IT = "Chromium was not found; get it with: apt-get install chromium (or set CHROMIUM to its path)"
MICROPHONE_S = 2.5


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; without one the tests skip, but for CI, where they must run."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(HOW_TO_GET_IT)
    return path


@pytest.fixture(scope="session")
def playwright(chromium: str) -> Iterator[Playwright]:
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake microphone hears, over and over; it ends in silence, so that the seam is none."""
    path = tmp_path_factory.mktemp("microphone") / "voice.wav"
    samples = voice(MICROPHONE_S, seed=3)
    samples[-SAMPLE_RATE // 2 :] = 0
    soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
    return path


@pytest.fixture(scope="session")
def browser(playwright: Playwright, chromium: str, microphone: Path) -> Iterator[Browser]:
    arguments = [
        "--no-sandbox",
        "--autoplay-policy=no-user-gesture-required",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}",
    ]
    launched = playwright.chromium.launch(executable_path=chromium, args=arguments)
    yield launched
    launched.close()


class _Modules(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".js": "text/javascript"}

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture(scope="session")
def modules() -> Iterator[str]:
    """assets/ served as plain files: the modules alone, with no studio around them."""
    handler = partial(_Modules, directory=str(ROOT / "assets"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def blank(browser: Browser, modules: str) -> Iterator[Page]:
    """An empty page on the modules' origin."""
    page = browser.new_page()
    page.goto(f"{modules}/html/base.html")
    yield page
    page.close()
