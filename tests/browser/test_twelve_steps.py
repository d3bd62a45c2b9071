"""Test of a workflow of twelve steps with the embedded voice, including a restart."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import av
import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import OpenStudio
from tests.browser.design_steps import (
    KEPT_SEED,
    act,
    card,
    enter_design,
    expect_state,
    fix_seed,
    make_three,
    newest,
    voices,
)
from tests.browser.script_steps import (
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
    stored_script,
)
from tests.browser.steps import enter, hear_clone, history_row, to_words
from tests.support.app import App, running_app
from tests.support.spoken import WORDS, generate

pytestmark = pytest.mark.browser

FERRY = "The last ferry leaves at nine, and the sea is calm tonight."


@pytest.fixture
def start(chromium: str, tmp_path: Path) -> Iterator[Callable[[], App]]:
    """Return a function that stops the current studio and starts another with the same data."""
    with ExitStack() as running:

        def begin() -> App:
            running.close()
            return running.enter_context(running_app([], VOICEWRIGHT_DATA=str(tmp_path)))

        yield begin


def recorded_by_a_phone() -> FilePayload:
    """Return speech in the format of phone recordings: AAC at 44.1 kHz in an MP4 file."""
    file = io.BytesIO()
    with av.open(file, "w", format="ipod") as container:
        stream = container.add_stream("aac", rate=44_100, layout="mono")
        frame = av.AudioFrame.from_ndarray(generate()[None, :], format="flt", layout="mono")
        frame.sample_rate = RATE
        resampler = av.AudioResampler(format="fltp", layout="mono", rate=44_100)
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return {"name": "New recording 7.m4a", "mimeType": "audio/mp4", "buffer": file.getvalue()}


def speak_line(page: Page, number: int) -> None:
    line(page, number).locator(".vw-line-play").click()
    await_made(page, number)


def take_of_line(page: Page, app: App, number: int) -> dict[str, Any]:
    """Return the first stored take of a line."""
    with client(page, app) as http:
        take = stored_script(page, app)["lines"][number - 1]["takes"][0]["take"]
        record: dict[str, Any] = http.get(f"/studio/takes/{take}").json()
        return record


def test_user_can_design_a_voice_and_export_a_script_in_twelve_steps(
    start: Callable[[], App], open_studio: OpenStudio
) -> None:
    app = start()
    page = open_studio(url=app.url)

    # Steps 1 to 3: design a voice, generate three takes, save one take as a voice.
    enter_design(page, FERRY)
    page.fill("#vw-design-description", "A woman with a bright voice, speaking quickly.")
    fix_seed(page, KEPT_SEED)
    make_three(page)
    page.keyboard.press("Escape")
    act(page, "C", "keep")
    page.fill("#vw-design-name", "Ferrywoman")
    page.keyboard.press("Enter")
    expect_state(page, "C", "kept")

    # Step 4: reload the page.
    page.reload(wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for(state="attached")
    expect(newest(page).locator("article")).to_have_count(3)
    expect(card(page, "C")).to_contain_text("Kept: Ferrywoman")

    # Steps 5 and 6: use the voice in a script next to a preset speaker, then add a style.
    enter_script(page)
    new_script(page, "Ferry")
    paste(page, 1, "FERRYWOMAN: All aboard, please.\n\nANGUS: Thank you.")
    line(page, 1).locator(".vw-line-instruct").fill("Speak very slowly.")
    speak_line(page, 1)
    speak_line(page, 2)
    await_kept(page, 1, 2)
    styled, preset = (take_of_line(page, app, number) for number in (1, 2))
    assert (styled["mode"], styled["config"]["instructions"]) == ("custom_voice", "Speak very slowly.")
    assert styled["config"]["voice"] == voices(app)["Ferrywoman"]["id"]
    assert preset["config"]["voice"] == "angus"

    # Steps 7 and 8: clone a phone recording, first with a wrong transcript.
    enter(page, "clone")
    to_words(page, recorded_by_a_phone())
    page.fill("#vw-clone-transcript", "Yes.")
    error = page.locator("#vw-room-clone [data-error-for=ref_text]")
    expect(error).to_have_text("The transcript does not match the recording. Write exactly what is said.")
    page.fill("#vw-clone-transcript", WORDS)
    expect(error).to_be_empty()
    expect(page.locator("#vw-clone-fit .vw-care")).to_have_count(0)
    page.click("#vw-clone-words-done")
    page.check("#vw-clone-consent")
    page.fill("#vw-clone-keep-name", "Neighbour")
    hear_clone(page)
    page.click("#vw-clone-keep-button")
    expect(page.locator("#vw-clone-done")).to_contain_text("Saved: Neighbour.")
    assert voices(app)["Neighbour"]["transcript"] == WORDS

    # Step 9: add a line in the cloned voice, and export the script.
    enter_script(page)
    paste(page, 2, "NEIGHBOUR: The bread is nearly done.")
    name, data = export(page, "joined", format="flac", loudness="")
    assert name == "Ferry.flac"
    await_made(page, 1, 2, 3)
    await_kept(page, 1, 2, 3)
    assert len(decoded(data)) > 3 * RATE
    kept = take_of_line(page, app, 1)

    # Step 10: find all takes and scripts in the Library.
    enter(page, "library")
    expect(history_row(page, FERRY)).to_be_visible()

    # Step 11: restart the studio.
    app = start()
    page = open_studio(url=app.url)
    assert set(voices(app)) == {"Ferrywoman", "Neighbour"}
    enter_script(page)
    expect(page.locator("#vw-script-name")).to_have_value("Ferry")
    await_made(page, 1, 2, 3)

    # Step 12: repeat the first take, which must have the same bytes.
    enter(page, "library")
    first = history_row(page, FERRY).get_attribute("data-take")
    row = page.locator(f"[data-take='{first}']")
    row.locator(".vw-take-open").click()
    row.locator("[data-do=reproduce]").click()
    expect(row.locator(".vw-take-outcome")).to_contain_text("Identical", timeout=MADE_MS)
    with client(page, app) as http:
        assert http.get(f"/studio/takes/{kept['id']}").json()["sha256"] == kept["sha256"]
