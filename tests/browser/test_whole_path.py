"""Test of a workflow through all rooms, from a voice description to an exported file."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.design_steps import (
    KEPT_SEED,
    act,
    card,
    enter_design,
    expect_state,
    fix_seed,
    make_three,
    seeds,
    take_of,
    voices,
)
from tests.browser.script_steps import (
    GAP_S,
    MADE_MS,
    RATE,
    await_kept,
    await_made,
    client,
    decoded,
    enter_script,
    export,
    line,
    new_script,
    paste,
    silence,
    sound_of,
    stored_script,
)
from tests.browser.steps import await_end
from tests.support.app import App

pytestmark = [pytest.mark.quick, pytest.mark.browser]


@pytest.fixture(scope="module")
def app(app_with_demo_voice: App) -> App:
    return app_with_demo_voice


SAMPLE = "The last ferry leaves at nine, and the sea is calm tonight."


def test_voice_is_designed_saved_used_in_a_script_and_exported(studio: Page, app: App) -> None:
    enter_design(studio, SAMPLE)
    studio.fill("#vw-design-description", "A woman with a bright voice, speaking quickly.")
    fix_seed(studio, KEPT_SEED)
    make_three(studio)
    studio.keyboard.press("Escape")
    assert len(set(seeds(studio))) == 3
    chosen = take_of(studio, seeds(studio)[2])
    act(studio, "C", "keep")
    studio.fill("#vw-design-name", "Ferrywoman")
    studio.keyboard.press("Enter")
    expect_state(studio, "C", "kept")
    expect(card(studio, "C")).to_contain_text("Kept: Ferrywoman")
    voice = voices(app)["Ferrywoman"]
    assert voice["transcript"] == SAMPLE
    assert voice["provenance"]["sha256"] == chosen["sha256"]

    act(studio, "C", "use")
    expect(studio.locator("#vw-room-speakers")).to_be_visible()
    studio.fill("#vw-text", "All aboard.")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-reason")).to_have_text("end of speech", timeout=MADE_MS)
    await_end(studio)

    enter_script(studio)
    new_script(studio, "Ferry")
    paste(studio, 1, "FERRYWOMAN: All aboard. [pause 0.5s] Mind the gap.\n\nANGUS: Thank you.")
    expect(line(studio, 1).locator(".vw-line-voice")).to_have_text("Ferrywoman")
    name, data = export(studio, "joined", format="flac", loudness="")
    assert name == "Ferry.flac"
    await_made(studio, 1, 2)
    await_kept(studio, 1, 2)
    first, second = stored_script(studio, app)["lines"][:2]
    with client(studio, app) as http:
        said = [http.get(f"/studio/takes/{part['take']}").json() for part in (*first["takes"], *second["takes"])]
    assert [take["mode"] for take in said] == ["base", "base", "custom_voice"]
    assert [take["config"].get("voice") for take in said[:2]] == [voice["id"]] * 2
    parts = [sound_of(studio, app, take["id"]) for take in said]
    expected = np.concatenate((parts[0], silence(0.5), parts[1], silence(GAP_S), parts[2]))
    assert np.array_equal(decoded(data), expected), "as it is: bit for bit"
    assert len(expected) > 2 * RATE
