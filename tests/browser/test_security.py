"""Tests for the content security policy: the page works, and injected code does not run."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser.conftest import POLICY, OpenStudio
from tests.browser.steps import enter, kept_take
from tests.support.app import App

pytestmark = pytest.mark.browser

ROOMS = ("speakers", "design", "clone", "script", "library", "host")
WINDOWS = [(1366, 860), (390, 844)]

# Markup and URLs that could run a script. Each script reports its name.
INJECT = """
() => {
  window.ran = [];
  const script = document.createElement('script');
  script.textContent = "ran.push('script')";
  document.head.append(script);
  const place = document.createElement('div');
  place.innerHTML = `<img src="data:," onerror="ran.push('onerror')">
    <svg onload="ran.push('onload')"></svg>
    <iframe srcdoc="<script>parent.ran.push('srcdoc')</script>"></iframe>
    <a href="javascript:ran.push('address')">here</a>`;
  document.body.append(place);
  place.querySelector('a').click();
}
"""
CONNECT = """
(url) => new Promise((done) => {
  document.addEventListener('securitypolicyviolation', ({ blockedURI }) => done(blockedURI));
  new WebSocket(url).onopen = () => done('open');
})
"""


def test_every_room_opens_without_console_messages(open_studio: OpenStudio) -> None:
    for width, height in WINDOWS:
        page = open_studio(viewport={"width": width, "height": height}, await_ready=False)
        said: list[str] = []

        def note(message: ConsoleMessage, said: list[str] = said) -> None:
            if message.type in {"error", "warning"}:
                said.append(message.text)

        page.on("console", note)
        page.reload()
        page.locator("#vw-speak:enabled").wait_for()
        kept_take(page, "Good evening.")
        for room in ROOMS:
            enter(page, room)
            page.wait_for_load_state("networkidle")
        assert said == [], (width, height)


def test_injected_scripts_do_not_run(browser: Browser, app: App) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(app.url)
    page.locator("#vw-speak:enabled").wait_for()
    assert not any(POLICY in text for text in said), said
    page.evaluate(INJECT)
    page.wait_for_function("() => document.querySelector('iframe').contentDocument.readyState === 'complete'")
    page.wait_for_timeout(100)
    assert page.evaluate("ran") == []
    assert sum(POLICY in text for text in said) == 5, said
    assert page.evaluate(CONNECT, "ws://other.example/").startswith("ws://other.example")
    page.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_only_configured_origins_may_frame_the_page(browser: Browser, app: App, modules: str, host: str) -> None:
    page = browser.new_page()
    page.goto(f"{modules.replace('127.0.0.1', host)}/html/studio.html")
    page.set_content(f'<iframe src="{app.url}" width="1000" height="800"></iframe>')
    speak = page.frame_locator("iframe").locator("#vw-speak:enabled")
    if host in modules:
        speak.wait_for()
    else:
        page.wait_for_load_state("networkidle")
        expect(speak).to_have_count(0)
        assert page.frames[1].url.startswith("chrome-error:")
    page.close()


@pytest.mark.parametrize("path", ["docs/api", "openapi"])
def test_documentation_pages_open_without_console_messages(browser: Browser, app: App, path: str) -> None:
    page: Page = browser.new_page(color_scheme="dark")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"{app.url}/{path}")
    assert said == []
    if path == "docs/api":
        expect(page.locator("html")).to_have_class("dark")
    page.close()
