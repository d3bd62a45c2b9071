"""Tests for selecting several takes in the Library.

The tests cover mouse, keyboard, favourites, download, and deletion with undo.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import enter, expect_accessible, kept_take

pytestmark = pytest.mark.browser

NAMES = ["Alpha one.", "Bravo two.", "Charlie three.", "Delta four."]


def library(open_studio: OpenStudio) -> Page:
    page = open_studio()
    # Earlier tests on the same studio may have left takes in the bin.
    assert page.evaluate("fetch('studio/takes/bin', { method: 'DELETE' }).then((reply) => reply.ok)")
    for name in NAMES:
        kept_take(page, name)
    enter(page, "library")
    expect(page.locator(".vw-take", has_text=NAMES[0])).to_have_count(1)
    return page


def test_several_takes_are_selected_starred_downloaded_and_deleted(open_studio: OpenStudio) -> None:
    page = library(open_studio)
    delta, charlie, bravo, alpha = (page.locator(".vw-take", has_text=name) for name in reversed(NAMES))
    count = page.locator("#vw-takes-bar b")
    expect(alpha.locator(".vw-take-pick")).to_be_hidden()

    # The first filter is a day before all takes, and the second filter is today.
    page.fill("#vw-takes-day", "2020-02-29")
    expect(alpha).to_have_count(0)
    page.fill("#vw-takes-day", page.evaluate("new Date().toLocaleDateString('sv')"))
    expect(alpha).to_have_count(1)
    page.fill("#vw-takes-day", "")

    # Repeat the selection with the keyboard.
    page.focus("#vw-takes-select")
    page.keyboard.press("Enter")
    expect(count).to_have_text("0 selected")
    expect(page.locator("#vw-takes-bar [data-do=remove]")).to_be_disabled()
    delta.locator(".vw-take-pick").focus()
    page.keyboard.press("Space")
    expect(count).to_have_text("1 selected")
    expect(page.get_by_label("Select: Delta four.")).to_be_checked()
    page.keyboard.press("Control+a")
    expect(bravo.locator(".vw-take-pick")).to_be_checked()
    page.keyboard.press("Escape")
    expect(page.locator("#vw-takes-bar")).to_be_hidden()
    expect(page.locator("#vw-takes-select")).to_be_focused()

    # Ctrl and Shift on rows select takes without opening them.
    charlie.locator(".vw-take-open").click(modifiers=["Control"])
    alpha.locator(".vw-take-open").click(modifiers=["Shift"])
    expect(count).to_have_text("3 selected")
    expect(alpha.locator(".vw-take-open")).to_have_attribute("aria-expanded", "false")
    bravo.locator(".vw-take-pick").click()
    expect(count).to_have_text("2 selected")
    expect_accessible(page)
    page.screenshot(path=SCREENSHOTS / "library-selection.png")
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=SCREENSHOTS / "library-selection-390.png")
    page.set_viewport_size({"width": 1200, "height": 860})

    page.click("#vw-takes-bar [data-do=star]")
    expect(alpha.locator(".vw-take-star")).to_have_attribute("aria-pressed", "true")
    expect(charlie.locator(".vw-take-star")).to_have_attribute("aria-pressed", "true")
    expect(bravo.locator(".vw-take-star")).to_have_attribute("aria-pressed", "false")
    with page.expect_download() as download:
        page.click("#vw-takes-bar [data-do=zip]")
    assert download.value.suggested_filename == "takes.zip"
    with zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())) as archive:
        assert archive.namelist() == ["lines/001 Alpha one.wav", "lines/002 Charlie three.wav"]

    page.focus("#vw-takes-bar [data-do=remove]")
    page.keyboard.press("Delete")
    expect(alpha).to_have_count(0)
    expect(charlie).to_have_count(0)
    expect(bravo).to_have_count(1)
    in_bin = page.locator("#vw-takes-bin")
    expect(in_bin).to_contain_text("2 takes in the bin, deleted for good after 24 h.")
    page.screenshot(path=SCREENSHOTS / "library-bin.png")
    page.locator(".vw-toast button", has_text="Undo").click()
    expect(alpha).to_have_count(1)
    expect(charlie).to_have_count(1)
    expect(in_bin).to_be_hidden()

    # The bin is still accessible after the notice has disappeared. Its takes can be restored or permanently deleted.
    alpha.locator(".vw-take-open").click(modifiers=["Control"])
    page.click("#vw-takes-bar [data-do=remove]")
    expect(in_bin).to_contain_text("1 take in the bin")
    page.reload(wait_until="domcontentloaded")
    in_bin.get_by_role("button", name="Restore").click()
    expect(alpha).to_have_count(1)
    alpha.locator(".vw-take-open").click(modifiers=["Control"])
    page.click("#vw-takes-bar [data-do=remove]")
    in_bin.get_by_role("button", name="Empty now").click()
    asked = page.get_by_role("dialog", name="Delete 1 take in the bin for good?")
    page.screenshot(path=SCREENSHOTS / "library-empty-bin.png")
    asked.get_by_role("button", name="Cancel").click()
    expect(in_bin).to_contain_text("1 take in the bin")
    in_bin.get_by_role("button", name="Empty now").click()
    asked.get_by_role("button", name="Delete for good").click()
    expect(in_bin).to_be_hidden()
    expect(alpha).to_have_count(0)
