"""Tests for scripts in the Library: one entry per script, deletion and undo."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.script_steps import await_saved, await_silence, make_all, stored_script, text_of, texts
from tests.browser.steps import enter, kept_take
from tests.support.app import App

pytestmark = pytest.mark.browser


def entry_of(page: Page, kept: dict[str, str]) -> Locator:
    return page.locator(f".vw-script-entry[data-script='{kept['id']}']")


def listed(page: Page, take: str) -> Locator:
    """Return the list entry of a take that does not belong to a script."""
    return page.locator(f"#vw-takes-list > [data-take='{take}']")


def test_library_lists_a_script_as_one_entry_with_collapsed_takes(script: Page, app: App) -> None:
    make_all(script)
    await_silence(script)
    said, address = texts(script), script.url
    kept = stored_script(script, app)
    takes = [part["take"] for line in kept["lines"] for part in line["takes"]]
    enter(script, "library")
    entry = entry_of(script, kept)
    expect(entry.locator("small")).to_contain_text("Script · 3 lines · ~0:")
    expect(entry.locator(".vw-mark")).to_have_count(2)
    for width in (360, 1200):
        script.set_viewport_size({"width": width, "height": 860})
        edges = (
            "(marks) => marks.map((mark) => mark.getBoundingClientRect()).flatMap(({ left, right }) => [left, right])"
        )
        sides = entry.locator(".vw-script-entry-marks .vw-mark").evaluate_all(edges)
        assert sides == sorted(sides), "beside each other"
    entry.get_by_role("button", name="Takes of At the river").click()
    expect(entry.locator(".vw-take")).to_have_count(4)  # The second line has two takes.
    script.click("#vw-takes-select")
    expect(script.locator("#vw-takes-bar")).to_be_visible()
    expect(entry.locator(".vw-take-pick:visible")).to_have_count(0)  # The selection has no takes of scripts.
    script.click("#vw-takes-select")
    assert len(set(entry.locator(".vw-take .vw-mark").evaluate_all("(marks) => marks.map(({ title }) => title)"))) == 2
    expect(entry.locator(".vw-take .vw-mark[data-kind=preset]")).to_have_count(4)
    assert sorted(entry.locator(".vw-take").evaluate_all("(rows) => rows.map((row) => row.dataset.take)")) == sorted(
        takes
    )
    for take in takes:
        expect(listed(script, take)).to_have_count(0)
    script.fill("#vw-takes-search", "no such script")
    expect(entry).to_have_count(0)
    script.fill("#vw-takes-search", "RIVER")
    expect(entry).to_have_count(1)
    script.fill("#vw-takes-search", "")
    script.select_option("#vw-takes-room", "design")
    expect(entry).to_have_count(0)
    script.select_option("#vw-takes-room", "")
    entry.get_by_role("link").click()
    expect(script.locator("#vw-room-script")).to_be_visible()
    assert script.url == address
    assert texts(script) == said


def test_takes_of_an_open_script_stay_while_the_list_is_rendered_again(script: Page, app: App) -> None:
    make_all(script)
    await_silence(script)
    entry = entry_of(script, stored_script(script, app))
    enter(script, "library")
    entry.get_by_role("button", name="Takes of At the river").click()
    expect(entry.locator(".vw-take")).to_have_count(4)
    held = list[Route]()
    script.route("**/studio/takes?script=*", lambda route: held.append(route))
    for searched in ("RIVER", "river"):
        with script.expect_request("**/studio/takes?script=*"):
            script.fill("#vw-takes-search", searched)
        assert entry.locator(".vw-take").count() == 4
    for route in held:
        route.continue_()
    script.unroute("**/studio/takes?script=*")
    expect(entry.locator(".vw-take")).to_have_count(4)


def test_scripts_are_listed_among_takes_and_found_by_line_text(script: Page, app: App) -> None:
    await_saved(script)
    kept = stored_script(script, app)
    enter(script, "speakers")
    newer = kept_take(script, "A take that is newer.")
    enter(script, "library")
    expect(listed(script, newer)).to_have_count(1)
    expect(entry_of(script, kept)).to_have_count(1)
    rows = script.locator("#vw-takes-list > li")
    ids = [newer, kept["id"]]
    order = "(rows) => rows.map(({ dataset }) => dataset.take ?? dataset.script)"
    assert [row for row in rows.evaluate_all(order) if row in ids] == ids
    script.fill("#vw-takes-search", "walked RIVER tonight")
    expect(listed(script, newer)).to_have_count(0)
    expect(entry_of(script, kept)).to_have_count(1)


def test_script_deletion_can_be_undone(script: Page, app: App) -> None:
    make_all(script)
    await_silence(script)
    kept = stored_script(script, app)
    take = kept["lines"][0]["takes"][0]["take"]
    enter(script, "library")
    entry = entry_of(script, kept)
    entry.get_by_role("button", name="Delete the script At the river").click()
    expect(entry).to_have_count(0)
    expect(listed(script, take)).to_have_count(1)
    script.get_by_text("At the river was deleted").locator("..").get_by_role("button", name="Undo").click()
    expect(entry).to_have_count(1)
    expect(listed(script, take)).to_have_count(0)
    enter(script, "script")
    expect(script.locator("#vw-script-name")).to_have_value("At the river")
    await_saved(script)


def test_deleted_script_is_restored_from_the_bin_after_a_reload(script: Page, app: App) -> None:
    script.fill("#vw-script-name", "Lost and found")
    await_saved(script)
    kept, said = stored_script(script, app), texts(script)
    script.click("#vw-script-shelf summary")
    script.click("#vw-script-delete")
    expect(script.locator("#vw-script-name")).not_to_have_value("Lost and found")
    script.reload()
    enter(script, "library")
    deleted = script.locator("#vw-scripts-bin li", has_text="Lost and found")
    expect(deleted).to_contain_text("The script Lost and found is in the bin, deleted for good after 24 h.")
    expect(entry_of(script, kept)).to_have_count(0)
    deleted.get_by_role("button", name="Restore").click()
    expect(entry_of(script, kept)).to_have_count(1)
    expect(deleted).to_have_count(0)
    entry_of(script, kept).locator(".vw-script-entry-open").click()
    expect(script.locator("#vw-script-name")).to_have_value("Lost and found")
    assert texts(script) == said
    entry = entry_of(script, kept)
    enter(script, "library")
    entry.get_by_role("button", name="Delete the script Lost and found").click()
    expect(deleted).to_have_count(1)


def test_focus_moves_to_the_script_after_a_neighbouring_take_is_deleted(script: Page, app: App) -> None:
    await_saved(script)
    kept = stored_script(script, app)
    enter(script, "speakers")
    newer = kept_take(script, "A take that goes.")
    enter(script, "library")
    row = listed(script, newer)
    row.locator(".vw-take-open").click()
    row.locator("[data-do=remove]").click()
    expect(row).to_have_count(0)
    expect(entry_of(script, kept).get_by_role("link")).to_be_focused()
    expect(script.locator(".vw-toast").last.get_by_role("button", name="Undo")).to_be_visible()


def test_unnamed_script_is_listed_by_its_first_words(script: Page, app: App) -> None:
    script.fill("#vw-script-name", "")
    text_of(script, 1).fill("[pause 0.3s] Who left the gate open?")
    await_saved(script)
    kept = stored_script(script, app)
    script.click("#vw-script-shelf summary")
    expect(script.locator("#vw-script-list [aria-current]")).to_have_text("Who left the gate open?")
    script.keyboard.press("Escape")
    enter(script, "library")
    expect(entry_of(script, kept).locator(".vw-take-text")).to_have_text("Who left the gate open?")
    script.reload(wait_until="domcontentloaded")  # The list must not depend on an open script.
    expect(entry_of(script, kept).locator(".vw-take-text")).to_have_text("Who left the gate open?")
