"""Helpers for tests of all rooms: user actions and checks."""

from __future__ import annotations

import re
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Download, FilePayload, Locator, Page, Route, expect

from tests.support.audio_files import audio_file
from tests.support.signals import voice

SHORT = "Hi."
PLAYED_MS = 60_000


def reading(page: Page, name: str) -> str:
    """Return the text of an element with the ID "vw-" plus `name`, which may be hidden.

    Most of these elements show measurements of the take and are in a closed dialog.
    """
    return (page.text_content(f"#vw-{name}") or "").strip()


def expect_accessible(page: Page) -> None:
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def vary(page: Page) -> None:
    """Open the section with the settings for the variation between takes."""
    page.evaluate("document.querySelector('#vw-shared-variation').open = true")


def save(page: Page, form: str = "wav") -> Download:
    """Download the current take in the file format `form`, and return Playwright's download."""
    page.click("#vw-save")
    with page.expect_download() as download:
        page.click("#vw-download" if form == "wav" else f"#vw-keep [data-format={form}]")
    return download.value


def copy_code(page: Page) -> None:
    page.click("#vw-save")
    page.click("#vw-copy-code")


def await_sound(page: Page) -> None:
    expect(page.locator("#vw-audible")).not_to_have_text("–", timeout=PLAYED_MS)


def play_through(page: Page, button: str) -> None:
    page.click(button)
    expect(page.locator("#vw-stop")).to_be_enabled()
    await_end(page)


def await_end(page: Page) -> None:
    expect(page.locator("#vw-stop")).to_be_disabled(timeout=PLAYED_MS)


def speak_whole(page: Page, text: str) -> None:
    """Generate speech for a text, and wait until it has been played to its end."""
    page.fill("#vw-text", text)
    play_through(page, "#vw-speak")


def kept_take(page: Page, text: str) -> str:
    """Generate speech for a text, wait until the take is stored, and return its ID."""
    page.fill("#vw-text", text)
    with page.expect_response(lambda reply: reply.url.endswith("/studio/takes"), timeout=2 * PLAYED_MS) as kept:
        page.click("#vw-speak")
    record = kept.value.json()
    expect(page.locator("#vw-star")).to_be_visible()
    return str(record["id"])


def history_row(page: Page, words: str) -> Locator:
    """Return the row of the newest take with this text or name in the Library."""
    return page.locator("#vw-takes-list .vw-take", has_text=words).first


def clock(page: Page) -> float:
    """Return the playback position of the page in seconds."""
    minutes, seconds = reading(page, "time").split(":")
    return 60 * int(minutes) + float(seconds)


def seed(page: Page) -> int:
    return int(page.input_value("#vw-seed"))


def wav(seconds: float, rate: int = 24000, seed: int = 9) -> FilePayload:
    return {"name": "voice.wav", "mimeType": "audio/wav", "buffer": audio_file(voice(seconds, seed, rate), rate)}


def reload(page: Page) -> None:
    page.reload(wait_until="domcontentloaded")
    expect(page.locator("#vw-status")).to_have_attribute("data-state", "ready")


def reload_to_speak(page: Page) -> None:
    page.reload(wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for()


def change_model_cards(page: Page, **fields: Any) -> None:
    """Replace fields of every model card that the page receives from now on."""

    def answer(route: Route) -> None:
        listing = route.fetch().json()
        route.fulfill(json={**listing, "data": [{**card, **fields} for card in listing["data"]]})

    page.route("**/v1/models", answer)


def recall_a_take(page: Page) -> None:
    """Reload the page with the state of a browser that has already played a take."""
    page.evaluate("localStorage.setItem('voicewright.heard', '1')")
    reload(page)


def enter(page: Page, room: str) -> None:
    page.click(f"#vw-tab-{room}")
    expect(page.locator(f"#vw-room-{room}")).to_be_visible()


def speaker(page: Page) -> str:
    """Return the voice that is selected in the Speak room.

    The result is the name of a speaker or the ID of a stored voice.
    """
    return (picker(page).locator(".vw-picked").get_attribute("data-voice") or "").partition(":")[2]


def expect_speaker(page: Page, name: str) -> None:
    """Wait until a voice is selected in the Speak room.

    Args:
        page: Page of the studio.
        name: Name of a speaker, or ID of a stored voice.
    """
    expect(picker(page).locator(".vw-picked")).to_have_attribute("data-voice", re.compile(rf":{re.escape(name)}$"))


def picker(page: Page) -> Locator:
    """Return the voice picker of the Speak room."""
    return page.locator("#vw-speakers-picker")


def choose(page: Page, name: str) -> None:
    """Select the voice with this name in the Speak room."""
    picker(page).locator(".vw-pick-choose", has=page.get_by_text(name, exact=True)).click()


def to_words(page: Page, file: FilePayload) -> None:
    """Upload a recording in the Clone room, and continue to the step for the transcript."""
    page.set_input_files("#vw-clone-file", file)
    page.click("#vw-clone-use")
    expect(page.locator("#vw-clone-transcript")).to_be_visible()


def clone_from(page: Page, file: FilePayload, words: str | None) -> None:
    """Clone a voice from a recording in the Clone room, until the voice can speak.

    The voice is not stored. If `words` is None, only the x-vector of the recording is used.
    """
    to_words(page, file)
    if words is None:
        page.check("#vw-clone-xvector")
    else:
        page.fill("#vw-clone-transcript", words)
    try_out(page)


# Script that returns true if the browser has stored the Clone room's recording under this name
# (assets/js/common/storage.js).
KEEPS = """
async (name) => {
  const asked = indexedDB.open('voicewright', 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore('recordings');
  const of = (request) => new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
  const database = await of(asked);
  const kept = await of(database.transaction('recordings').objectStore('recordings').get('clone'));
  database.close();
  const draft = JSON.parse(localStorage.getItem('voicewright.draft.clone'));
  return kept?.name === name && draft?.recording === kept.at;
}
"""


def await_recording(page: Page, name: str) -> None:
    """Wait until the browser has stored the recording with this name and its draft."""
    expect(page.locator("#vw-clone-name")).to_have_text(name)
    page.wait_for_function(KEEPS, arg=name)


def hear_clone(page: Page) -> None:
    """Play the text of the recording in the cloned voice.

    The page requires this before the voice can be stored.
    """
    page.click("#vw-clone-play-clone")
    await_sound(page)
    page.keyboard.press("Escape")
    await_end(page)


def try_out(page: Page) -> None:
    """Continue from the transcript to the step in which the user can try the cloned voice.

    The voice can speak in this step without being stored.
    """
    page.click("#vw-clone-words-done")
    page.click("#vw-clone-try > summary")
    expect(page.locator("#vw-text")).to_be_visible()


def prepare(page: Page, room: str) -> None:
    """Open a room, and fill in the fields that are required for speech."""
    enter(page, room)
    if room == "clone":
        clone_from(page, wav(3.0), "The boat came back in the evening.")
