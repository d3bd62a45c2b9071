"""Tests for the number of page updates that each line of a long script causes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenStudio
from tests.browser.script_steps import MADE_MS, await_saved, enter_script, line, new_script, text_of
from tests.support.app import App

pytestmark = pytest.mark.browser

LINES = 1200
SPOKEN = 20  # Number of lines during which the counts are taken.

# Script that counts encoded values of JSON, characters written to the browser's storages, and changes of the page.
COUNTED = """
window.counts = { encoded: 0, stored: 0, written: 0 };
const { stringify } = JSON;
JSON.stringify = (...given) => {
  counts.encoded += 1;
  return stringify(...given);
};
const { setItem } = Storage.prototype;
Storage.prototype.setItem = function (key, value) {
  counts.stored += value.length;
  return setItem.call(this, key, value);
};
new MutationObserver((changes) => (counts.written += changes.length)).observe(document, {
  subtree: true, childList: true, characterData: true, attributes: true,
});
"""


def open_script(open_studio: OpenStudio, app: App) -> Page:
    """Store a script of many short lines, and open it."""
    page = open_studio(script=COUNTED)
    speaker = {"mode": "custom_voice", "voice": "clara"}
    lines = [{"id": f"line-{at}", "text": f"Number {at}.", "voice": speaker, "takes": []} for at in range(LINES)]
    script = {"name": "Numbers", "gap_s": 0.4, "lines": lines, "updated_at": None}
    assert page.request.put(f"{app.url}/studio/scripts/numbers", data=script).ok
    page.goto(f"{app.url}/#/script/numbers")
    page.reload(wait_until="domcontentloaded")
    expect(page.locator("#vw-script-lines > li")).to_have_count(LINES)
    expect(line(page, 1).locator(".vw-line-text")).to_have_value("Number 0.")
    return page


def await_line(page: Page, number: int) -> tuple[int, dict[str, int]]:
    """Wait until the export has reached a line, and return its number and the update counts."""
    of = "() => Number((document.querySelector('#vw-script-told').textContent.match(/line (\\d+)/) ?? [])[1])"
    page.wait_for_function(f"(number) => ({of})() >= number", arg=number, polling=50, timeout=MADE_MS)
    reached, counts = page.evaluate(f"() => [({of})(), {{ ...counts }}]")
    return reached, counts


def test_generated_line_of_a_long_script_causes_few_page_updates(open_studio: OpenStudio, app: App) -> None:
    page = open_script(open_studio, app)
    page.click("#vw-script-files")
    page.click("#vw-script-go")
    first, before = await_line(page, SPOKEN)  # The first lines are visible, so that their audio is shown, too.
    last, after = await_line(page, first + SPOKEN)
    costs = {name: (after[name] - before[name]) / (last - first) for name in before}
    assert costs["encoded"] < 60
    assert costs["stored"] < 10_000
    assert costs["written"] < 40


def test_growing_audio_of_a_visible_line_changes_only_the_displayed_length(open_studio: OpenStudio) -> None:
    page = open_studio(script=COUNTED)
    enter_script(page)
    new_script(page, "Harbour")
    text_of(page, 1).fill("The harbour was quiet. " * 12)
    line(page, 1).locator(".vw-line-play").click()
    expect(line(page, 1)).to_have_attribute("data-state", "coming")
    page.evaluate("""() => {
      const changed = (window.changed = new Set());
      const note = (changes) => changes.forEach(({ target }) => changed.add(target.className));
      new MutationObserver(note).observe(document.querySelector('.vw-line-play').closest('li'), {
        subtree: true, childList: true, attributes: true, attributeFilter: ['aria-label', 'class', 'hidden'],
      });
    }""")
    before = line(page, 1).locator(".vw-line-length").text_content() or ""
    expect(line(page, 1).locator(".vw-line-length")).not_to_have_text(before)
    assert page.evaluate("document.querySelector('.vw-line').dataset.state") == "coming"
    assert page.evaluate("[...changed].filter((name) => !/length|paper|sounding/.test(name))") == []


def test_only_script_lines_near_the_visible_area_have_input_fields(open_studio: OpenStudio, app: App) -> None:
    page = open_script(open_studio, app)
    fields = page.locator("#vw-script-lines .vw-line-text")
    assert fields.count() < 80
    for number in (LINES, LINES // 2, 1):
        line(page, number).scroll_into_view_if_needed()
        expect(line(page, number).locator(".vw-line-text")).to_have_value(f"Number {number - 1}.")
        expect(line(page, number)).to_have_class(re.compile(r"\bvw-line\b(?!-)"))
        assert fields.count() < 80
    line(page, 3).locator(".vw-line-text").fill("Changed.")
    await_saved(page)
