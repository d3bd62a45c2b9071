"""Fixtures for the browser tests, for example Chromium with an audio file as microphone.

The fixtures have package scope and not session scope, because Playwright's event loop conflicts with every later call
of asyncio.run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, ViewportSize, expect, sync_playwright

from benchmarks.page import find_chromium
from tests.browser.script_steps import DIALOGUE, enter_script, new_script, paste
from tests.browser.slowness import Slowness
from tests.conftest import NO_CHROMIUM
from tests.support.app import ROOT, App, running_app
from tests.support.hub import Hub
from tests.support.signals import SAMPLE_RATE, voice
from tests.support.timeouts import TEST_TIMEOUT_S

HOW_TO_GET_IT = f"{NO_CHROMIUM}; get it with: apt-get install chromium (or set CHROMIUM to its path)"
MICROPHONE_S = 2.5
INSECURE_HOST = "studio.test"
POLICY = "Content Security Policy"  # Text that Chromium logs for each policy violation.
TAP = (Path(__file__).parent / "tap.js").read_text("utf-8")
SCREENSHOTS = ROOT / "artifacts" / "screenshots"
READY_MS = 1000 * TEST_TIMEOUT_S
expect.set_options(timeout=1000 * TEST_TIMEOUT_S)  # Results may be late, because other tests use the same processors.
VOICES = "/v1/audio/voices"
SCRIPTS = "/studio/scripts"
VIEWPORT: ViewportSize = {"width": 1200, "height": 860}
OF_A_PAGE = {"viewport", "color_scheme"}  # Options of a Playwright context that can be changed without a new window.


@pytest.fixture(scope="package")
def chromium() -> str:
    """Return the path of Chromium.

    If Chromium is not installed, tests are skipped, or fail in CI.
    """
    path = find_chromium()
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(HOW_TO_GET_IT)
    return path


@pytest.fixture(scope="package")
def playwright(chromium: str) -> Iterator[Playwright]:
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a WAV file for the fake microphone, and return its path.

    Chromium plays the file in a loop. It ends with silence, so that the loop has no click.
    """
    path = tmp_path_factory.mktemp("microphone") / "voice.wav"
    samples = voice(MICROPHONE_S, seed=3)
    samples[-SAMPLE_RATE // 2 :] = 0
    soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
    return path


@pytest.fixture(scope="package")
def slowness(request: pytest.FixtureRequest) -> Slowness:
    return Slowness.of(request.config)


@pytest.fixture(scope="package")
def browser(playwright: Playwright, chromium: str, microphone: Path, slowness: Slowness) -> Iterator[Browser]:
    arguments = [
        "--no-sandbox",
        "--autoplay-policy=no-user-gesture-required",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}",
        # With a host name other than localhost, the page's origin is insecure, as on another machine.
        f"--host-resolver-rules=MAP {INSECURE_HOST} 127.0.0.1",
    ]
    launched = playwright.chromium.launch(executable_path=chromium, args=arguments, slow_mo=slowness.pause_ms)
    yield launched
    launched.close()


class _Modules(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".js": "text/javascript"}

    def translate_path(self, path: str) -> str:
        """Return the path of the file for a URL path.

        URL paths below /clients/js/ refer to files outside of assets/.
        """
        return str(ROOT / path.lstrip("/")) if path.startswith("/clients/js/") else super().translate_path(path)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture(scope="package")
def modules() -> Iterator[str]:
    """Serve the plain files in assets/ without a studio, and yield the server's URL."""
    handler = partial(_Modules, directory=str(ROOT / "assets"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="package")
def page_of_modules(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


@pytest.fixture
def blank(page_of_modules: Page, modules: str) -> Iterator[Page]:
    """Yield an empty page on the origin of the JavaScript modules.

    The page is loaded before each test. After the test, the page is left, which ends all scripts.
    """
    page_of_modules.goto(f"{modules}/html/studio.html")
    yield page_of_modules
    page_of_modules.goto("about:blank")


@pytest.fixture(scope="package")
def app(chromium: str, modules: str) -> Iterator[App]:
    """Run a studio that generates audio instantly, for all tests of the page.

    Pages of the origin `modules` may embed the studio in a frame.
    """
    with running_app(
        [],
        instant=True,
        VOICEWRIGHT_TRANSCRIBER="tests.support.sphinx:transcriber",
        VOICEWRIGHT_HOSTS=INSECURE_HOST,
        VOICEWRIGHT_FRAME_ANCESTORS=modules,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def own(chromium: str, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Run a separate studio for a test file, with the file's fixture `hub` as its Hub."""
    folder = tmp_path_factory.mktemp("studio")
    folders = {"HF_HOME": str(folder / "home"), "VOICEWRIGHT_DATA": str(folder / "data")}
    with running_app([], instant=True, HF_ENDPOINT=hub.url, VOICEWRIGHT_HOSTS=INSECURE_HOST, **folders) as running:
        yield running


@pytest.fixture(scope="package")
def app_with_demo_voice(chromium: str) -> Iterator[App]:
    """Run a studio with the embedded voice in every mode, as `make run` does.

    The fixture is for tests of complete user workflows and of audio.
    """
    with running_app([]) as running:
        yield running


@pytest.fixture
def no_voices(app: App) -> Iterator[None]:
    """Delete all stored voices, and those in the bin, before and after the test."""

    def empty() -> None:
        with httpx.Client(base_url=app.url, trust_env=False) as client:
            for kept in client.get(VOICES).json()["data"]:
                client.delete(f"{VOICES}/{kept['id']}")
            for deleted in client.get("/studio/deleted-voices").json()["voices"]:
                client.delete(f"/studio/voices/{deleted['id']}", params={"now": 1}).raise_for_status()

    empty()
    yield
    empty()


@pytest.fixture
def no_scripts(app: App) -> None:
    """Delete the stored scripts of earlier tests, because the page opens the newest script."""
    with httpx.Client(base_url=app.url, trust_env=False) as client:
        for script in client.get(SCRIPTS).json()["scripts"]:
            client.delete(f"{SCRIPTS}/{script['id']}").raise_for_status()


OpenStudio = Callable[..., Page]


@pytest.fixture(scope="package")
def first_window(browser: Browser) -> Iterator[BrowserContext]:
    """Open a browser window that makes all later pages twice as fast.

    Later pages reuse the renderer process, which an empty page in this window keeps alive.
    """
    context = browser.new_context(viewport=VIEWPORT)
    context.new_page()
    yield context
    context.close()


def emptied(window: BrowserContext, url: str) -> BrowserContext:
    """Remove the cookies and the storage of the previous test from a window, and return it."""
    window.clear_cookies()
    session = window.new_cdp_session(window.pages[0])
    session.send("Storage.clearDataForOrigin", {"origin": url.partition("/#")[0], "storageTypes": "all"})
    session.detach()
    return window


@pytest.fixture
def open_studio(
    browser: Browser, app: App, no_scripts: None, first_window: BrowserContext, slowness: Slowness
) -> Iterator[OpenStudio]:
    """Return a function that opens the studio's page in a new window.

    The test fails if the page has a script error or violates its content security policy.
    """
    contexts: list[BrowserContext] = []
    pages: list[Page] = []
    errors: list[str] = []

    def context_for(url: str, has_own_window: bool, options: dict[str, Any]) -> BrowserContext:
        if not pages and not has_own_window and options.keys() <= OF_A_PAGE:
            if not first_window.pages[0].url.startswith(app.url):
                first_window.pages[0].goto(f"{app.url}/health")
            return emptied(first_window, url)
        contexts.append(browser.new_context(**({"viewport": VIEWPORT} | options)))
        return contexts[-1]

    def open_page(
        *,
        url: str = app.url,
        script: str | None = None,
        await_ready: bool = True,
        # A test that installs a fake clock needs its own window, because Playwright installs clocks for a whole window.
        has_own_window: bool = False,
        **options: Any,
    ) -> Page:
        if "locale" in options:  # Another test may have selected a language, which has precedence.
            httpx.patch(f"http://127.0.0.1:{app.port}/studio/me", json={"language": None}).raise_for_status()
        context = context_for(url, has_own_window, options)
        page = context.new_page()
        pages.append(page)
        if context is first_window:
            page.set_viewport_size(options.get("viewport", VIEWPORT))
            page.emulate_media(color_scheme=options.get("color_scheme"))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if POLICY in message.text else None)
        page.set_default_timeout(READY_MS)
        slowness.slow_down(page)
        if script is not None:
            page.add_init_script(script)
            # Scripts of tests may load modules from blobs, which the page's policy forbids.
            context.new_cdp_session(page).send("Page.setBypassCSP", {"enabled": True})
        page.goto(url, wait_until="domcontentloaded")
        if await_ready:
            page.locator("#vw-speak:enabled").wait_for()
            page.evaluate("document.fonts.ready.then(() => {})")  # On a busy machine, the page is usable earlier.
        return page

    yield open_page
    for page in first_window.pages[1:]:
        page.close()
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def studio(open_studio: OpenStudio) -> Page:
    return open_studio()


@pytest.fixture
def script(open_studio: OpenStudio) -> Page:
    """Return the Script room with a dialogue in a new script, without generated takes."""
    page = open_studio(script=TAP)
    enter_script(page)
    new_script(page, "At the river")
    paste(page, 1, DIALOGUE)
    expect(page.locator("#vw-script-lines > li")).to_have_count(3)
    return page
