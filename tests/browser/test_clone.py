"""Tests for the Clone room: recording, trimming, advice, storage and speech."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from PIL import Image, ImageColor
from playwright.sync_api import FilePayload, Page, Route, expect

from runtime.voices.speech_detector import find_speech
from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import (
    SHORT,
    await_end,
    await_sound,
    clone_from,
    enter,
    hear_clone,
    reload_to_speak,
    to_words,
    try_out,
    wav,
)
from tests.support.app import App
from tests.support.audio_files import audio_file
from tests.support.signals import chords, cough, drums, voice
from tests.support.spoken import WORDS, generate, share_heard, words_of

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

SAID = "A few words that could be said here."
VOICES = "/v1/audio/voices"


def configs(page: Page) -> list[dict[str, Any]]:
    """Return a list to which each following session.config message of the page is appended."""
    sent: list[dict[str, Any]] = []

    def keep(data: str | bytes) -> None:
        if isinstance(data, str) and '"session.config"' in data:
            sent.append(json.loads(data))

    page.on("websocket", lambda socket: socket.on("framesent", keep))
    reload_to_speak(page)
    return sent


def reference(config: dict[str, Any]) -> NDArray[np.int16]:
    """Return the samples of the reference audio in a session.config message."""
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(config["ref_audio"].split(",")[1])), dtype="int16")
    assert (rate, samples.ndim) == (24000, 1)
    return samples


def complaint(page: Page, field: str) -> str:
    place = page.locator(f"#vw-room-clone [data-error-for={field}]")
    expect(place).not_to_have_text("")
    return place.inner_text()


def advice(page: Page) -> list[str]:
    """Wait until the recording was checked, and return the codes of the advice on the page."""
    page.wait_for_timeout(700)
    expect(page.locator("#vw-clone-clinic")).to_have_attribute("data-state", "said")
    found = page.locator("#vw-clone-clinic .vw-care, #vw-clone-fit .vw-care").all()
    return [str(item.get_attribute("data-code")) for item in found]


def silence(page: Page) -> None:
    """Stop playback if it has not ended yet."""
    page.keyboard.press("Escape")
    await_end(page)


def span(page: Page) -> list[float]:
    """Return the start and end of the selected part in seconds, as read by screen readers."""
    handles = page.locator("#vw-clone-trim [role=slider]")
    # The handles exist before the recording has been decoded. They get their values afterwards.
    expect(handles.last).to_have_attribute("aria-valuenow", re.compile(r"\d"))
    return [float(str(handle.get_attribute("aria-valuenow"))) for handle in handles.all()]


def record(page: Page, seconds: float) -> None:
    page.click("#vw-clone-record")
    expect(page.locator("#vw-clone-count")).to_be_visible()
    expect(page.locator("#vw-clone-read")).to_contain_text("Thursday")
    expect(page.locator("#vw-clone-stop")).to_have_text("Stop recording")
    page.wait_for_function("document.querySelector('#vw-clone-level').value > 0.1")
    heard = f"parseFloat(document.querySelector('#vw-clone-status').textContent.match(/[\\d.]+/)) > {seconds}"
    page.wait_for_function(heard)
    page.click("#vw-clone-stop")
    expect(page.locator("#vw-clone-trim")).to_be_visible()


def test_recording_from_microphone_becomes_a_usable_voice(app: App, studio: Page) -> None:
    sent = configs(studio)
    enter(studio, "clone")
    record(studio, 3.0)
    assert "Thursday" in studio.input_value("#vw-clone-transcript"), "what was to be read stands there"
    # The text is too long for the duration of the recording.
    expect(studio.locator("#vw-clone-clinic")).to_have_attribute("data-state", "unusable")
    studio.click("#vw-clone-use")
    studio.fill("#vw-clone-transcript", SAID)
    # The recording is a synthetic signal without speech.
    assert set(advice(studio)) & {"no_speech", "short", "silence", "transcript"}
    studio.screenshot(path=SCREENSHOTS / "clone-clinic.png", full_page=True)
    try_out(studio)
    studio.click("#vw-clone-play-clone")
    expect(studio.locator("#vw-caption")).to_have_text("Clone of your recording")
    silence(studio)

    studio.fill("#vw-text", SHORT)
    studio.click("#vw-speak")
    await_sound(studio)
    silence(studio)
    heard = reference(sent[-1])
    assert sent[-1]["ref_text"] == SAID
    # The sent samples must be those of tests/support/signals.voice. Noise of the same level has another spectrum.
    spectra = [np.abs(np.fft.rfft(samples)) for samples in (heard / 32768, voice(2.5, seed=3))]
    bands = [np.interp(np.linspace(0, 1, 4000), np.linspace(0, 1, s.size), s) for s in spectra]
    smooth = [np.convolve(b, np.ones(25) / 25, "same")[:1000] for b in bands]
    assert np.corrcoef(*smooth)[0, 1] > 0.6

    studio.click("#vw-clone-keep-button")
    assert "agrees" in complaint(studio, "consent")
    assert "name" in complaint(studio, "name")  # Both error messages are shown at the same time.
    studio.check("#vw-clone-consent")
    expect(studio.locator("#vw-room-clone [data-error-for=consent]")).to_be_empty()
    assert "name" in complaint(studio, "name")
    studio.click("#vw-clone-keep-button")
    assert "name" in complaint(studio, "name")
    studio.fill("#vw-clone-keep-name", "Thursday")
    studio.check("#vw-clone-blend")
    studio.click("#vw-clone-keep-button")
    expect(studio.locator("#vw-clone-done")).to_contain_text("Saved: Thursday.")
    expect(studio.locator("#vw-clone-done-speak")).to_be_focused()
    (kept,) = httpx.get(app.url + VOICES, trust_env=False).json()["data"]
    assert (kept["name"], kept["transcript"], kept["provenance"]["source"]) == ("Thursday", SAID, "recording")
    assert re.search(r"agrees .* on \d{4}-\d\d-\d\d", kept["consent"])

    assert "blend" not in kept["provenance"]

    # Undo opens the form again. Saving the form again stores the same voice, now without consent to blends.
    expect(studio.locator(".vw-toast")).to_have_count(0)
    studio.click("#vw-clone-done-undo")
    expect(studio.locator("#vw-clone-keep-name")).to_have_value("Thursday")
    assert httpx.get(app.url + VOICES, trust_env=False).json()["data"] == []
    studio.check("#vw-clone-consent")
    expect(studio.locator("#vw-clone-blend")).not_to_be_checked()
    studio.click("#vw-clone-keep-button")
    expect(studio.locator("#vw-clone-done-speak")).to_be_focused()
    (kept,) = httpx.get(app.url + VOICES, trust_env=False).json()["data"]
    assert kept["provenance"]["blend"] == "no"
    studio.keyboard.press("Enter")
    studio.fill("#vw-text", SHORT)
    studio.click("#vw-speak")
    await_sound(studio)
    silence(studio)
    assert sent[-1]["voice"] == kept["id"]
    assert "ref_audio" not in sent[-1]


def test_recording_countdown_can_be_cancelled(studio: Page) -> None:
    enter(studio, "clone")
    studio.click("#vw-clone-record")
    expect(studio.locator("#vw-clone-stop")).to_have_text("Cancel")
    studio.click("#vw-clone-stop")
    expect(studio.locator("#vw-clone-record")).to_be_focused()
    studio.wait_for_timeout(2500)
    expect(studio.locator("#vw-clone-record")).to_be_visible()
    expect(studio.locator("#vw-clone-recording")).to_be_hidden()


ASKED_FOR_LONG = """() => {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  window.tracks = [];
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    await new Promise((allowed) => (window.allow = allowed));
    const stream = await ask(wanted);
    tracks.push(...stream.getTracks());
    return stream;
  };
}"""


def test_microphone_permission_is_requested_before_the_countdown(studio: Page) -> None:
    """While the browser asks for permission, the recording must not start."""
    enter(studio, "clone")
    studio.evaluate(ASKED_FOR_LONG)
    studio.click("#vw-clone-record")
    expect(studio.locator("#vw-clone-status")).to_contain_text("Allow it if the browser asks")
    expect(studio.locator("#vw-clone-count")).to_have_text("…")
    studio.evaluate("allow()")
    expect(studio.locator("#vw-clone-count")).to_have_text("3")
    studio.click("#vw-clone-stop")
    expect(studio.locator("#vw-clone-record")).to_be_focused()
    assert studio.evaluate("tracks.map(({ readyState }) => readyState)") == ["ended"], "the microphone is given back"

    studio.click("#vw-clone-record")  # The recording is cancelled while the browser asks for permission.
    studio.click("#vw-clone-stop")
    studio.evaluate("allow()")
    studio.wait_for_function("tracks.length === 2 && tracks.every(({ readyState }) => readyState === 'ended')")
    expect(studio.locator("#vw-clone-live")).to_be_hidden()


def test_missing_microphone_is_reported_immediately(studio: Page) -> None:
    enter(studio, "clone")
    studio.evaluate(
        """() => {
          navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('none', 'NotFoundError'));
        }"""
    )
    studio.click("#vw-clone-record")
    assert "No microphone was found" in complaint(studio, "ref_audio")
    assert studio.text_content("#vw-clone-count") == "…", "nobody was counted down to nothing"


def test_silent_microphone_is_reported_while_it_records(studio: Page) -> None:
    enter(studio, "clone")
    studio.evaluate(
        """() => {
          const silent = new AudioContext().createMediaStreamDestination().stream;
          navigator.mediaDevices.getUserMedia = () => Promise.resolve(silent);
        }"""
    )
    studio.click("#vw-clone-record")
    expect(studio.locator("#vw-clone-status")).to_contain_text("Is the microphone on?")
    studio.click("#vw-clone-stop")


def test_text_to_read_stays_in_place_when_recording_starts(studio: Page) -> None:
    enter(studio, "clone")
    place = "document.querySelector('#vw-clone-reading').getBoundingClientRect().top"
    studio.click("#vw-clone-record")
    expect(studio.locator("#vw-clone-count")).to_have_text("2")
    counting = studio.evaluate(place)
    expect(studio.locator("#vw-clone-level")).to_be_visible()
    assert studio.evaluate(place) == counting
    studio.click("#vw-clone-stop")


def test_level_meter_has_the_colours_of_the_page(studio: Page) -> None:
    enter(studio, "clone")
    studio.evaluate(
        "for (const id of ['live', 'level']) document.querySelector(`#vw-clone-${id}`).hidden = false;"
        "document.querySelector('#vw-clone-level').value = 0.5"
    )
    meter = Image.open(io.BytesIO(studio.locator("#vw-clone-level").screenshot())).convert("RGB")
    width, height = meter.size
    filled = {meter.getpixel((width // 4, height * eighth // 8)) for eighth in range(1, 8)}
    colour = studio.evaluate("getComputedStyle(document.querySelector('#vw')).getPropertyValue('--vw-ok')")
    assert filled == {ImageColor.getrgb(colour)}


def test_only_the_trimmed_part_of_a_recording_is_sent(studio: Page) -> None:
    sent = configs(studio)
    enter(studio, "clone")
    upload = wav(6.0)
    original = soundfile.read(io.BytesIO(upload["buffer"]), dtype="int16")[0]
    studio.set_input_files("#vw-clone-file", upload)
    expect(studio.locator("#vw-clone-trim")).to_be_visible()
    assert span(studio) == [0.0, 6.0]
    ruler = studio.locator(".vw-trim-ruler span").all_inner_texts()
    assert ruler == ["0:00.0", "0:01.5", "0:03.0", "0:04.5", "0:06.0"]
    # With Shift, an arrow key moves a handle by half a second.
    studio.focus("#vw-clone-trim [data-edge=start]")
    for _ in range(2):
        studio.keyboard.press("Shift+ArrowRight")
    studio.keyboard.press("ArrowLeft")
    assert span(studio) == [0.95, 6.0]
    # The mouse drags the end of the selection to two thirds of the recording.
    box = studio.locator("#vw-clone-trim canvas").bounding_box()
    assert box is not None
    studio.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
    studio.mouse.down()
    studio.mouse.move(box["x"] + box["width"] * 2 / 3, box["y"] + 20, steps=4)
    studio.mouse.up()
    start, end = span(studio)
    assert (start, end) == (0.95, pytest.approx(4.0, abs=0.05))
    assert "silence" not in advice(studio)
    studio.click("#vw-clone-use")
    studio.check("#vw-clone-xvector")
    expect(studio.locator("#vw-clone-transcript")).to_be_disabled()
    try_out(studio)
    studio.fill("#vw-text", SHORT)
    studio.click("#vw-speak")
    await_sound(studio)
    silence(studio)
    heard = reference(sent[-1])
    begin = round(0.95 * 24000)
    assert abs(heard.size / 24000 - (end - start)) < 0.02
    assert np.array_equal(heard, original[begin : begin + heard.size])
    assert (sent[-1]["x_vector_only_mode"], "ref_text" in sent[-1]) == (True, False)
    # A handle cannot be moved past the other handle.
    studio.locator(".vw-step-change").first.click()
    studio.focus("#vw-clone-trim [data-edge=start]")
    studio.keyboard.press("End")
    start, end = span(studio)
    assert 0 < end - start < 0.2


def test_finger_trims_a_recording_only_by_dragging_a_handle(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    devtools = page.context.new_cdp_session(page)

    def swipe(x: float, y: float, dx: float, dy: float) -> None:
        for step in range(11):
            kind, points = "touchMove" if step else "touchStart", [{"x": x + dx * step / 10, "y": y + dy * step / 10}]
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            page.wait_for_timeout(20)
        devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(200)

    enter(page, "clone")
    page.set_input_files("#vw-clone-file", wav(6.0))
    assert span(page) == [0.0, 6.0]
    waveform, handle = page.locator("#vw-clone-trim canvas"), page.locator("#vw-clone-trim [data-edge=end]")
    room = page.locator(".vw-rooms")
    waveform.evaluate("(canvas) => canvas.scrollIntoView({block: 'center'})")
    for target in (waveform, handle):
        box = target.bounding_box()
        assert box is not None
        before = room.evaluate("(room) => room.scrollTop")
        x, y = box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2
        page.touchscreen.tap(x, y)
        swipe(x, y, 4, -60)
        assert room.evaluate("(room) => room.scrollTop") > before
        assert span(page) == [0.0, 6.0]
    box, held = waveform.bounding_box(), handle.bounding_box()
    assert box is not None
    assert held is not None
    swipe(held["x"] + held["width"] / 2, held["y"] + 20, -box["width"] / 3, 3)
    assert span(page) == [0.0, pytest.approx(4.0, abs=0.1)]
    page.locator(".vw-toast button", has_text="Undo").click()
    assert span(page) == [0.0, 6.0]


def test_long_recording_is_trimmed_on_a_phone_by_entering_seconds(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    enter(page, "clone")
    page.set_input_files("#vw-clone-file", wav(150.0))
    start, end = (page.locator(f"#vw-clone-span [data-edge={edge}]") for edge in ("start", "end"))
    span(page)
    for field, value in ((start, "100.25"), (end, "112.5")):
        field.tap()
        field.fill(value)
        field.press("Enter")
    assert span(page) == [100.25, 112.5]
    expect(page.locator("#vw-clone-use")).to_contain_text("12.3 s")
    end.fill("")
    end.press("Enter")
    expect(end).to_have_value("112.50")
    assert start.evaluate("(field) => field.scrollWidth <= field.clientWidth && field.offsetHeight >= 44")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_selected_part_of_a_recording_can_be_played_before_cloning(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", wav(2.0, rate=44100))
    expect(studio.locator("#vw-clone-name")).to_have_text("voice.wav")
    studio.click("#vw-clone-play")
    expect(studio.locator("#vw-caption")).to_have_text("voice.wav")
    expect(studio.locator("#vw-clone-play")).to_have_attribute("data-icon", "pause")
    expect(studio.locator("#vw-clone-play")).to_have_attribute("data-icon", "play")


def test_player_does_not_show_a_removed_recording(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", wav(2.0))
    studio.click("#vw-clone-play")
    expect(studio.locator("#vw-caption")).to_have_text("voice.wav")
    studio.click("#vw-clone-drop")
    expect(studio.locator("#vw-play")).to_be_hidden()
    expect(studio.locator("#vw-caption")).to_be_empty()


def test_recording_is_transcribed_and_trimmed_to_its_speech(studio: Page) -> None:
    quiet, speech = np.zeros(36_000, np.float32), generate(seed=1)
    enter(studio, "clone")
    file = audio_file(np.concatenate([quiet, speech, quiet]), kind="FLAC")
    studio.set_input_files("#vw-clone-file", {"name": "a.flac", "mimeType": "audio/flac", "buffer": file})
    # The initial selection excludes the silence at both ends.
    start, end = span(studio)
    assert 1.2 < start < 1.6
    assert abs(end - start - len(speech) / 24_000) < 0.5
    assert advice(studio) == []
    expect(studio.locator("#vw-clone-verdict")).to_have_text(
        re.compile(r"^\d+\.\d s of clear speech, without noise, clipping or echo\.$")
    )
    studio.select_option("#vw-clone-language", "english")
    studio.click("#vw-clone-use")
    studio.click("#vw-clone-transcribe")
    expect(studio.locator("#vw-clone-asr")).to_contain_text("pocketsphinx", timeout=120_000)
    said = studio.input_value("#vw-clone-transcript")
    assert share_heard(WORDS, words_of(said)) >= 0.6, said
    # The user's own transcript is compared with the recording and is not overwritten.
    studio.fill("#vw-clone-transcript", said + " marmalade")
    studio.click("#vw-clone-transcribe")
    expect(studio.locator("#vw-clone-heard")).to_contain_text("Not heard: “marmalade”", timeout=120_000)
    expect(studio.locator("#vw-clone-transcript")).to_have_value(said + " marmalade")
    try_out(studio)
    # The page shows a hint if the text to speak is equal to the text of the recording.
    studio.fill("#vw-text", said.upper() + "!")
    expect(studio.locator("#vw-clone-same")).to_be_visible()
    studio.fill("#vw-text", "Something else altogether.")
    expect(studio.locator("#vw-clone-same")).to_be_hidden()


# Press the button that plays the clone as soon as it shows that the clone is playing.
PRESS_BEFORE_AUDIO = """() => {
  const button = document.querySelector('#vw-clone-play-clone');
  const press = (_, observer) => (observer.disconnect(), button.click());
  new MutationObserver(press).observe(button, { attributeFilter: ['data-icon'] });
}"""


def test_checkmark_appears_only_for_an_automatic_transcript(studio: Page, app: App) -> None:
    held: list[Route] = []  # Requests for the comparison, which get no response.
    studio.route("**/studio/transcribe?*", lambda route: held.append(route))
    enter(studio, "clone")
    step = studio.locator(".vw-step").nth(1)
    to_words(studio, speech_file())
    studio.fill("#vw-clone-transcript", WORDS)
    assert advice(studio) == []
    studio.click("#vw-clone-words-done")
    expect(step).to_have_attribute("data-verdict", "unchecked")
    expect(step.locator(".vw-step-sum")).to_have_text(f"Not checked against the recording: {WORDS}")

    # The transcript step shows the runtime's advice about another text, and saving shows it again.
    step.locator(".vw-step-change").click()
    studio.fill("#vw-clone-transcript", "Good morning.")
    assert advice(studio) == ["transcript"]
    studio.click("#vw-clone-words-done")
    expect(step).to_have_attribute("data-verdict", "care")
    expect(step.locator(".vw-step-sum")).to_contain_text("The transcript is short for this recording")
    studio.check("#vw-clone-consent")
    studio.fill("#vw-clone-keep-name", "Half")
    studio.evaluate(PRESS_BEFORE_AUDIO)  # The page plays the clone, which the press must not pause.
    studio.click("#vw-clone-keep-button")
    said = studio.locator("#vw-clone-keep [data-error-for=keep]")
    expect(said).to_have_text("Listen to the clone first. If it is right, press “Keep the voice” again.")
    expect(studio.locator("#vw-caption")).to_have_text("Clone of speech.wav")
    await_sound(studio)
    studio.screenshot(path=SCREENSHOTS / "clone-compare.png")
    silence(studio)
    assert voices_of(app) == []
    studio.click("#vw-clone-keep-button")
    expect(studio.locator("#vw-clone-done-advice")).to_contain_text("The transcript is short for this recording")
    for route in held:  # Playwright logs an error for a route that is never handled.
        route.abort()


def noisy(above_db: float) -> FilePayload:
    """Return an audio file of speech without pauses in noise, with silence at both ends."""
    quiet = np.zeros(24_000, np.float32)
    speech = generate("The boat came back in the evening", seed=1)
    level = np.sqrt(np.mean(np.square(speech))) * 10 ** (-above_db / 20)
    sound = np.concatenate([quiet, speech, quiet])
    file = audio_file(sound + level * np.random.RandomState(7).standard_normal(len(sound)))
    return {"name": f"{above_db}.wav", "mimeType": "audio/wav", "buffer": file}


def test_clipped_speech_at_a_low_level_is_reported_as_clipping_and_not_as_a_cough(studio: Page) -> None:
    enter(studio, "clone")
    pause = np.zeros(12_000, np.float32)
    clipped = 0.3 * np.clip(40 * generate(seed=4), -1, 1)
    file = audio_file(np.concatenate([pause, clipped, pause]))
    studio.set_input_files("#vw-clone-file", {"name": "a.wav", "mimeType": "audio/wav", "buffer": file})
    found = advice(studio)
    assert "clipping" in found
    assert "cough" not in found


def test_noise_outside_the_selected_part_is_reported(studio: Page) -> None:
    enter(studio, "clone")
    verdict = studio.locator("#vw-clone-verdict")
    studio.set_input_files("#vw-clone-file", noisy(14))
    assert "noise" in advice(studio)
    expect(verdict).to_be_hidden()
    expect(studio.locator("#vw-clone-clinic [data-code='ok.calm']")).to_have_count(0)
    studio.screenshot(path=SCREENSHOTS / "clone-noisy.png")
    studio.click("#vw-clone-use")
    expect(studio.locator(".vw-step").first).to_have_attribute("data-verdict", "care")


def without_pauses(speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return only the parts of the recording in which the network has detected speech."""
    activity = find_speech(speech)
    return speech[np.repeat(activity.windows, round(activity.window_s * 24_000))[: len(speech)]]


def test_noise_is_judged_on_the_whole_file_and_not_only_near_the_selected_part(studio: Page) -> None:
    """The music is audible alone only in the last four seconds, far from the selected part."""
    dense = without_pauses(generate("The boat came back in the evening", seed=1))
    sound = np.concatenate([*[dense] * 16, np.zeros(96_000, np.float32)])
    beats = np.resize(drums(12.0), len(sound)) * np.sqrt(np.mean(np.square(dense))) * 10 ** (-14 / 20)
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", {**wav(1.0), "buffer": audio_file(sound + beats)})
    assert "noise" in advice(studio)
    assert span(studio)[1] < len(sound) / 24_000 - 8


@pytest.mark.parametrize("below_db", [10, 40])
@pytest.mark.parametrize("music", [chords, drums])
def test_recording_with_background_music_is_not_rated_as_good(
    studio: Page, music: Callable[[float], NDArray[np.float32]], below_db: float
) -> None:
    speech, pause = generate(seed=1), np.zeros(12_000, np.float32)
    sound = np.concatenate([pause, speech, pause, speech, pause])
    level = np.sqrt((speech[np.abs(speech) > 0.005] ** 2).mean()) * 10 ** (-below_db / 20)
    mixed = sound + level * np.resize(music(12.0), len(sound))
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", {**wav(1.0), "buffer": audio_file(mixed)})
    found = advice(studio)
    assert ("noise" in found) == (below_db < 20)
    verdict = studio.locator("#vw-clone-verdict")
    if below_db < 20:
        expect(verdict).to_be_hidden()
        studio.screenshot(path=SCREENSHOTS / f"clone-{music.__name__}.png")


def test_recording_with_unmeasurable_noise_is_not_rated_as_good(studio: Page) -> None:
    enter(studio, "clone")
    dense = np.tile(without_pauses(generate(seed=1)), 2)
    studio.set_input_files("#vw-clone-file", {**wav(1.0), "buffer": audio_file(dense)})
    assert advice(studio) == []
    expect(studio.locator("#vw-clone-verdict")).to_contain_text("Noise could not be measured")
    studio.click("#vw-clone-use")
    expect(studio.locator(".vw-step").first).not_to_have_attribute("data-verdict", "good")


def test_samples_received_after_a_recording_do_not_change_the_status(open_studio: OpenStudio) -> None:
    page = open_studio(
        script="AudioWorkletNode = class extends AudioWorkletNode {"
        "  constructor(...given) { super(...given); window.lastNode = this; } };"
    )
    enter(page, "clone")
    record(page, 1.0)
    page.evaluate("lastNode.port.onmessage({ data: new Float32Array(4096) })")
    page.click("#vw-clone-drop")
    expect(page.locator("#vw-clone-record")).to_be_visible()
    assert page.locator("#vw-clone-status").inner_text() == ""


def test_saving_a_voice_ends_the_preview(studio: Page) -> None:
    enter(studio, "clone")
    to_words(studio, speech_file())
    studio.fill("#vw-clone-transcript", WORDS)
    studio.click("#vw-clone-words-done")
    studio.check("#vw-clone-consent")
    studio.fill("#vw-clone-keep-name", "Wilma")
    studio.click("#vw-clone-play-clone")
    await_sound(studio)
    studio.click("#vw-clone-keep-button")
    expect(studio.locator("#vw-clone-done")).to_be_visible()
    assert studio.locator("#vw-play").get_attribute("data-icon") == "play"


def voices_of(app: App) -> list[dict[str, Any]]:
    return list(httpx.get(app.url + VOICES, trust_env=False).json()["data"])


def test_voice_with_a_refused_transcript_is_reported_as_not_saved(studio: Page) -> None:
    enter(studio, "clone")
    to_words(studio, wav(4.0))
    studio.fill("#vw-clone-transcript", SAID)
    studio.click("#vw-clone-words-done")
    studio.check("#vw-clone-consent")
    studio.fill("#vw-clone-keep-name", "Me")
    hear_clone(studio)
    refusal = {"error": {"code": "transcript_mismatch", "message": "It does not match.", "param": "ref_text"}}
    studio.route(f"**{VOICES}", lambda route: route.fulfill(status=400, json=refusal))
    studio.click("#vw-clone-keep-button")
    expect(studio.locator("#vw-toasts")).to_contain_text("The voice was not saved.")
    expect(studio.locator("#vw-clone-transcript")).to_be_visible()


def test_original_and_clone_are_played_next_to_each_other(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 390, "height": 844}, color_scheme="dark")
    sent = configs(page)
    enter(page, "clone")
    to_words(page, speech_file())
    page.fill("#vw-clone-transcript", WORDS)
    page.click("#vw-clone-words-done")
    original, clone = page.locator("#vw-clone-play-original"), page.locator("#vw-clone-play-clone")
    original.click()
    expect(original).to_have_attribute("data-icon", "pause")
    clone.click()
    expect(clone).to_have_attribute("data-icon", "pause")
    expect(original).to_have_attribute("data-icon", "play")
    page.screenshot(path=SCREENSHOTS / "clone-compare-390.png")
    expect(clone).to_have_attribute("data-icon", "play", timeout=60_000)
    assert sent[-1]["ref_text"] == WORDS
    clone.click()
    expect(clone).to_have_attribute("data-icon", "pause")
    silence(page)
    assert len([config for config in sent if config.get("ref_audio")]) == 1, "made once"


def speech_file() -> FilePayload:
    """Return a WAV file with real speech, whose text is `WORDS`."""
    return {"name": "speech.wav", "mimeType": "audio/wav", "buffer": audio_file(generate(seed=1))}


@pytest.mark.parametrize("how", ["faster-whisper is not installed. Install the extra of that name.", ""])
def test_hint_to_install_speech_recognition_is_shown_only_to_the_host(studio: Page, how: str) -> None:

    def without(route: Route) -> None:
        me = route.fetch().json()
        me["features"]["transcribe"] = {"available": False, "how": how}
        route.fulfill(json=me)

    studio.route("**/studio/me", without)
    reload_to_speak(studio)
    enter(studio, "clone")
    to_words(studio, wav(3.0))
    expect(studio.locator("#vw-clone-transcribe")).to_be_hidden()
    hint = studio.locator("#vw-clone-asr-how")
    assert hint.is_visible() == bool(how)
    if how:
        expect(hint.locator("p")).to_be_hidden()
        hint.locator("summary").click()
        expect(hint.locator("p")).to_contain_text(".[asr]")


def scene() -> FilePayload:
    """Return a WAV file with phrases of 3 s, pauses, two coughs and silence.

    A cough and the silence follow the second phrase. The other cough is in the best part of the recording.
    """
    quiet = np.zeros(9_600, np.float32)
    early = [voice(3, 1), quiet, cough(), np.zeros(60_000, np.float32)]
    best = [piece for seed in (2, 3, 4, 5) for piece in (voice(3, seed), quiet)]
    sound = np.concatenate([*early, *best, np.zeros(60_000, np.float32), voice(2, 6)])
    return {"name": "kitchen.wav", "mimeType": "audio/wav", "buffer": audio_file(sound)}


def test_best_part_selection_and_cough_removal_can_be_undone(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", scene())
    expect(studio.locator("#vw-clone-trim")).to_be_visible()
    start, end = span(studio)
    assert 10 <= end - start <= 15
    assert 5.5 < start < 7, "behind the cough"
    assert {"cough", "pause"}.isdisjoint(advice(studio))
    studio.keyboard.press("Control+z")
    whole = span(studio)
    assert whole[0] == 0
    assert whole[1] > 20
    assert {"cough", "pause"} <= set(advice(studio))
    finding = studio.locator("#vw-clone-clinic [data-code=cough]")
    expect(finding).to_contain_text(re.compile(r"at 0:03\.\d"))
    finding.get_by_role("button", name="Remove it").click()
    assert span(studio) == whole
    assert "cough" not in advice(studio)
    left = float(studio.inner_text("#vw-clone-use").split()[-2])
    assert 0.2 < whole[1] - left < 0.7
    studio.locator(".vw-toast button", has_text="Undo").click()
    assert "cough" in advice(studio)
    studio.click("#vw-clone-best")
    assert span(studio) == [start, end]
    # Each step moves the focus to its heading and adds its name to the URL.
    studio.click("#vw-clone-use")
    assert studio.evaluate("document.activeElement.textContent") == "Transcript"
    assert studio.url.endswith("#/clone/2")
    studio.fill("#vw-clone-transcript", SAID)
    studio.click("#vw-clone-words-done")
    assert studio.evaluate("document.activeElement.textContent") == "Consent and name"
    expect(studio.locator(".vw-step").nth(1)).to_contain_text(SAID)
    studio.get_by_role("button", name="Change: The recording").click()
    assert studio.evaluate("document.activeElement.textContent") == "The recording"
    studio.click("#vw-clone-drop")
    expect(studio.locator("#vw-clone-ways")).to_be_visible()
    studio.keyboard.press("Control+z")
    assert span(studio) == [start, end]
    expect(studio.locator("#vw-clone-transcript")).to_have_value(SAID)


def test_message_about_a_too_short_recording_is_one_short_sentence(studio: Page) -> None:
    enter(studio, "clone")
    sound = np.concatenate([generate(seed=1)[:36_000], np.zeros(72_000, np.float32)])
    studio.set_input_files("#vw-clone-file", {**wav(1.0), "buffer": audio_file(sound)})
    expect(studio.locator("#vw-clone-trim")).to_be_visible()
    studio.keyboard.press("Control+z")  # Select the silence at the end as well.
    assert advice(studio) == ["short"]
    item = studio.locator("#vw-clone-clinic [data-code=short] b")
    expect(item).to_have_text(re.compile(r"^Only 1\.\d s of speech; about ten seconds are best\.$"))
    studio.select_option("#vw-language", "zh")
    expect(item).to_have_text("语音太短；十秒左右最好。")
    studio.select_option("#vw-language", "en")


@pytest.mark.quick
def test_long_recording_hint_disappears_with_the_next_recording(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", wav(75.0, rate=16000))
    cut = studio.locator("#vw-clone-cut")
    expect(cut).to_contain_text("1:15")
    assert studio.locator(".vw-trim-ruler span").all_inner_texts()[1] == "0:18.8", "not rounded down to 0:18"
    expect(cut).to_contain_text("60 s")
    begin, end = (studio.locator(f"#vw-clone-trim [data-edge={edge}]") for edge in ("start", "end"))
    begin.press("Home")
    end.press("End")
    assert span(studio) == [15.0, 75.0], "as long as can be used"
    studio.click("#vw-clone-use")
    studio.check("#vw-clone-xvector")
    studio.locator(".vw-step-change").first.click()
    studio.click("#vw-clone-drop")
    studio.set_input_files("#vw-clone-file", wav(3.0))
    expect(studio.locator("#vw-clone-span [data-edge=end]")).to_have_value("3.00")
    expect(cut).to_be_hidden()
    studio.click("#vw-clone-use")
    expect(studio.locator("#vw-clone-xvector")).not_to_be_checked()
    expect(studio.locator("#vw-clone-transcript")).to_be_enabled()


def test_error_of_a_selection_disappears_when_another_part_is_selected(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", wav(4.0))
    error = studio.locator("#vw-room-clone [data-error-for=ref_audio]")
    end = studio.locator("#vw-clone-trim [data-edge=end]")
    end.press("Home")
    expect(error).to_contain_text("at least 1 s is needed")
    end.press("End")
    expect(error).to_be_empty()
    expect(studio.locator("#vw-clone-use")).to_be_enabled()


def test_oversized_recording_file_is_refused_with_its_limit_and_advice(studio: Page) -> None:
    enter(studio, "clone")
    hours = io.BytesIO()
    soundfile.write(hours, np.zeros(601 * 8000), 8000, format="WAV", subtype="PCM_U8")
    studio.set_input_files("#vw-clone-file", {"name": "hours.wav", "mimeType": "audio/wav", "buffer": hours.getvalue()})
    notice = studio.locator("#vw-room-clone [data-error-for=ref_audio]")
    way_on = "Cut out a part with one speaker and choose that."
    expect(notice).to_have_text(f"hours.wav was not added. The recording is 11 min long; the limit is 10 min. {way_on}")
    studio.evaluate(
        """() => {
          const field = document.querySelector('#vw-clone-file');
          const given = new DataTransfer();
          given.items.add(new File([new Uint8Array(100 * 2 ** 20 + 1)], 'large.wav'));
          field.files = given.files;
          field.dispatchEvent(new Event('change', { bubbles: true }));
        }"""
    )
    expect(notice).to_have_text(f"large.wav was not added. The file has 101 MB; the limit is 100 MB. {way_on}")
    expect(studio.locator("#vw-clone-recording")).to_be_hidden()


def test_clone_room_is_fully_translated_to_chinese(studio: Page) -> None:
    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", wav(3.0))
    advice(studio)
    studio.select_option("#vw-language", "zh")
    expect(studio.locator("#vw-clone-use")).to_have_text("使用这 3.0 秒")
    expect(studio.locator("#vw-clone-clinic .vw-care").first).to_contain_text("录音")
    studio.select_option("#vw-language", "en")
    expect(studio.locator("#vw-clone-use")).to_have_text("Use these 3.0 s")


def test_name_of_a_microphone_recording_is_translated(studio: Page) -> None:
    enter(studio, "clone")
    studio.click("#vw-clone-record")
    expect(studio.locator("#vw-clone-status")).to_contain_text(re.compile(r"[1-9]\.\d"))
    studio.click("#vw-clone-stop")
    expect(studio.locator("#vw-clone-name")).to_have_text("Recorded here")
    studio.select_option("#vw-language", "zh")
    expect(studio.locator("#vw-clone-name")).to_have_text("在此录制")
    studio.select_option("#vw-language", "en")
    expect(studio.locator("#vw-clone-name")).to_have_text("Recorded here")


def test_clone_room_fits_a_phone_in_dark_mode(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True, color_scheme="dark")
    enter(page, "clone")
    page.set_input_files("#vw-clone-file", wav(3.0))
    advice(page)
    handle = page.locator("#vw-clone-trim [data-edge=end]").bounding_box()
    assert handle is not None
    assert handle["width"] >= 24, "wide enough for a thumb"
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.screenshot(path=SCREENSHOTS / "clone-phone-dark.png", full_page=True)


def test_completed_step_summaries_are_not_cut_off_on_a_phone(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 360, "height": 740})
    enter(page, "clone")
    clone_from(page, {**wav(3.0), "name": "My voice in the kitchen.wav"}, "The heron waits.")
    too_short = "The transcript is short for this recording; it must hold all the words that are spoken."
    for step, said in enumerate(["My voice in the kitchen.wav · 3.0 s", too_short]):
        summary = page.locator(".vw-step-sum").nth(step)
        expect(summary).to_have_text(said)
        assert summary.evaluate("(summary) => summary.scrollWidth <= summary.clientWidth"), said


def test_recording_file_can_be_dropped_on_the_recording_card(studio: Page) -> None:
    enter(studio, "clone")
    sound = base64.b64encode(wav(3.0)["buffer"]).decode()
    card = studio.locator("#vw-clone-card")
    dropped = studio.evaluate_handle(
        """(sound) => {
          const bytes = Uint8Array.from(atob(sound), (one) => one.charCodeAt(0));
          const dropped = new DataTransfer();
          dropped.items.add(new File([bytes], 'dropped.wav', { type: 'audio/wav' }));
          return dropped;
        }""",
        sound,
    )
    card.dispatch_event("dragover", {"dataTransfer": dropped})
    expect(card).to_have_class(re.compile("vw-drop"))
    card.dispatch_event("drop", {"dataTransfer": dropped})
    expect(card).not_to_have_class(re.compile("vw-drop"))
    expect(studio.locator("#vw-clone-name")).to_contain_text("dropped.wav")
    expect(studio.locator("#vw-clone-trim")).to_be_visible()


def test_cloning_without_a_transcript_does_not_ask_for_a_transcript(studio: Page) -> None:
    enter(studio, "clone")
    to_words(studio, wav(3.0))
    done = studio.locator("#vw-clone-words-done")
    expect(done).to_have_text("Use this transcript")
    studio.check("#vw-clone-xvector")
    expect(done).to_have_text("Continue without a transcript")
    studio.uncheck("#vw-clone-xvector")
    expect(done).to_have_text("Use this transcript")
