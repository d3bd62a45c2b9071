"""Tests for the speech recogniser in the Clone room.

The tests cover its download and the comparison of transcripts with recordings.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import INSECURE_HOST, SCREENSHOTS, OpenStudio
from tests.browser.steps import enter, expect_accessible, to_words
from tests.browser.test_clone import speech_file
from tests.support.app import App
from tests.support.hub import Hub, serving
from tests.support.spoken import WORDS, share_heard, words_of
from tests.support.whisper import require_whisper, whisper_base

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1200)]

# Timeout of a transcription. A recogniser runs with the lowest priority, and other tests use the processors.
HEARD_MS = 600_000
# Wrong transcript, which has the same length as WORDS.
OTHER = "Nobody in the harbour had expected a storm, and so the boats stayed."


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    require_whisper()
    with serving(Hub({"Systran/faster-whisper-base": whisper_base(tmp_path_factory.mktemp("whisper"))})) as running:
        yield running


def test_downloaded_recogniser_writes_and_compares_transcripts(open_studio: OpenStudio, own: App, hub: Hub) -> None:
    page = open_studio(url=own.url)
    visitor = open_studio(url=f"http://{INSECURE_HOST}:{own.port}")
    enter(visitor, "clone")
    to_words(visitor, speech_file())
    expect(visitor.locator("#vw-clone-model")).to_be_hidden()
    expect(visitor.locator("#vw-clone-transcribe")).to_be_hidden()
    visitor.close()

    step, offer = page.locator(".vw-step").nth(1), page.locator("#vw-clone-model")
    error = page.locator("#vw-room-clone [data-error-for=ref_text]")
    enter(page, "clone")
    to_words(page, speech_file())
    button = offer.locator("button")
    expect(button).to_have_text("Get speech recognition (148 MB)")
    expect_accessible(page)
    page.screenshot(path=SCREENSHOTS / "clone-recogniser.png")

    # Without a recogniser, the page reports no transcript as matching.
    page.fill("#vw-clone-transcript", OTHER)
    page.click("#vw-clone-words-done")
    expect(step).to_have_attribute("data-verdict", "unchecked")
    step.locator(".vw-step-change").click()
    page.fill("#vw-clone-transcript", "")

    hub.status = 503
    button.click()
    expect(error).to_contain_text("cannot be reached", timeout=HEARD_MS)
    hub.status, hub.rate, hub.hold_at = None, 20 * 10**6, 60 * 10**6
    button.click()
    expect(error).to_be_empty()
    expect(offer).to_contain_text("of 148 MB")
    page.wait_for_function("document.querySelector('#vw-clone-model progress').value > 0.3")
    page.screenshot(path=SCREENSHOTS / "clone-recogniser-download.png")
    expect_accessible(page)
    button.click()
    expect(button).to_have_text("Get speech recognition (148 MB)")
    button.click()
    expect(button).to_have_text("Stop the download")
    hub.rate = hub.hold_at = None

    # The recogniser fills in the empty transcript automatically.
    expect(page.locator("#vw-clone-asr")).to_contain_text("faster-whisper base", timeout=HEARD_MS)
    expect(offer).to_be_hidden()
    assert share_heard(WORDS, words_of(page.input_value("#vw-clone-transcript"))) >= 0.9
    page.click("#vw-clone-words-done")
    expect(step).to_have_attribute("data-verdict", "good")
    page.screenshot(path=SCREENSHOTS / "clone-compared.png")

    # The recogniser compares another transcript with the recording and tolerates a small error.
    step.locator(".vw-step-change").click()
    page.fill("#vw-clone-transcript", OTHER)
    page.click("#vw-clone-words-done")
    expect(step).to_have_attribute("data-verdict", "care")
    expect(step.locator(".vw-step-sum")).to_contain_text("The transcript does not match the recording.")
    step.locator(".vw-step-change").click()
    heard = page.locator("#vw-clone-heard")
    expect(heard).to_contain_text("Heard, but not written: “Good”")
    expect(heard).to_contain_text("Not heard: “Nobody”")
    page.screenshot(path=SCREENSHOTS / "clone-mismatch.png")
    expect_accessible(page)
    page.fill("#vw-clone-transcript", WORDS.replace("kettle", "cattle"))
    expect(heard).to_contain_text("12 of 13 words heard. Not heard: “cattle”")
    page.fill("#vw-clone-transcript", "Good morning, everybody. The kettle is on.")
    expect(heard).to_contain_text("does not match")

    # The result is hidden when another part of the recording is selected.
    page.fill("#vw-clone-transcript", WORDS)
    expect(heard).to_contain_text("13 of 13")
    page.locator(".vw-step-change").first.click()
    page.focus("#vw-clone-trim [data-edge=start]")
    page.keyboard.press("Shift+ArrowRight")
    page.click("#vw-clone-use")
    expect(heard).to_be_hidden()


def test_transcript_is_compared_when_it_is_accepted(open_studio: OpenStudio, own: App) -> None:
    """The previous test has downloaded the recogniser.

    In this test, the user only presses the button of the step.
    """
    page = open_studio(url=own.url, viewport={"width": 390, "height": 844}, color_scheme="dark")
    enter(page, "clone")
    to_words(page, speech_file())
    expect(page.locator("#vw-clone-transcribe")).to_have_text("Transcribe")
    page.fill("#vw-clone-transcript", OTHER)
    page.click("#vw-clone-words-done")
    step = page.locator(".vw-step").nth(1)
    expect(step).to_have_attribute("data-verdict", "care", timeout=HEARD_MS)
    page.screenshot(path=SCREENSHOTS / "clone-mismatch-390.png")
    expect_accessible(page)
