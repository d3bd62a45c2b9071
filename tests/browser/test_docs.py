"""Tests of the documentation pages: examples, copy buttons, search and theme."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenStudio
from tests.support.app import App

pytestmark = pytest.mark.browser


def test_example_copied_from_a_documentation_page_runs(app: App, studio: Page, tmp_path: Path) -> None:
    studio.goto(f"{app.url}/docs/quickstart", wait_until="domcontentloaded")
    examples = studio.eval_on_selector_all("pre code", "all => all.map((one) => one.textContent)")
    assert not [example for example in examples if "//127.0.0.1:8210" in example]
    (example,) = [one for one in examples if "import httpx" in one and "morning.pcm" in one]
    assert f'"{app.url}/v1/audio/speech"' in example
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True)
    assert (tmp_path / "morning.pcm").stat().st_size > 0


def test_code_of_a_documentation_page_is_copied_by_its_button(app: App, open_studio: OpenStudio) -> None:
    studio = open_studio(permissions=["clipboard-read", "clipboard-write"])
    studio.goto(f"{app.url}/docs/quickstart", wait_until="domcontentloaded")
    block = studio.locator(".vw-docs-code").nth(1)
    block.get_by_role("button", name="Copy").click()
    expect(block.get_by_role("button")).to_have_text("Copied")
    copied = studio.evaluate("navigator.clipboard.readText()")
    assert copied == block.locator("code").text_content()
    assert f"{app.url}/v1/audio/speech" in copied


def test_documentation_pages_use_the_chosen_theme_and_are_searched_by_keyboard(app: App, studio: Page) -> None:
    for theme in ("light", "dark"):
        with studio.expect_response("**/studio/me"):
            studio.click("#vw-theme")
        assert studio.locator("#vw-theme").get_attribute("data-icon") == theme
        studio.emulate_media(color_scheme="dark" if theme == "light" else "light")
        studio.goto(f"{app.url}/docs/quickstart", wait_until="domcontentloaded")
        assert studio.evaluate("document.documentElement.className") == ("dark" if theme == "dark" else "")
        studio.goto(app.url, wait_until="domcontentloaded")
        studio.locator("#vw-speak:enabled").wait_for()
    with studio.expect_response("**/studio/me"):
        studio.click("#vw-theme")
    studio.goto(f"{app.url}/docs/quickstart", wait_until="domcontentloaded")
    studio.get_by_role("searchbox").fill("wyoming port")
    studio.keyboard.press("Enter")
    result = studio.locator("main h2 a").first
    expect(result).to_be_visible()
    assert studio.get_by_role("searchbox").input_value() == "wyoming port"
    result.click()
    assert studio.url.startswith(f"{app.url}/docs/")
    assert "#" in studio.url
