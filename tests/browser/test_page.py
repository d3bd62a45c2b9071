"""Tests for faults and limits: invalid input, runtime crash, insecure origin and phones."""

from __future__ import annotations

import io
import json
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page, Route, ViewportSize, WebSocketRoute, expect

from runtime.request import DROPPED_STYLES, STRANGE_SCRIPT
from tests.browser.conftest import INSECURE_HOST, SCREENSHOTS, OpenStudio
from tests.browser.steps import (
    SHORT,
    await_end,
    await_sound,
    change_model_cards,
    play_through,
    prepare,
    reading,
    reload_to_speak,
    save,
    speak_whole,
    try_out,
    vary,
    wav,
)
from tests.support.app import App
from tests.support.audio_files import audio_file

pytestmark = pytest.mark.browser

LONG = 8 * "The boat came back in the evening. "
SCHEDULED = Path(__file__).with_name("scheduled.js").read_text("utf-8")


def complaints(page: Page) -> dict[str, str]:
    """Return the error messages on the page, keyed by form field."""
    said = page.evaluate(
        "() => [...document.querySelectorAll('[data-error-for]')].map((p) => [p.dataset.errorFor, p.textContent])"
    )
    return {field: sentence for field, sentence in said if sentence}


def expect_complaint(page: Page, field: str, *args: str) -> None:
    """Press Speak, and expect exactly one error message, which contains `args`, at its field."""
    page.click("#vw-speak")
    page.wait_for_function("[...document.querySelectorAll('[data-error-for]')].some((p) => p.textContent)")
    said = complaints(page)
    assert said.keys() == {field}
    sentence = said[field]
    assert sentence.endswith(".")
    assert all(word in sentence for word in args), sentence
    place = page.locator(f"[data-error-for={field}]:not(:empty)")
    assert place.is_visible()
    expect(page.locator("#vw-stop")).to_be_disabled()


@pytest.mark.quick
def test_invalid_input_shows_one_sentence_at_its_field(studio: Page) -> None:
    text = studio.input_value("#vw-text")
    studio.fill("#vw-text", "   ")
    expect_complaint(studio, "text", "Write something")
    studio.fill("#vw-text", text)
    vary(studio)
    studio.fill("#vw-seed", "1.5")
    expect_complaint(studio, "seed", "whole number")
    studio.fill("#vw-seed", "")
    studio.click("#vw-tab-design")
    assert complaints(studio) == {}
    studio.fill("#vw-design-description", "")
    expect_complaint(studio, "instructions", "Describe the voice")
    studio.click("#vw-design-chips button")
    studio.fill("#vw-text", "a" * 4097)
    expect_complaint(studio, "text", "4,097", "4,096")
    studio.fill("#vw-text", "a" * 200_000)  # The text exceeds the maximum size of a message.
    expect_complaint(studio, "text", "200,000", "4,096")
    studio.fill("#vw-text", text)
    studio.click("#vw-speak")
    await_sound(studio)
    studio.click("#vw-stop")


def test_note_about_differently_spoken_text_is_shown(studio: Page) -> None:
    studio.fill("#vw-text", "?!")
    studio.click("#vw-speak")
    expect(studio.locator("#vw-note")).to_contain_text("it becomes a pause")
    await_end(studio)
    studio.click("#vw-tab-design")
    studio.fill("#vw-text", SHORT)
    studio.fill("#vw-design-description", "warm " * 101)
    studio.click("#vw-speak")
    expect(studio.locator("#vw-note")).to_contain_text("more than 500 characters")
    studio.keyboard.press("Escape")  # Playback of the three short takes may have ended already.


def noted(page: Page, *notes: str) -> None:
    """Add these notes to each audio.start message of the runtime, and reload the page."""

    def add(socket: WebSocketRoute) -> None:
        runtime = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            payload = json.loads(message) if isinstance(message, str) else {}
            socket.send(json.dumps({**payload, "notes": notes}) if payload.get("type") == "audio.start" else message)

        runtime.on_message(pass_on)

    page.route_web_socket("**/v1/audio/speech/stream", add)
    reload_to_speak(page)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (360, 780)])
def test_long_note_can_be_read_in_full_in_the_page_language(open_studio: OpenStudio, width: int, height: int) -> None:
    page = open_studio(viewport=ViewportSize(width=width, height=height))
    noted(page, STRANGE_SCRIPT.format(script="cjk"), DROPPED_STYLES)
    page.fill("#vw-text", "Tea is 茶 [whispering] here.")
    page.click("#vw-speak")
    note, more, sheet = (page.locator(name) for name in ("#vw-note", "#vw-note-more", "#vw-notes"))
    expect(note).to_contain_text("This voice speaks English. The Chinese letters in the text were not read")
    expect(note).not_to_contain_text("checkpoint")
    # The button stays visible although the sentence is truncated. A single call measures both elements, because the
    # layout changes when audio arrives.
    page.wait_for_function("""() => {
      const box = (id) => document.querySelector(id).getBoundingClientRect();
      const [more, whole] = [box('#vw-note-more'), box('.vw-caption')];
      return more.height >= 24 && more.right <= whole.right + 1;
    }""")
    await_end(page)
    more.click()
    expect(sheet).to_be_visible()
    expect(sheet).to_contain_text("The real voices read them.")
    expect(sheet).to_contain_text("This voice does not follow styles in square brackets, so they were left out")
    page.screenshot(path=SCREENSHOTS / f"note-{width}.png")
    sheet.get_by_role("button", name="See the real voices").click()
    expect(sheet).to_be_hidden()
    expect(page.locator("#vw-real-voices")).to_be_visible()


def test_engine_startup_log_is_not_shown_as_the_status(studio: Page) -> None:
    said = "Model: demo-voice: 8 slots of 4096 positions."
    studio.route("**/studio/status", lambda route: route.fulfill(json={"state": "starting", "sentence": said}))
    studio.route_web_socket("**/v1/audio/speech/stream", lambda socket: socket.close())
    studio.reload(wait_until="domcontentloaded")
    expect(studio.locator("#vw-status")).to_have_text("The voices are loading.")
    expect(studio.locator("#vw-status")).to_have_attribute("title", said)


def test_validation_error_keeps_the_last_take_and_clears_when_fixed(studio: Page) -> None:
    speak_whole(studio, SHORT)
    length = studio.inner_text("#vw-length")
    assert length
    studio.fill("#vw-text", "   ")
    expect_complaint(studio, "text", "Write something")
    expect(studio.locator("#vw-length")).to_have_text(length)
    expect(studio.locator("#vw-play")).to_be_enabled()
    studio.fill("#vw-text", SHORT)
    assert complaints(studio) == {}


def test_invalid_reference_shows_its_error_at_the_reference_step(studio: Page, tmp_path: Path) -> None:
    taken, span = studio.locator("#vw-clone-name"), studio.locator("#vw-clone-span [data-edge=end]")
    said = studio.locator("#vw-room-clone [data-error-for=ref_audio]")
    use, speak = studio.locator("#vw-clone-use"), studio.locator("#vw-speak")
    studio.click("#vw-tab-clone")
    expect(speak).to_be_hidden()
    poem = {"name": "poem.txt", "mimeType": "text/plain", "buffer": b"roses are red" * 99}
    studio.set_input_files("#vw-clone-file", poem)
    expect(said).to_contain_text("poem.txt")
    expect(
        studio.locator(".vw-step[data-state=open]").filter(has=studio.locator("[data-error-for=ref_audio]"))
    ).to_be_visible()
    expect(studio.locator("#vw-clone-ways")).to_be_visible()
    expect(speak).to_be_hidden()
    studio.set_input_files("#vw-clone-file", wav(3.0))
    expect(span).to_have_value("3.00")
    assert complaints(studio) == {}
    use.click()
    studio.click("#vw-clone-words-done")
    expect(studio.locator("#vw-room-clone [data-error-for=ref_text]")).to_contain_text("Write the transcript")
    studio.check("#vw-clone-xvector")
    assert complaints(studio) == {}
    studio.set_input_files("#vw-clone-file", wav(0.5))
    expect(span).to_have_value("0.50")
    expect(said).to_contain_text("0.50 s")
    expect(use).to_be_disabled()
    studio.set_input_files("#vw-clone-file", wav(3.0))
    expect(use).to_be_enabled()
    studio.set_input_files("#vw-clone-file", poem)
    expect(said).to_contain_text("poem.txt")
    expect(taken).to_have_text("voice.wav"), "what was there stays"
    long = tmp_path / "long.wav"  # A file is used, because Playwright takes seconds to send the same number of bytes.
    long.write_bytes(bytes(13 * 2**20))
    studio.set_input_files("#vw-clone-file", long)
    expect(said).to_contain_text("13.0 MB")
    studio.set_input_files("#vw-clone-file", _stereo())
    expect(taken).to_have_text("voice.flac")
    assert complaints(studio) == {}
    use.click()
    studio.check("#vw-clone-xvector")
    try_out(studio)
    studio.click("#vw-speak")
    await_sound(studio)
    studio.click("#vw-stop")


def _stereo() -> dict[str, Any]:
    samples, rate = soundfile.read(io.BytesIO(wav(2.0, rate=44100)["buffer"]))
    file = audio_file(np.stack([samples, samples / 2], axis=1), rate, kind="FLAC")
    return {"name": "voice.flac", "mimeType": "audio/flac", "buffer": file}


def test_runtime_crash_is_reported_and_the_page_recovers(app: App, studio: Page) -> None:
    studio.fill("#vw-text", LONG)  # The text is so long that its audio is still being generated.
    studio.click("#vw-speak")
    await_sound(studio)
    killed = app.runtime_pid
    os.kill(killed, signal.SIGKILL)
    status = studio.locator("#vw-status")
    expect(status).to_have_attribute("data-state", "waiting")
    expect(status).to_contain_text("started again")
    expect(studio.locator("#vw-stage [data-error-for=request]")).to_contain_text("runtime")
    expect(status).to_have_attribute("data-state", "ready", timeout=60_000)
    assert app.runtime_pid != killed
    assert app.process.poll() is None
    expect(studio.locator("#vw-stage [data-error-for=request]")).to_have_text("The connection is back: speak again.")
    studio.fill("#vw-text", SHORT)
    play_through(studio, "#vw-speak")
    assert complaints(studio) == {}
    assert int(reading(studio, "frames")) > 0


def test_speech_request_during_a_runtime_restart_waits_or_reports_the_outage(app: App, studio: Page) -> None:
    os.kill(app.runtime_pid, signal.SIGKILL)
    expect(studio.locator("#vw-status")).to_have_attribute("data-state", "waiting")
    studio.click("#vw-speak")
    studio.wait_for_function(
        """() => document.querySelector('#vw-audible').textContent !== '–'
              || document.querySelector('.vw-actions [data-error-for=request]').textContent""",
        timeout=60_000,
    )
    expect(studio.locator("#vw-status")).to_have_attribute("data-state", "ready", timeout=60_000)
    studio.click("#vw-speak")
    await_sound(studio)
    assert complaints(studio) == {}
    studio.click("#vw-stop")


@pytest.mark.parametrize(
    ("position", "eta_ms", "sentence"),
    [(2, 4100.0, "2 requests ahead of you, about 5 s."), (0, None, "Next in the queue.")],
)
def test_queued_request_shows_its_position_and_estimated_wait(
    studio: Page, position: int, eta_ms: float | None, sentence: str
) -> None:
    """The test simulates the messages of a runtime without a free slot."""

    def keep_waiting(socket: WebSocketRoute) -> None:
        runtime = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            payload = json.loads(message)
            if payload["type"] == "input.done":
                place = {"context_id": payload["context_id"], "position": position, "eta_ms": eta_ms}
                socket.send(json.dumps({"type": "queue", **place}))
            elif payload["type"] != "input.text":
                runtime.send(message)

        socket.on_message(pass_on)

    studio.route_web_socket("**/v1/audio/speech/stream", keep_waiting)
    reload_to_speak(studio)
    studio.click("#vw-speak")
    expect(studio.locator("#vw-note")).to_have_text(sentence)
    studio.click("#vw-stop")
    expect(studio.locator("#vw-note")).to_have_text("")
    expect(studio.locator("#vw-stop")).to_be_disabled()


def test_insecure_origin_plays_without_an_audio_worklet(app: App, open_studio: OpenStudio) -> None:
    page = open_studio(url=f"http://{INSECURE_HOST}:{app.port}", script=SCHEDULED)
    assert page.evaluate("[isSecureContext, 'audioWorklet' in AudioContext.prototype]") == [False, False]
    page.click("#vw-tab-clone")
    expect(page.locator("#vw-clone-record")).to_be_disabled()
    expect(page.locator("#vw-clone-status")).to_contain_text("https")
    page.click("#vw-tab-speakers")
    page.fill("#vw-text", " ".join([SHORT] * 4))  # The audio must not end before Stop is looked at.
    play_through(page, "#vw-speak")
    frames = int(reading(page, "frames"))
    assert reading(page, "audible").endswith("s")
    page.focus("#vw-rate-button")
    page.keyboard.press("Enter")
    expect(page.locator(".vw-toast")).to_contain_text("Changing the speed needs a page on https")
    played = page.evaluate("scheduled")
    sound = np.concatenate([np.array(each["samples"]) for each in played])
    assert sound.size == frames * 1920
    saved, _ = soundfile.read(save(page).path(), dtype="int16")
    assert np.array_equal(sound * 32768, saved)
    gaps = sum(after["at"] > before["end"] + 1e-6 for before, after in pairwise(played))
    assert gaps == int(reading(page, "underruns"))
    assert all(after["at"] >= before["end"] - 1e-6 for before, after in pairwise(played))
    page.fill("#vw-text", LONG)
    page.click("#vw-speak")
    await_sound(page)
    page.click("#vw-stop")
    await_end(page)
    assert page.evaluate("scheduled.every((each) => each.stopped || each.end <= each.now())")


def _only(*modes: str) -> Any:
    """Return a route handler that removes all other modes from /v1/models."""

    def answer(route: Route) -> None:
        listing = route.fetch().json()
        cards = [card for card in listing["data"] if set(card["modes"]) & set(modes)]
        cards = [{**card, "modes": [mode for mode in card["modes"] if mode in modes]} for card in cards]
        route.fulfill(json={**listing, "data": cards})

    return answer


def test_mode_without_a_checkpoint_is_shown_with_the_reason(studio: Page) -> None:
    studio.route("**/v1/models", _only("voice_design"))
    reload_to_speak(studio)
    expect(studio.locator("#vw-tab-design"), "the first that can speak").to_have_attribute("aria-selected", "true")
    expect(studio.locator("#vw-tab-clone")).to_have_attribute("aria-disabled", "true")
    studio.click("#vw-tab-clone", force=True)
    expect(studio.locator("#vw-speak")).to_be_disabled()
    reason = studio.locator("#vw-room-clone .vw-unserved")
    expect(reason).to_be_visible()
    expect(reason).to_contain_text("No loaded checkpoint serves Base")
    studio.keyboard.press("Control+Enter")
    assert reading(studio, "ttfa") == "–"
    studio.click("#vw-tab-design")
    expect(studio.locator("#vw-speak")).to_be_enabled()


def test_page_warns_about_random_weights_and_shows_checkpoint_names(studio: Page) -> None:
    expect(studio.locator("#vw-models")).to_have_text("The small built-in voice")
    expect(studio.locator("#vw-status")).to_have_text("Built-in voice")
    change_model_cards(studio, speaks=False)
    studio.reload(wait_until="domcontentloaded")
    expect(studio.locator("#vw-status")).to_have_text("Random weights: sound, not speech", timeout=60_000)


def test_sample_text_follows_the_language_until_the_user_edits_it(studio: Page) -> None:
    studio.select_option("#vw-speakers-language", "english")
    assert "along the river" in studio.input_value("#vw-text")
    studio.select_option("#vw-speakers-language", "auto")
    studio.fill("#vw-text", "My own words.")
    studio.select_option("#vw-speakers-language", "english")
    expect(studio.locator("#vw-text")).to_have_value("My own words.")


@pytest.mark.parametrize("room", ["speakers", "design", "clone"])
def test_page_fits_the_width_of_a_phone(open_studio: OpenStudio, room: str) -> None:
    page = open_studio(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    prepare(page, room)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    outside = page.evaluate(
        """() => [...document.querySelectorAll('#vw *')]
          .filter((e) => e.offsetParent && e.getBoundingClientRect().right > 361)
          .filter((e) => !e.closest('.vw-text-tags'))  // a row that scrolls, and fades where it goes on
          .map((e) => e.id || e.className)"""
    )
    assert outside == []
    page.fill("#vw-text", LONG)  # The text is long, because a screenshot may take seconds.
    page.tap("#vw-speak")
    await_sound(page)
    page.screenshot(path=SCREENSHOTS / f"{room}-phone.png", full_page=True)
    page.tap("#vw-stop")


def test_tabs_are_reachable_by_arrow_keys(studio: Page) -> None:
    studio.focus("#vw-tab-speakers")
    studio.keyboard.press("ArrowRight")
    expect(studio.locator("#vw-room-design")).to_be_visible()
    assert studio.evaluate("document.activeElement.id") == "vw-tab-design"
    studio.keyboard.press("ArrowLeft")
    studio.keyboard.press("ArrowLeft")
    expect(studio.locator("#vw-room-library")).to_be_visible()


@pytest.mark.quick
def test_page_requests_only_its_own_origin(app: App, studio: Page) -> None:
    asked: list[str] = []
    studio.on("request", lambda request: asked.append(request.url))
    studio.reload(wait_until="load")
    studio.locator("#vw-speak:enabled").wait_for()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith((app.url, "data:", "blob:"))] == []


@pytest.mark.quick
def test_every_field_has_an_accessible_name(studio: Page) -> None:
    nameless = studio.evaluate(
        """() => [...document.querySelectorAll('#vw :is(input, select, textarea, button, meter, audio)')]
          .filter((e) => e.id !== 'vw-sign-out' || !e.hidden) // it is named when somebody has signed in
          .filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel || e.title))
          .map((e) => e.id)"""
    )
    assert nameless == []


def test_page_loads_few_files(app: App, open_studio: OpenStudio) -> None:
    page = open_studio(url="about:blank", await_ready=False)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(app.url, wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for()
    own = [url for url in asked if "/studio/" in url or "/clients/" in url]
    assert not [url for url in own if "/studio/js/" in url or "/clients/" in url], "modules come in one file"
    assert len(own) <= 14, own
    # Gradio loads its own files after the files of the page.
    others = [url for url in asked if not url.startswith("data:") and "/assets/" not in url]
    assert len(others) <= 24, others


@pytest.mark.quick
def test_studio_answers_head_requests_and_blocks_gradio_file_routes(app: App) -> None:
    with httpx.Client(base_url=app.url, trust_env=False) as client:
        for path in ("/", "/health", "/ready", "/v1/models", "/studio/status"):
            assert client.head(path).status_code == 200, path
            assert client.get(path).status_code == 200, path
        assert client.post("/gradio_api/upload", files={"files": b"x"}).status_code == 404
        assert client.get("/gradio_api/file=/etc/passwd").status_code == 404
        assert client.get("/gradio_api/proxy=http://127.0.0.1/").status_code == 404
        assert client.get("/studio/js/../page.py").status_code == 404
        assert client.get("/studio/bundle/nothing.js").status_code == 404
        for path in ("/studio/js/app/studio.js", "/studio/bundle/page.js"):
            assert client.get(path).headers["cache-control"] == "no-cache", path
        for path in ("/v1/nothing", "/v1/audio/voices/", "/studio/takes/", "/docs/api/"):
            missing = client.get(path)
            assert missing.status_code == 404, path
            assert json.loads(missing.text)["error"]["code"] == "unknown_route", path
        assert client.get("/mcp/").status_code == client.get("/mcp").status_code
