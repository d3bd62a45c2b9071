"""Tests for the storage limit of takes: display, warning and freeing space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.design_steps import keep_take, origin
from tests.browser.steps import enter, speak_whole
from tests.support.app import App, running_app

pytestmark = pytest.mark.browser

MAX_TAKES = 10


@pytest.fixture(scope="module")
def small_app(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[App]:
    """Run a studio that can store ten takes."""
    store: Path = tmp_path_factory.mktemp("small_store")
    variables = {"VOICEWRIGHT_MAX_TAKES": str(MAX_TAKES), "VOICEWRIGHT_DATA": str(store)}
    with running_app([], instant=True, **variables) as running:
        yield running


@pytest.fixture
def page(open_studio: OpenStudio, small_app: App) -> Page:
    page = open_studio(url=small_app.url, viewport={"width": 1280, "height": 960})
    for take in takes(page):
        page.request.delete(f"{origin(page)}/studio/takes/{take}")
    return page


def takes(page: Page) -> list[str]:
    listed = page.request.get(f"{origin(page)}/studio/takes?limit=100").json()["takes"]
    return [take["id"] for take in listed]


def fill(page: Page, count: int) -> list[str]:
    return [keep_take(page, number) for number in range(count)]


def test_library_shows_the_take_limit_and_warns_before_it_is_reached(page: Page) -> None:
    fill(page, 8)
    enter(page, "library")
    expect(page.locator("#vw-takes-space")).to_have_text("8 of 10 takes")
    expect(page.locator("#vw-takes-free")).to_be_hidden()
    expect(page.locator("#vw-takes-near")).to_be_empty()
    fill(page, 1)
    enter(page, "speakers")
    enter(page, "library")
    expect(page.locator("#vw-takes-near")).to_have_text("At the limit, new takes are no longer saved.")
    expect(page.locator("#vw-takes-free")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "take-space-near.png")


def test_freeing_space_deletes_the_oldest_takes_and_can_be_undone(page: Page) -> None:
    kept = fill(page, MAX_TAKES)
    page.request.patch(f"{origin(page)}/studio/takes/{kept[0]}", data={"favourite": True})
    enter(page, "library")
    page.click("#vw-takes-free")
    dialog = page.locator("#vw-takes-freeing")
    expect(dialog).to_contain_text("The oldest 9 of 9 takes that are neither favourites nor in a script go to the bin.")
    page.screenshot(path=SCREENSHOTS / "take-space-dialog.png")
    dialog.get_by_role("button", name="Cancel").click()
    assert len(takes(page)) == MAX_TAKES
    page.click("#vw-takes-free")
    dialog.get_by_role("button", name="Move to the bin").click()
    expect(page.locator("#vw-takes-space")).to_have_text("1 of 10 takes")
    assert takes(page) == [kept[0]], "a favourite stays"
    page.locator(".vw-toast", has_text="9 takes moved to the bin.").get_by_role("button", name="Undo").click()
    expect(page.locator("#vw-takes-space")).to_have_text("10 of 10 takes")
    expect(page.locator("#vw-takes-list .vw-take")).to_have_count(MAX_TAKES)


def test_a_take_that_the_full_library_refuses_is_saved_once_there_is_space(page: Page) -> None:
    fill(page, MAX_TAKES)
    speak_whole(page, "This one must not be lost.")
    toast = page.locator(".vw-toast")
    expect(toast).to_have_count(1)
    expect(toast).to_have_text(re.compile("^The Library is full: this take is saved as soon as you free some space"))
    toast.get_by_role("button", name="Free some space").click()
    expect(page.locator("#vw-takes-near")).to_have_text("New takes are not saved until you free some space.")
    page.locator("#vw-takes-freeing").get_by_role("button", name="Move to the bin").click()
    expect(page.locator("#vw-takes-list .vw-take", has_text="This one must not be lost.")).to_have_count(1)
    assert len(takes(page)) == 1
