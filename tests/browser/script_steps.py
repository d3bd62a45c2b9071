"""Helpers for tests of the Script room: user actions and checks of the audio."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import soundfile
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from tests.browser.design_steps import origin
from tests.support.app import App

MADE_MS = 120_000  # Timeout for generating a few sentences on a busy machine.

Pcm = NDArray[np.int16]

RATE = 24000
GAP_S = 0.4
PAUSE = re.compile(r"\[pause[^\]]*\]")

DIALOGUE = """CLARA: I walked home along the river tonight.

ANGUS: Yes. [pause 0.5s] Quite.

CLARA: [pause 300ms] Go on."""


def line(page: Page, number: int) -> Locator:
    return page.locator("#vw-script-lines > li").nth(number - 1)


def voice_of(page: Page, number: int) -> str:
    """Return the mode and the voice of a script's line, as "mode:voice"."""
    return line(page, number).locator(".vw-line-voice").get_attribute("data-voice") or ""


def cast(page: Page, number: int, voice: str) -> None:
    """Select the voice of a script's line in the voice picker."""
    line(page, number).locator(".vw-line-voice").click()
    page.click(f"#vw-voice-sheet .vw-pick[data-voice='{voice}'] > .vw-pick-choose")
    expect(page.locator("#vw-voice-sheet")).to_be_hidden()


def text_of(page: Page, number: int) -> Locator:
    return line(page, number).locator(".vw-line-text")


def texts(page: Page) -> list[str]:
    fields = page.locator("#vw-script-lines .vw-line-text")
    return [fields.nth(number).input_value() for number in range(fields.count())]


def enter_script(page: Page) -> None:
    page.click("#vw-tab-script")
    expect(line(page, 1)).to_be_visible()


def new_script(page: Page, name: str) -> None:
    page.click("#vw-script-shelf summary")
    page.click("#vw-script-new")
    expect(page.locator("#vw-script-lines > li")).to_have_count(1)
    page.fill("#vw-script-name", name)


def paste(page: Page, number: int, text: str, html: str = "") -> None:
    """Paste text into a script's line, like Ctrl+V.

    `html` is the same text as HTML, which a browser also puts into the clipboard.
    """
    text_of(page, number).focus()
    page.evaluate(
        """([text, html]) => {
          const clipboardData = new DataTransfer();
          clipboardData.setData('text/plain', text);
          if (html) clipboardData.setData('text/html', html);
          const paste = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
          document.activeElement.dispatchEvent(paste);
        }""",
        [text, html],
    )


def await_saved(page: Page) -> None:
    expect(page.locator("#vw-script-saved")).to_have_text("Saved")


def await_made(page: Page, *numbers: int) -> None:
    for number in numbers:
        expect(line(page, number)).to_have_attribute("data-state", "made", timeout=MADE_MS)


def await_kept(page: Page, *numbers: int, beside: Collection[str] = ()) -> None:
    """Wait until the stored script has new takes for all these lines.

    `beside` has the IDs of the old takes. The page receives all audio of a take before the studio stores the take and
    the script.
    """
    listed = f"{origin(page)}/studio/scripts"
    takes: list[list[str]] = []
    deadline = time.monotonic() + MADE_MS / 1000
    while time.monotonic() < deadline:
        scripts = page.request.get(listed).json()["scripts"]  # The list is empty until the first script is saved.
        lines = page.request.get(f"{listed}/{scripts[0]['id']}").json()["lines"] if scripts else []
        wanted = [sum(map(bool, map(str.strip, PAUSE.split(each["text"])))) for each in lines]
        takes = [[part["take"] for part in each.get("takes", [])] for each in lines]
        if len(lines) >= max(numbers) and all(
            len(takes[at - 1]) == wanted[at - 1] and not {*takes[at - 1]} & {*beside} for at in numbers
        ):
            break
        page.wait_for_timeout(100)
    else:
        raise AssertionError(f"lines {numbers} have the takes {takes}")
    await_saved(page)


def client(page: Page, app: App) -> httpx.Client:
    """Return an HTTP client that uses the cookies of the page in the browser."""
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    return httpx.Client(base_url=app.url, cookies=cookies, trust_env=False, timeout=120)


def stored_script(page: Page, app: App) -> dict[str, Any]:
    with client(page, app) as http:
        newest = http.get("/studio/scripts").json()["scripts"][0]
        return http.get(f"/studio/scripts/{newest['id']}").json()


def await_stored(page: Page, app: App, lines: list[dict[str, Any]]) -> None:
    """Wait until the lines of the stored script are equal to `lines`.

    Older versions of the script, which are stored first, are ignored.
    """
    for _ in range(MADE_MS // 100):
        if stored_script(page, app)["lines"] == lines:
            return
        page.wait_for_timeout(100)
    assert stored_script(page, app)["lines"] == lines


def sound_of(page: Page, app: App, take: str) -> Pcm:
    with client(page, app) as http:
        return np.frombuffer(http.get(f"/studio/takes/{take}/audio?format=pcm").content, "<i2")


def silence(seconds: float) -> Pcm:
    return np.zeros(round(seconds * 24000), np.int16)


def heard(page: Page) -> Pcm:
    """Return the audio that the page has played, without silence at the start and the end."""
    samples = np.array(page.evaluate("tap.samples()"), np.float64)
    whole = np.round(samples).astype(np.int16)
    assert np.array_equal(whole, samples), "what is heard is whole steps of 16 bits"
    return np.trim_zeros(whole)


def joined(page: Page, app: App) -> tuple[Pcm, list[Pcm]]:
    """Return the expected audio of a script with its pauses, and the audio of its three lines."""
    first_sound, two, three = (
        [sound_of(page, app, part["take"]) for part in kept["takes"]] for kept in stored_script(page, app)["lines"]
    )
    lines = [first_sound[0], np.concatenate([two[0], silence(0.5), two[1]]), np.concatenate([silence(0.3), three[0]])]
    gap = silence(GAP_S)
    return np.concatenate([lines[0], gap, lines[1], gap, lines[2]]), lines


def make_all(page: Page) -> None:
    page.click("#vw-speak")
    await_made(page, 1, 2, 3)
    page.keyboard.press("Escape")
    await_kept(page, 1, 2, 3)


def await_silence(page: Page) -> None:
    expect(page.locator("#vw-stop")).to_be_disabled(timeout=MADE_MS)


def listen_anew(page: Page) -> None:
    """Wait until playback has ended and faded out, and clear the recorded audio."""
    await_silence(page)
    page.wait_for_timeout(500)
    page.evaluate("tap.clear()")


def export(page: Page, shape: str, **choices: str) -> tuple[str, bytes]:
    page.click("#vw-script-files")
    page.select_option("#vw-script-shape", shape)
    for name, value in choices.items():
        page.select_option(f"#vw-script-{name}", value)
    with page.expect_download(timeout=MADE_MS) as waiting:
        page.click("#vw-script-go")
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def decoded(data: bytes) -> Pcm:
    samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == RATE
    return np.asarray(samples)
