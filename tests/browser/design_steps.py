"""Helpers for tests of the Design room: user actions and checks of stored takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import FilePayload, Locator, Page, WebSocket, expect

from tests.browser.steps import enter, vary
from tests.support.app import App
from tests.support.signals import voice

Pcm = NDArray[np.int16]

LETTERS = "ABC"  # Labels of the three takes that are generated together.
SAID = "The kettle has just boiled, and the boat came back in the evening before anybody expected it. "
KEPT_SEED = 7  # Seed of the takes that are saved as voices.
MADE_MS = 150_000
SAID_MS = 60_000
HEADER_BYTES = 16  # Size of the header of an audio frame.


@dataclass
class Wire:
    """Recorder of the messages on the page's WebSockets."""

    asked: list[dict[str, Any]] = field(default_factory=list)  # Messages of type session.config that the page has sent.
    frames: list[bytes] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        socket.on("framesent", self._sent)
        socket.on("framereceived", self._received)

    def _sent(self, data: str | bytes) -> None:
        message = json.loads(data)
        if message["type"] == "session.config":
            self.asked.append(message)

    def _received(self, data: str | bytes) -> None:
        if isinstance(data, bytes):
            self.frames.append(data)

    def channels(self) -> list[int]:
        """Return the channel number of each received audio frame, in order of arrival."""
        return [int.from_bytes(frame[2:4], "little") for frame in self.frames]

    def sound(self, channel: int) -> Pcm:
        ours = [frame for frame, frames in zip(self.frames, self.channels(), strict=True) if frames == channel]
        return np.frombuffer(b"".join(frame[HEADER_BYTES:] for frame in ours), "<i2")


def newest(page: Page) -> Locator:
    """Return the newest set of takes."""
    return page.locator(".vw-design-set").first


def card(page: Page, letter: str) -> Locator:
    """Return the card of the take with this letter in the newest set."""
    return newest(page).locator(f"article[data-letter={letter}]")


def state(page: Page, letter: str) -> str:
    return card(page, letter).get_attribute("data-state") or ""


def expect_state(page: Page, letters: str, *states: str) -> None:
    for letter in letters:
        pattern = re.compile(f"^({'|'.join(states)})$")
        expect(card(page, letter)).to_have_attribute("data-state", pattern, timeout=MADE_MS)


def expect_set(page: Page, number: int, letters: str = LETTERS) -> None:
    """Wait until the newest set of takes has this number and all its takes are complete."""
    expect(newest(page).get_by_role("heading")).to_have_text(f"Set {number}")
    expect_state(page, letters, "done")


def act(page: Page, letter: str, name: str) -> None:
    card(page, letter).locator(f"[data-act={name}]").click()


def change(page: Page, letter: str, name: str) -> None:
    card(page, letter).locator(f"[data-change={name}]").click()


def keep_as(page: Page, letter: str, name: str) -> None:
    """Save a take of the newest set as a voice with this name.

    Fail if the form shows an error.
    """
    act(page, letter, "keep")
    page.fill("#vw-design-name", name)
    page.keyboard.press("Enter")
    said = page.locator("#vw-design-name-error, #vw-design-keep-form [data-error-for=keep]")
    refused = said.filter(has_text=re.compile(r"\S"))
    kept = newest(page).locator(f"article[data-letter={letter}][data-state=kept]")
    expect(kept.or_(refused).first).to_be_visible(timeout=SAID_MS)
    assert refused.all_inner_texts() == []


def fix_seed(page: Page, seed: int) -> None:
    """Use this seed for all three takes of each following set.

    For about one seed in seventy, the random audio contains so little speech that the runtime reports a transcript
    mismatch, and the form that saves a take as a voice shows an error.
    """
    vary(page)
    page.check("#vw-lock")
    page.fill("#vw-seed", str(seed))


def menu(page: Page, letter: str, name: str = "") -> str:
    """Open the menu of a take, click the item `name`, and return the first line of the menu."""
    card(page, letter).locator(".vw-design-take-menu").click()
    facts = page.locator("#vw-design-menu p").inner_text()
    if name:
        page.locator(f"#vw-design-menu [data-do={name}]").click()
    else:
        page.keyboard.press("Escape")
    return facts


def fixed_seed(page: Page) -> int | None:
    """Return the seed in the form of the Design room, or None if the seed is not fixed."""
    return int(page.input_value("#vw-seed")) if page.is_checked("#vw-lock") else None


def seeds(page: Page) -> list[int]:
    """Return the seeds of the newest set, after all its takes were stored."""
    number = newest(page).get_by_role("heading").inner_text().removeprefix("Set ")
    kept = {take_name(take): take["seed"] for take in reversed(takes(page))}
    letters = newest(page).locator("article").evaluate_all("all => all.map(({ dataset }) => dataset.letter)")
    return [kept[f"Take {number}{letter}"] for letter in letters]


def take_name(take: dict[str, Any]) -> str:
    """Return the set and letter of a stored take, for example "Take 1A".

    In the label of the take, the name of the voice precedes this text.
    """
    found = re.search(r"Take \d+[ABC]", take["label"] or "")
    return found[0] if found else ""


def playing(page: Page) -> list[str]:
    """Return the letters of the takes in the newest set that are playing.

    The state is read from the button labels for screen readers.
    """
    stop = re.compile(r"^Stop take \d+[ABC]$")
    return [letter for letter in LETTERS if card(page, letter).get_by_role("button", name=stop).count()]


def expect_playing(page: Page, *letters: str) -> None:
    """Wait until exactly these takes of the newest set are playing."""
    for _ in range(SAID_MS // 50):
        if playing(page) == list(letters):
            return
        page.wait_for_timeout(50)
    assert playing(page) == list(letters)


def enter_design(page: Page, text: str) -> None:
    enter(page, "design")
    page.fill("#vw-text", text)


@contextmanager
def newly_kept(page: Page, count: int) -> Iterator[None]:
    """Wait at the end of the block until `count` new takes were stored.

    The Library on the page must also list the new takes.
    """
    before = {take["id"] for take in takes(page)}
    yield
    found = 0
    for _ in range(MADE_MS // 100):
        new = {take["id"] for take in takes(page)} - before
        found = sum(page.locator(f"#vw-takes-list [data-take='{id}']").count() for id in new)
        if found >= count:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{count} takes should have been kept, {found} were")


def make_three(page: Page) -> None:
    """Generate three takes, and wait until all are stored."""
    before = page.locator(".vw-design-set").count()
    with newly_kept(page, 3):
        page.click("#vw-speak")
        expect(page.locator(".vw-design-set")).to_have_count(before + 1)
        expect_state(page, LETTERS, "done")


def takes(page: Page) -> list[dict[str, Any]]:
    """Return the stored takes of the Design room, newest first."""
    listed: dict[str, Any] = page.request.get(f"{origin(page)}/studio/takes?room=design&limit=100").json()
    return list(listed["takes"])


def take_of(page: Page, seed: int) -> dict[str, Any]:
    """Return the newest take with this seed from the stored takes of the Design room."""
    return next(take for take in takes(page) if take["seed"] == seed)


def sound_of(page: Page, take: dict[str, Any]) -> Pcm:
    return np.frombuffer(page.request.get(f"{origin(page)}/studio/takes/{take['id']}/audio?format=pcm").body(), "<i2")


def keep_take(page: Page, number: int, **fields: Any) -> str:
    """Upload a take of the Design room, and return its ID.

    The take has an old label, which does not contain the name of the voice.
    """
    take = {"room": "design", "mode": "voice_design", "text": SAID, "label": f"Take {number}B", **fields}
    pcm = np.round(voice(1.0, number) * 32767).astype("<i2")
    sound: FilePayload = {"name": "take.pcm", "mimeType": "application/octet-stream", "buffer": pcm.tobytes()}
    answer = page.request.post(f"{origin(page)}/studio/takes", multipart={"take": json.dumps(take), "pcm": sound})
    assert answer.ok, answer.text()
    return str(answer.json()["id"])


def origin(page: Page) -> str:
    return re.split(r"[?#]", page.url, maxsplit=1)[0].rstrip("/")


def voices(app: App) -> dict[str, dict[str, Any]]:
    """Return the stored voices by name."""
    listed = httpx.get(f"{app.url}/v1/audio/voices", trust_env=False).json()
    return {voice["name"]: voice for voice in listed["data"]}
