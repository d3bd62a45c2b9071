"""Tests for the Design room: takes and their variations, comparison and storage as voices."""

from __future__ import annotations

import hashlib
import io
import os
import re
import signal
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page, Route, expect

from runtime.errors import TranscriptMismatch
from runtime.shared.port.errors import format_error
from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.design_steps import (
    KEPT_SEED,
    LETTERS,
    MADE_MS,
    SAID_MS,
    Pcm,
    Wire,
    act,
    card,
    change,
    enter_design,
    expect_playing,
    expect_set,
    expect_state,
    fix_seed,
    fixed_seed,
    keep_as,
    make_three,
    menu,
    newest,
    newly_kept,
    origin,
    seeds,
    sound_of,
    take_of,
    takes,
    voices,
)
from tests.browser.steps import await_end, enter, reload_to_speak, vary
from tests.browser.wire import speak
from tests.support.app import App

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

TAP = (Path(__file__).parent / "tap.js").read_text("utf-8")
TEXT = "The kettle is on."
HEARD = "The kettle is on, and the boat came back in the evening."  # Text that is long enough for reference audio.
LONGER = f"{HEARD} {HEARD}"
FAILED_BELOW = 20  # Minimum difference in loudness units (LU), as in assets/js/design/listening.js.
LOW, HIGH = "A man with a low voice, speaking slowly.", "A woman with a high voice, speaking quickly."


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def room(open_studio: OpenStudio, app: App, wire: Wire) -> Page:
    """Return the Design room with a short text.

    The played audio is recorded.
    """
    page = open_studio(url=f"{app.url}/health", await_ready=False, script=TAP)
    wire.listen(page)
    page.goto(app.url, wait_until="domcontentloaded")
    page.locator("#vw-speak:enabled").wait_for()
    enter_design(page, TEXT)
    page.fill("#vw-design-description", LOW)
    return page


def stop_three(room: Page) -> None:
    """Start three takes of a long text, and stop all three."""
    room.fill("#vw-text", "This goes on for longer than anybody wants to listen. " * 12)
    with newly_kept(room, 3):
        room.click("#vw-speak")
        expect_state(room, LETTERS, "streaming")
        room.keyboard.press("Escape")
        expect_state(room, LETTERS, "stopped")


def tapped(page: Page, button: str, letter: str) -> Pcm:
    """Press a key that plays a take, and return the played audio."""
    page.evaluate("tap.clear()")
    page.keyboard.press(button)
    expect(card(page, letter)).to_have_class(re.compile(r"\bvw-design-take-playing\b"))
    await_end(page)
    page.wait_for_timeout(100)
    return np.trim_zeros(np.array(page.evaluate("tap.samples()")).round().astype(np.int16))


def turned(pcm: Pcm, decibels: float) -> Pcm:
    return np.trim_zeros(np.floor(pcm * 10 ** (decibels / 20) + 0.5).astype(np.int16))


def turned_down(levels: list[float | None]) -> list[float]:
    """Return the gains in dB that give all takes the loudness of the quietest take.

    Nearly silent takes do not count as the quietest take.
    """
    known = [level for level in levels if level is not None]
    quietest = min(level for level in known if level > max(known) - FAILED_BELOW)
    return [0.0 if level is None else min(0.0, quietest - level) for level in levels]


def decibels(gain: float) -> str:
    """Return a gain as the page formats it.

    JavaScript rounds halves away from zero, but Python rounds them to the even neighbour.
    """
    text = str(abs(Decimal(gain)).quantize(Decimal("0.1"), ROUND_HALF_UP))
    return f"{text if text == '0.0' else f'−{text}'} dB"


def await_taken(page: Page, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Wait until a condition on the list of stored takes is true."""
    for _ in range(SAID_MS // 50):
        if holds(takes(page)):
            return
        page.wait_for_timeout(50)
    assert holds(takes(page))


def without_base(page: Page) -> None:
    """Reload the page with a simulated runtime that cannot clone voices."""

    def answer(route: Route) -> None:
        listing = route.fetch().json()
        for each in listing["data"]:
            each["modes"].remove("base")
        route.fulfill(json=listing)

    page.route("**/v1/models", answer)
    reload_to_speak(page)


def test_three_takes_with_different_seeds_stream_concurrently(room: Page, wire: Wire) -> None:
    room.fill("#vw-text", LONGER)  # The text is so long that no take ends before all takes have begun.
    with newly_kept(room, 3):
        room.click("#vw-speak")
        expect_state(room, LETTERS, "streaming", "done")
        expect_playing(room, "A")  # Playback starts before all audio has arrived.
        expect_state(room, LETTERS, "done")

    order = wire.channels()
    channels = sorted(set(order))
    assert len(channels) == 3
    begun = [order.index(channel) for channel in channels]
    ended = [len(order) - 1 - order[::-1].index(channel) for channel in channels]
    assert max(begun) < min(ended)  # Each take has begun before any take has ended.

    asked = [message["seed"] for message in wire.asked]
    assert asked == seeds(room)
    assert len({old + step for old in asked for step in (-1, 0, 1)}) == 9, "no two alike, none beside another"
    for channel, seed in zip(channels, asked, strict=True):
        kept = take_of(room, seed)
        assert kept["sha256"] == hashlib.sha256(wire.sound(channel).tobytes()).hexdigest()
        assert kept["config"] == {"instructions": LOW, "language": "auto"}
        assert (kept["text"], kept["parent"]) == (LONGER, None)
    room.screenshot(path=SCREENSHOTS / "design.png", full_page=True)
    enter(room, "library")
    small = room.locator("#vw-takes-list .vw-take small").first
    expect(small).to_contain_text("A man with a low voice… · Take")
    expect(small).not_to_contain_text("speaking slowly")  # The card shows only the beginning of the description.


def test_same_seed_and_text_give_identical_bytes(room: Page, app: App) -> None:
    make_three(room)
    first = take_of(room, seeds(room)[1])
    room.fill("#vw-text", "Something else.")
    room.fill("#vw-design-description", HIGH)
    assert menu(room, "B", "again").startswith(f"Seed {first['seed']} · ")
    assert (room.input_value("#vw-text"), room.input_value("#vw-design-description")) == (TEXT, LOW)
    assert fixed_seed(room) == first["seed"]
    make_three(room)
    again = take_of(room, first["seed"])
    assert again["id"] != first["id"]
    assert again["sha256"] == first["sha256"]
    second = seeds(room)
    make_three(room)
    assert seeds(room) == second, "a fixed seed brings all three back"
    alone = speak(app, TEXT, task_type="VoiceDesign", instructions=LOW, language="auto", seed=first["seed"])
    assert hashlib.sha256(alone.tobytes()).hexdigest() == first["sha256"]


def test_keyboard_plays_stops_and_resumes_a_take(room: Page) -> None:
    room.fill("#vw-text", LONGER)  # The text is so long that no take ends before its key is pressed.
    make_three(room)
    room.keyboard.press("Escape")
    room.locator("#vw-speak").focus()
    room.keyboard.press("1")
    expect_playing(room, "A")
    seconds = "parseFloat(document.querySelector('#vw-time').textContent.split(':')[1])"
    room.wait_for_function(f"{seconds} >= 1.5")
    room.keyboard.press("2")
    room.wait_for_function(f"{seconds} < 1.5")  # Playback restarts at the beginning.
    expect_playing(room, "B")
    room.wait_for_function(f"{seconds} >= 0.7")
    reached = room.evaluate(seconds)
    room.keyboard.press("Shift+3")
    expect_playing(room, "C")
    room.wait_for_function(f"{seconds} > {reached}")
    assert room.evaluate(seconds) < reached + 2  # Playback of C continues at the position of B.
    room.keyboard.press("3")
    expect_playing(room)
    room.focus("#vw-design-description")
    room.keyboard.press("2")  # The key types a digit into the field and has no other effect.
    expect_playing(room)
    assert "2" in room.input_value("#vw-design-description")


def test_takes_are_played_at_equal_loudness(room: Page) -> None:
    make_three(room)
    room.keyboard.press("Escape")
    kept = [take_of(room, seed) for seed in seeds(room)]
    gains = turned_down([take["lufs"] for take in kept])
    assert min(gains) < 0
    for letter, gain in zip(LETTERS, gains, strict=True):
        assert menu(room, letter).endswith(f" · {decibels(gain)}")
    loudest = int(np.argmin(gains))
    heard = tapped(room, str(loudest + 1), LETTERS[loudest])
    np.testing.assert_array_equal(heard, turned(sound_of(room, kept[loudest]), gains[loudest]))


def test_button_for_similar_takes_clones_the_take_and_keeps_the_original(room: Page, wire: Wire) -> None:
    room.fill("#vw-text", HEARD)
    expect(room.locator("#vw-text-count")).to_contain_text("12 words")
    counted = room.locator("#vw-text-count").inner_text()
    room.fill("#vw-text", f"[pause 0.2s] {HEARD}")
    expect(room.locator("#vw-text-count")).to_have_text(counted)
    make_three(room)
    parent = take_of(room, seeds(room)[1])
    assert parent["config"]["tags"] is True
    # A new description applies to the next three takes and not to the existing take.
    room.fill("#vw-design-description", HIGH)
    room.fill("#vw-text", "Come in.")
    with newly_kept(room, 3):
        act(room, "B", "closer")
        expect_set(room, 2)
    expect(newest(room)).to_contain_text("the same voice again")
    expect(newest(room)).to_contain_text("from 1B")
    expect(room.locator(".vw-design-set").nth(1).locator("article")).to_have_count(3)
    added = [take_of(room, seed) for seed in seeds(room)]
    for take in added:
        assert (take["mode"], take["parent"], take["text"]) == ("base", parent["id"], "Come in.")
        assert take["label"].endswith(f" · {parent['config']['instructions']}"), "who speaks, in its own record"
        assert take["label"].startswith("A man with a low voice… · Take 2"), "as takes of other voices do not"
        assert take["config"]["ref_text"] == HEARD, "without the tag"
        assert "tags" not in take["config"]
        reference = room.request.get(f"{origin(room)}/studio/takes/{take['id']}/reference").body()
        heard, _ = soundfile.read(io.BytesIO(reference), dtype="int16")
        np.testing.assert_array_equal(heard, sound_of(room, parent))
    plain, steadier, livelier = (take["config"].get("temperature") for take in added)
    assert plain is None
    assert steadier < livelier
    expect(card(room, "B")).to_contain_text("steadier")
    expect(card(room, "C")).to_contain_text("livelier")
    # The button that changes the description is hidden, because descriptions do not affect cloned takes.
    expect(card(room, "A").locator("[data-change=older]")).to_be_hidden()
    followed = room.locator(".vw-design-set").nth(1)
    expect(followed.locator("[data-change=older]")).to_have_count(3)
    expect(followed.locator("[data-change=older]").first).to_be_visible()
    room.keyboard.press("Escape")
    room.keyboard.press("3")
    expect_playing(room, "C")
    room.keyboard.press("3")

    with newly_kept(room, 2):
        newest(room).get_by_role("button", name="Two more").click()
        expect_set(room, 3, "AB")
    assert [message["task_type"] for message in wire.asked[-2:]] == ["base", "base"], "again after the same sound"
    act(room, "A", "keep")
    assert room.locator("#vw-design-name").input_value() == "A man with a low voice"


def test_change_button_extends_the_voice_description_and_keeps_the_seeds(room: Page) -> None:
    make_three(room)
    before = seeds(room)
    parents = {seed: take_of(room, seed)["id"] for seed in before}
    with newly_kept(room, 3):
        change(room, "B", "warmer")
        expect_set(room, 2)
    assert seeds(room) == before
    expect(newest(room)).to_contain_text("+ warmer")
    expect(room.locator("#vw-design-description")).to_have_value(f"{LOW} Warmer.")
    for take in takes(room)[:3]:
        assert (take["config"]["instructions"], take["parent"]) == (f"{LOW} Warmer.", parents[take["seed"]])
    room.locator("#vw-toasts").get_by_role("button", name="Undo").click()
    expect(room.locator("#vw-design-description")).to_have_value(LOW)
    room.fill("#vw-design-description", HIGH)
    room.fill("#vw-text", "Another text stands in the field now.")
    with newly_kept(room, 2):
        newest(room).get_by_role("button", name="Two more").click()
        expect_set(room, 3, "AB")
    assert not set(seeds(room)) & set(before)
    assert {take["config"]["instructions"] for take in takes(room)[:2]} == {f"{LOW} Warmer."}, "of the set's own words"
    assert len({take["text"] for take in takes(room)[:5]}) == 1, "compared at one text"


def test_without_a_base_checkpoint_takes_can_be_favourites_but_not_cloned(room: Page, app: App) -> None:
    without_base(room)
    make_three(room)
    closer = card(room, "B").locator("[data-act=closer]")
    expect(closer).to_be_disabled()
    expect(closer).to_have_attribute("title", re.compile("Voices from a recording"))
    before, favourites = voices(app), {take["seed"] for take in takes(room) if take["favourite"]}
    act(room, "C", "keep")
    expect_state(room, "C", "favourite")
    expect(room.get_by_role("alert").filter(has_text="--model base=PATH")).to_be_visible()
    assert {take["seed"] for take in takes(room) if take["favourite"]} - favourites == {seeds(room)[2]}
    assert voices(app) == before


def test_missing_form_fields_are_reported_and_no_take_is_made(room: Page, wire: Wire) -> None:
    vary(room)
    room.fill("#vw-seed", "99999999999")
    room.click("#vw-speak")
    expect(room.locator("#vw-seed-error")).to_contain_text("from 0 to 4294967295")
    room.fill("#vw-seed", "7")
    expect(room.locator("#vw-seed-error")).to_be_empty()
    room.fill("#vw-design-description", " ")
    room.click("#vw-speak")
    expect(room.locator("#vw-design-description-error")).to_contain_text("Describe the voice")
    room.fill("#vw-design-description", LOW)
    room.fill("#vw-text", " ")
    room.click("#vw-speak")
    expect(room.locator("#vw-text-error")).not_to_be_empty()
    assert wire.asked == []
    expect(room.locator("#vw-design-empty")).to_be_visible()


def test_deleted_take_can_be_restored(room: Page) -> None:
    make_three(room)
    seed = seeds(room)[2]
    take = take_of(room, seed)
    menu(room, "C", "drop")
    expect(card(room, "C")).to_have_count(0)
    room.keyboard.press("3")
    expect_playing(room)
    await_taken(room, lambda kept: seed not in {take["seed"] for take in kept})
    room.locator("#vw-toasts").get_by_role("button", name="Undo").click()
    expect_state(room, "C", "done")
    room.keyboard.press("3")
    expect_playing(room, "C")
    await_end(room)
    assert take_of(room, seed)["id"] == take["id"]


def test_escape_stops_generation(room: Page) -> None:
    stop_three(room)
    expect_playing(room)
    assert [take["stop_reason"] for take in takes(room)[:3]] == ["cancelled"] * 3, "what had come is kept"
    expect(card(room, "A").locator("[data-act=keep]")).to_be_hidden()
    room.keyboard.press("2")  # The received part of the audio can be played.
    expect_playing(room, "B")


def test_text_over_the_limit_fails_all_takes_and_shows_an_error(room: Page) -> None:
    room.fill("#vw-text", "word " * 1000)
    room.click("#vw-speak")
    expect_state(room, LETTERS, "failed")
    expect(card(room, "A")).to_contain_text("failed")
    # Retry is hidden, because it would fail again.
    expect(card(room, "A").locator("[data-act=again]")).to_be_hidden()
    expect(room.locator("#vw-text-error")).not_to_be_empty()


@pytest.mark.quick
def test_saved_take_becomes_a_voice_with_its_origin_and_speaks(room: Page, app: App, wire: Wire) -> None:
    room.fill("#vw-text", LONGER)
    fix_seed(room, KEPT_SEED)
    make_three(room)
    room.keyboard.press("Escape")
    take = take_of(room, seeds(room)[1])
    act(room, "B", "keep")
    name = room.locator("#vw-design-name")
    expect(name).to_be_focused()
    assert name.input_value() == "A man with a low voice"
    assert room.locator("#vw-design-short").is_hidden()
    name.fill(" ")
    room.keyboard.press("Enter")
    expect(room.locator("#vw-design-name-error")).to_contain_text("Give the voice a name")
    name.fill("Harbour")
    room.keyboard.press("Enter")
    expect_state(room, "B", "kept")
    expect(card(room, "B")).to_contain_text("Kept: Harbour")
    expect(card(room, "B").get_by_role("button", name="Speak with it")).to_be_focused()

    voice = voices(app)["Harbour"]
    assert voice["transcript"] == take["text"]
    assert voice["description"] == LOW
    assert voice["consent"] == "Designed by description; nobody was recorded."
    assert voice["seconds"] > 0.7 * take["seconds"]
    assert voice["provenance"] == {
        "source": "design",
        "model": take["model"]["id"],
        "revision": take["model"]["fingerprint"],
        "fingerprint": take["model"]["fingerprint"],
        "seed": str(take["seed"]),
        "description": LOW,
        "language": "auto",
        "take": take["id"],
        "sha256": take["sha256"],
    }

    room.reload()
    room.locator("#vw-speak:enabled").wait_for()
    enter(room, "design")
    entry = room.locator("#vw-design-voices-list li").filter(has_text="Harbour")
    expect(entry.get_by_role("heading", level=3)).to_have_text("Harbour")  # The heading of the list has level 2.
    entry.get_by_text("Origin").click()
    expect(entry).to_contain_text(str(take["seed"]))
    expect(entry).to_contain_text(take["sha256"])
    entry.get_by_role("button", name="Edit this description: Harbour").click()
    expect(room.locator("#vw-design-description")).to_have_value(LOW)
    assert fixed_seed(room) == take["seed"]

    entry.get_by_role("button", name="Speak with it: Harbour").click()
    expect(room.locator("#vw-room-speakers")).to_be_visible()
    room.fill("#vw-text", "Another text.")
    room.click("#vw-speak")
    expect(room.locator("#vw-reason")).to_have_text("end of speech", timeout=MADE_MS)
    assert wire.asked[-1]["voice"] == voice["id"]
    assert wire.asked[-1]["task_type"] in {"base", "Base"}


def test_take_too_short_for_a_voice_is_reported_before_saving(room: Page) -> None:
    room.fill("#vw-text", "Hi there.")
    make_three(room)
    room.keyboard.press("Escape")
    before = seeds(room)
    act(room, "A", "keep")
    expect(room.locator("#vw-design-short-why")).to_contain_text("a voice needs at least 1 s")
    expect(room.locator("#vw-design-keep")).to_be_disabled()
    with newly_kept(room, 1):
        room.click("#vw-design-longer")
        expect(newest(room)).to_contain_text("a longer text")
        expect(newest(room)).to_contain_text("from 1A")
        expect_state(room, "A", "done")
    assert len(room.input_value("#vw-text")) > 100
    assert seeds(room) == before[:1]
    expect(room.locator("#vw-design-keep-form")).to_be_hidden()
    room.keyboard.press("Escape")


def test_saving_a_voice_can_be_undone_immediately(room: Page, app: App) -> None:
    room.fill("#vw-text", HEARD)
    fix_seed(room, KEPT_SEED)
    make_three(room)
    keep_as(room, "A", "Undone")
    room.locator("#vw-toasts").get_by_role("button", name="Undo").click()
    expect_state(room, "A", "done")
    assert "Undone" not in voices(app)
    expect(card(room, "A").locator("[data-act=keep]")).to_be_enabled()


def test_message_about_a_saved_voice_disappears_when_the_room_is_left(room: Page) -> None:
    room.fill("#vw-text", HEARD)
    fix_seed(room, KEPT_SEED)
    make_three(room)
    keep_as(room, "A", "Left behind")
    expect(room.locator("#vw-toasts")).to_contain_text("Left behind is now one of your voices.")
    enter(room, "script")
    assert room.locator("#vw-toasts").inner_text() == "", "it would stand over another room"


def refuse(route: Route) -> None:
    """Respond with the error for a recording that is too short for its text."""
    error = TranscriptMismatch(param="ref_text", characters=len(HEARD), seconds=1.0)
    route.fulfill(status=error.http_status, json=format_error(error, "/v1/audio/voices", ""))


def test_error_from_saving_a_take_as_voice_is_shown_in_the_form(room: Page, app: App) -> None:
    room.fill("#vw-text", HEARD)
    fix_seed(room, KEPT_SEED)
    make_three(room)
    room.route("**/voice", refuse, times=1)
    act(room, "A", "keep")
    room.fill("#vw-design-name", "Refused")
    room.keyboard.press("Enter")
    refused = room.locator("#vw-design-keep-form [data-error-for=keep]")
    expect(refused).to_contain_text("The transcript does not match the recording.")
    expect(refused).to_be_in_viewport(ratio=1)
    expect(room.locator("#vw-design-keep")).to_be_enabled()
    assert voices(app) == {}


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "refused"])
def test_late_response_for_one_take_does_not_close_the_form_of_the_next_take(
    room: Page, app: App, is_kept: bool
) -> None:
    room.fill("#vw-text", HEARD)
    fix_seed(room, KEPT_SEED)
    make_three(room)
    held: list[Route] = []
    room.route("**/voice", lambda route: held.append(route), times=1)
    act(room, "A", "keep")
    room.fill("#vw-design-name", "First")
    with room.expect_event("request", lambda request: request.url.endswith("/voice")):
        room.keyboard.press("Enter")
    act(room, "B", "keep")
    name = room.locator("#vw-design-name")
    expect(name).to_be_focused()
    name.fill("Second")
    room.keyboard.press("Enter")  # The second request waits for the response to the first request.
    if is_kept:
        held.pop().continue_()
        expect_state(room, "A", "kept")
    else:
        refuse(held.pop())
        expect(card(room, "A")).to_contain_text("The transcript does not match the recording.")
    expect_state(room, "B", "kept")
    assert set(voices(app)) == ({"First", "Second"} if is_kept else {"Second"})


def test_presets_are_listed_by_language_and_keep_the_users_text(room: Page) -> None:
    chips = room.locator("#vw-design-chips button")
    assert {"Narrator", "Old sailor"} <= set(chips.all_inner_texts())
    sailor = chips.filter(has_text="Old sailor")
    sailor.click()  # The preset does not replace text that the user has typed.
    assert "gravelly" in room.input_value("#vw-design-description")
    expect(room.locator("#vw-text")).to_have_value(TEXT)
    expect(room.locator("#vw-design-hint")).to_contain_text("Your own text was kept")
    room.fill("#vw-text", "")
    sailor.click()
    assert "Pour me another cup" in room.input_value("#vw-text")
    expect(room.locator("#vw-design-language")).to_have_value("english")
    room.select_option("#vw-design-tongue", "german")
    assert "Narrator" not in chips.all_inner_texts()
    chips.filter(has_text="Hexe").click()
    assert "Ofen" in room.input_value("#vw-text")  # The preset replaces text of another preset.
    expect(room.locator("#vw-design-language")).to_have_value("auto")
    expect(room.locator("#vw-design-hint")).to_contain_text("does not speak German")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_design_room_fits_a_phone_without_horizontal_scrolling(open_studio: OpenStudio, app: App, scheme: str) -> None:
    page = open_studio(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    enter_design(page, TEXT)
    make_three(page)
    act(page, "A", "keep")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.screenshot(path=SCREENSHOTS / f"design-phone-{scheme}.png", full_page=True)


def test_new_takes_scroll_into_view_on_a_phone(open_studio: OpenStudio) -> None:
    page = open_studio(viewport={"width": 360, "height": 780})
    enter_design(page, TEXT)
    make_three(page)
    # The button shows "Speak" again and gets the focus.
    expect(page.locator("#vw-stop")).to_be_disabled(timeout=MADE_MS)
    expect(newest(page).get_by_role("heading")).to_be_in_viewport(ratio=1)


def test_stopped_take_can_be_generated_again_in_its_card(room: Page) -> None:
    stop_three(room)
    before = seeds(room)
    act(room, "B", "again")
    expect_state(room, "B", "done")
    expect_state(room, "AC", "stopped")
    expect(room.locator(".vw-design-set")).to_have_count(1)
    expect(card(room, "B").locator("[data-act=again]")).to_be_hidden()
    expect(card(room, "B").locator("[data-act=keep]")).to_be_enabled()
    assert seeds(room)[0] in before


def test_take_interrupted_by_a_runtime_crash_can_be_generated_again_in_its_card(room: Page, app: App) -> None:
    presets = room.locator(".vw-design-presets")
    before = presets.bounding_box()
    room.fill("#vw-text", "This goes on for longer than anybody wants to listen. " * 12)
    room.click("#vw-speak")
    expect_state(room, LETTERS, "streaming")
    os.kill(app.runtime_pid, signal.SIGKILL)
    expect_state(room, LETTERS, "failed")
    expect(room.locator("#vw-room-design [data-error-for=request]")).not_to_be_empty()
    after = presets.bounding_box()
    assert before is not None
    assert after is not None
    assert before["width"] == after["width"], "the sentence pushes nothing aside"
    expect(room.locator("#vw-status")).to_have_attribute("data-state", "ready", timeout=60_000)
    act(room, "B", "again")
    expect_state(room, "B", "done")
    expect(card(room, "B").locator("[data-act=keep]")).to_be_enabled()
