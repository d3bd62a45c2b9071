"""Test that the cost of showing the Library does not grow with the number of its takes."""

from __future__ import annotations

import json

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenStudio
from tests.browser.steps import enter
from tests.browser.test_long_script import COUNTED
from tests.support.app import App

pytestmark = pytest.mark.browser

TAKES = 600
ON_PAGE = 30
MAX_CHANGES = 10 * ON_PAGE  # Maximum number of changes of the page for 30 more takes, with waveforms that load late.


def store_takes(app: App) -> None:
    pcm = np.zeros(12_000, "<i2").tobytes()
    fields = {"room": "speakers", "mode": "custom_voice", "config": {"voice": "clara"}, "voice": "clara"}
    with httpx.Client(base_url=app.url, trust_env=False, timeout=60) as client:
        for seed in range(TAKES):
            take = json.dumps({**fields, "text": f"Take number {seed}.", "seed": seed})
            client.post("/studio/takes", data={"take": take}, files={"pcm": ("take.pcm", pcm)}).raise_for_status()


def test_many_takes_are_shown_page_by_page_at_a_constant_cost(open_studio: OpenStudio, app: App) -> None:
    store_takes(app)
    page = open_studio(script=COUNTED, has_own_window=True)
    enter(page, "library")
    rows = page.locator("#vw-takes-list .vw-take")
    expect(rows).to_have_count(ON_PAGE)
    for count in range(2 * ON_PAGE, TAKES + 1, ON_PAGE):
        page.evaluate("counts.written = 0")
        page.click("#vw-takes-more")
        expect(rows).to_have_count(count)
        assert page.evaluate("counts.written") <= MAX_CHANGES, count
    page.evaluate("counts.written = 0")
    star = rows.first.locator(".vw-take-star")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("counts.written") <= MAX_CHANGES
