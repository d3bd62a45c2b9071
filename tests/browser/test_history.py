"""Tests for stored takes: search, changes, undo, repetition, and export as code."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import SCREENSHOTS, VOICES, OpenStudio
from tests.browser.design_steps import keep_take, origin
from tests.browser.steps import (
    await_end,
    choose,
    clock,
    copy_code,
    enter,
    expect_speaker,
    history_row,
    kept_take,
    prepare,
    save,
    seed,
    wav,
)
from tests.browser.test_full_store import keep_voice
from tests.browser.wire import sound_of
from tests.support import node
from tests.support.app import ROOT, App

pytestmark = pytest.mark.browser

RATE = 24000


def pcm_of(app: App, take_id: str) -> NDArray[np.int16]:
    return np.frombuffer(sound_of(app, take_id), "<i2")


def shown(page: Page) -> Locator:
    """Return the elements that show the texts or names of the listed takes, newest first."""
    return page.locator("#vw-takes-list .vw-take-text")


def unfold(row: Locator) -> None:
    row.locator(".vw-take-open").click()


def test_play_button_in_the_library_also_pauses_the_take(studio: Page) -> None:
    kept_take(studio, "The heron waits for the evening, and the otter dives where the river is deep.")
    await_end(studio)
    kept_take(studio, "Hi.")
    await_end(studio)
    enter(studio, "library")
    play = history_row(studio, "The heron").locator(".vw-take-play")
    other = history_row(studio, "Hi.").locator(".vw-take-play")
    expect(play).to_have_accessible_name(re.compile("Play: The heron"))
    play.click()
    expect(play).to_have_accessible_name(re.compile("Pause: The heron"))
    expect(other).to_have_accessible_name("Play: Hi.")
    expect(studio.locator("#vw-time")).not_to_have_text("0:00.0")
    play.click()
    expect(play).to_have_accessible_name(re.compile("Play: The heron"))
    assert clock(studio) > 0
    at = clock(studio)
    play.click()
    await_end(studio)
    assert clock(studio) > at
    expect(play).to_have_accessible_name(re.compile("Play: The heron"))


@pytest.mark.quick
def test_takes_are_listed_and_searchable_after_a_reload(studio: Page) -> None:
    kept_take(studio, "The heron waits.")
    kept_take(studio, "The otter dives.")
    enter(studio, "library")
    expect(shown(studio).nth(0)).to_have_text("The otter dives.")
    expect(shown(studio).nth(1)).to_have_text("The heron waits.")
    day, otter = studio.locator("#vw-takes-list > li").nth(0), studio.locator("#vw-takes-list > li").nth(1)
    expect(day).to_have_text(re.compile("Today|Yesterday"))  # The take may have been stored before midnight.
    expect(otter).to_contain_text("The otter dives.")
    expect(otter.locator("small").first).to_have_text(re.compile(r"· \d{1,2}:\d\d\s[AP]M"))
    studio.reload(wait_until="domcontentloaded")
    expect(studio.locator("#vw-room-library")).to_be_visible()
    row = history_row(studio, "The heron waits.")
    unfold(row)
    row.locator("[data-field=tags]").fill("birds, river")
    row.locator("[data-field=tags]").press("Tab")
    expect(row.locator("small").first).to_contain_text("#birds · #river")
    row.locator("[data-field=name]").fill("A heron")
    row.locator("[data-field=name]").press("Tab")
    expect(row.locator(".vw-take-text")).to_have_text("A heron")
    row.locator(".vw-take-star").click()
    expect(row.locator(".vw-take-star")).to_have_attribute("aria-pressed", "true")
    studio.fill("#vw-takes-search", "birds")
    expect(studio.locator("#vw-takes-list .vw-take")).to_have_count(1)
    studio.fill("#vw-takes-search", "no such words")
    expect(studio.locator("#vw-takes-empty")).to_contain_text("No takes match")
    studio.fill("#vw-takes-search", "")
    otter = studio.locator("#vw-takes-list .vw-take", has_text="The otter dives.")
    expect(otter).to_have_count(1)
    studio.click("#vw-takes-starred")
    expect(otter).to_have_count(0)
    expect(shown(studio).filter(has_text="A heron")).to_have_count(1)
    studio.click("#vw-takes-starred")
    expect(otter).to_have_count(1)
    expect(studio.get_by_label("Room").locator("option")).to_have_text(
        ["From all rooms", "From Speak", "From Design", "From Clone", "From Script"]
    )
    studio.select_option("#vw-takes-room", "clone")
    expect(otter).to_have_count(0)
    studio.select_option("#vw-takes-room", "speakers")
    expect(otter).to_have_count(1)


def test_takes_of_the_same_text_have_distinct_labels(studio: Page) -> None:
    for name in ("Clara", "Clara", "Angus"):
        choose(studio, name)
        kept_take(studio, "The ferry waits for nobody at all.")
        await_end(studio)
    angus, clara, first = (studio.locator("#vw-takes-list .vw-take").nth(index) for index in range(3))
    enter(studio, "library")
    expect(angus.locator(".vw-take-who")).to_have_text("Angus")
    expect(clara.locator(".vw-take-who")).to_have_text("Clara")
    colour = "(element) => getComputedStyle(element).color"
    assert angus.locator(".vw-take-who").evaluate(colour) == angus.locator(".vw-take-text").evaluate(colour)
    for row in (clara, first):
        said, small = row.locator(".vw-take-text"), row.locator("small")
        assert said.evaluate(colour) == small.evaluate(colour), "the row above says it already"
    drawn = [re.findall(r"Seed \d+", row.locator("small").inner_text()) for row in (clara, first)]
    assert [len(seeds) for seeds in drawn] == [1, 1], "one voice said it twice"
    assert drawn[0] != drawn[1]
    expect(angus.locator("small")).not_to_contain_text("Seed")


def test_take_requested_by_voice_id_is_listed_under_the_voice_name(studio: Page) -> None:
    voice = keep_voice(studio, "Uncle")
    take = keep_take(studio, 1, room="clone", mode="base", label=None, voice=voice, config={"voice": voice})
    enter(studio, "library")
    who = studio.locator(f"#vw-takes-list [data-take='{take}'] .vw-take-who")
    expect(who).to_have_text("Uncle")
    renamed = studio.request.patch(f"{origin(studio)}{VOICES}/{voice}", data={"name": "Aunt"})
    assert renamed.ok
    enter(studio, "speakers")
    enter(studio, "library")
    expect(who).to_have_text("Aunt")
    assert studio.request.delete(f"{origin(studio)}{VOICES}/{voice}").ok


def test_right_to_left_text_is_right_aligned(studio: Page) -> None:
    """The beginning of a long text must not be cut off."""
    kept_take(studio, "مرحبا بالعالم، كيف حالك اليوم. Hello.")
    enter(studio, "library")
    row = history_row(studio, "مرحبا")
    unfold(row)
    for element in (row.locator(".vw-take-text"), row.locator(".vw-take-settings dd").first):
        assert element.evaluate("(element) => getComputedStyle(element).direction") == "rtl"


def test_opened_take_shows_its_full_text(studio: Page) -> None:
    text = "The heron waits in the shallow water, and the otter dives; it is a long and quiet morning on the river."
    kept_take(studio, text)
    enter(studio, "library")
    row = history_row(studio, text)
    is_cut = "(element) => element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight"
    assert row.locator(".vw-take-text").evaluate(is_cut)
    unfold(row)
    assert not row.locator(".vw-take-text").evaluate(is_cut)


def test_take_row_shows_its_waveform_and_downloads_its_file(studio: Page) -> None:
    take = kept_take(studio, "One small file.")
    enter(studio, "library")
    row = studio.locator(f"[data-take='{take}']")
    expect(row.locator(".vw-take-outline path")).to_have_attribute("d", re.compile(r"^(?:M\d+ [\d.]+v[\d.]+){32}$"))
    address = f"/studio/takes/{take}/outline"
    devtools = studio.context.new_cdp_session(studio)  # Playwright does not report responses from the browser's cache.
    devtools.send("Network.enable")
    answers: list[dict[str, Any]] = []
    devtools.on("Network.responseReceived", lambda event: answers.append(event["response"]))
    with studio.expect_response(lambda answer: answer.url.endswith(address)):
        studio.reload(wait_until="domcontentloaded")
    expect(row.locator(".vw-take-outline path")).to_have_count(1)
    assert [answer["fromDiskCache"] for answer in answers if answer["url"].endswith(address)] == [True]
    devtools.detach()
    row.locator(".vw-take-save").click()
    with studio.expect_download() as download:
        studio.locator("#vw-takes-files").get_by_role("link", name="FLAC").click()
    assert soundfile.info(download.value.path()).frames > 0
    expect(studio.locator("#vw-takes-files")).to_be_hidden()


def test_deleted_take_can_be_restored(studio: Page) -> None:
    kept_take(studio, "Gone and back.")
    enter(studio, "library")
    row = history_row(studio, "Gone and back.")
    unfold(row)
    expect(studio.locator("#vw-star")).to_be_visible()
    row.locator("[data-do=remove]").click()
    expect(row).to_have_count(0)
    expect(studio.locator("#vw-star")).to_be_hidden()
    studio.locator(".vw-toast button").click()
    expect(history_row(studio, "Gone and back.")).to_be_visible()


def test_regenerated_take_has_identical_bytes(app: App, studio: Page) -> None:
    first = kept_take(studio, "The same again.")
    enter(studio, "library")
    row = studio.locator(f"[data-take='{first}']")
    unfold(row)
    row.locator("[data-do=reproduce]").click()
    expect(row.locator(".vw-take-outcome")).to_contain_text("Identical", timeout=60_000)
    newest = studio.locator("#vw-takes-list .vw-take").first
    expect(newest).not_to_have_attribute("data-take", first)
    again = newest.get_attribute("data-take")
    assert again is not None
    assert np.array_equal(pcm_of(app, again), pcm_of(app, first))


def test_regenerated_take_appears_in_the_active_search(studio: Page) -> None:
    first = kept_take(studio, "A kingfisher dives.")
    enter(studio, "library")
    studio.fill("#vw-takes-search", "kingfisher")
    takes = studio.locator("#vw-takes-list .vw-take")
    expect(takes).to_have_count(1)
    row = studio.locator(f"[data-take='{first}']")
    unfold(row)
    row.locator("[data-do=reproduce]").click()
    expect(row.locator(".vw-take-outcome")).to_contain_text("The new take was saved next to this one.", timeout=60_000)
    expect(takes).to_have_count(2)
    row.locator("[data-do=remove]").click()
    expect(takes).to_have_count(1)
    expect(studio.locator("#vw-takes-empty")).to_be_hidden()


def _answering(record: dict[str, Any]) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json=record)


def test_unreproducible_take_shows_the_reason(app: App, studio: Page) -> None:
    """The test changes the model, the weights, the device or the seed in the take's record."""
    first = kept_take(studio, "Not the same.")
    record = httpx.get(f"{app.url}/studio/takes/{first}", trust_env=False).json()
    enter(studio, "library")
    row = studio.locator(f"[data-take='{first}']")
    unfold(row)
    model = record["model"]
    for changed, words in (
        ({"model": {**model, "id": "another"}}, "made by another"),
        ({"model": {**model, "fingerprint": "0" * 32}}, "have changed since"),
        ({"model": {**model, "device": "cuda"}}, "cuda"),
        ({"seed": record["seed"] ^ 1}, "with the same model and device"),
    ):
        changes = {"sha256": "0" * 64, **changed}
        studio.route(f"**/studio/takes/{first}", _answering({**record, **changes}))
        row.locator("[data-do=reproduce]").click()
        expect(row.locator(".vw-take-outcome[data-identical=false]")).to_contain_text(words, timeout=60_000)
        studio.unroute(f"**/studio/takes/{first}")


def test_take_settings_can_be_loaded_into_the_form(studio: Page) -> None:
    choose(studio, "Clara")
    studio.fill("#vw-speakers-instruct", "Slowly.")
    kept_take(studio, "Remember me.")
    spoken = seed(studio)
    studio.reload(wait_until="domcontentloaded")
    studio.locator("#vw-speak:enabled").wait_for(state="attached")
    choose(studio, "Angus")
    studio.fill("#vw-speakers-instruct", "")
    enter(studio, "library")
    row = history_row(studio, "Remember me.")
    unfold(row)
    for said in ("Clara", "Slowly.", str(spoken), "demo-voice, cpu, float32"):
        expect(row.locator("dd").get_by_text(said, exact=True)).to_have_count(1)
    row.locator("[data-do=restore]").click()
    expect(studio.locator("#vw-room-speakers")).to_be_visible()
    expect(studio.locator("#vw-text")).to_have_value("Remember me.")
    expect_speaker(studio, "clara")
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("Slowly.")
    expect(studio.locator("#vw-seed")).to_have_value(str(spoken))
    expect(studio.locator("#vw-lock")).to_be_checked()


def test_loading_take_settings_can_be_undone_in_every_room(studio: Page) -> None:
    kept_take(studio, "In Speak.")
    await_end(studio)
    prepare(studio, "clone")
    kept_take(studio, "In Clone.")
    await_end(studio)
    take_back = studio.locator("#vw-toasts button", has_text="Undo").last

    enter(studio, "speakers")
    studio.reload(wait_until="domcontentloaded")
    studio.locator("#vw-speak:enabled").wait_for(state="attached")
    studio.fill("#vw-text", "My own words.")
    choose(studio, "Clara")
    studio.fill("#vw-speakers-instruct", "Gently.")
    use_settings(studio, "In Speak.")
    expect(studio.locator("#vw-text")).to_have_value("In Speak.")
    expect(studio.locator("#vw-lock")).to_be_checked()
    take_back.click()
    expect(studio.locator("#vw-text")).to_have_value("My own words.")
    expect_speaker(studio, "clara")
    expect(studio.locator("#vw-speakers-instruct")).to_have_value("Gently.")
    expect(studio.locator("#vw-lock")).not_to_be_checked()

    enter(studio, "clone")
    studio.set_input_files("#vw-clone-file", {**wav(4.0, seed=3), "name": "mine.wav"})
    studio.click("#vw-clone-use")
    studio.fill("#vw-clone-transcript", "What I say in mine.")
    use_settings(studio, "In Clone.")
    expect(studio.locator("#vw-clone-name")).not_to_have_text("mine.wav")
    expect(studio.locator("#vw-clone-try")).to_have_attribute("open", "")
    studio.keyboard.press("Control+z")
    expect(studio.locator("#vw-clone-name")).to_have_text("mine.wav")
    expect(studio.locator("#vw-clone-transcript")).to_have_value("What I say in mine.")
    expect(studio.locator("#vw-clone-transcript")).to_be_visible()


def use_settings(page: Page, words: str) -> None:
    enter(page, "library")
    row = history_row(page, words)
    unfold(row)
    row.locator("[data-do=restore]").click()


def test_player_bar_offers_every_format_and_the_favourite_button(app: App, studio: Page) -> None:
    take = kept_take(studio, "Take me along.")
    length = pcm_of(app, take).size / 24000
    for name in ("wav", "mp3", "flac", "opus"):
        file = save(studio, name)
        assert file.suggested_filename.endswith(f".{name}")
        samples, rate = soundfile.read(file.path())
        assert samples.shape[0] / rate == pytest.approx(length, abs=0.15), name
    studio.click("#vw-star")
    expect(studio.locator("#vw-star")).to_have_attribute("aria-pressed", "true")
    record = httpx.get(f"{app.url}/studio/takes/{take}", trust_env=False).json()
    assert record["favourite"] is True

    # The page remembers the bit rate of MP3 files. The menu of the Library uses the same bit rate.
    studio.click("#vw-save")
    studio.locator("#vw-keep select").select_option("128 kbit/s")
    with studio.expect_download() as download:
        studio.click("#vw-keep [data-format=mp3]")
    with av.open(str(download.value.path())) as container:
        assert container.streams.audio[0].bit_rate == 128_000
    enter(studio, "library")
    studio.reload(wait_until="domcontentloaded")
    studio.locator(f"[data-take='{take}'] .vw-take-save").click()
    expect(studio.locator("#vw-takes-files select")).to_have_value("128000")
    expect(studio.locator("#vw-takes-files [data-format=mp3]")).to_have_attribute("href", re.compile("bit_rate=128000"))
    studio.screenshot(path=SCREENSHOTS / "library-bit-rate.png")


def code(page: Page, language: str) -> str:
    page.click(f"#vw-code-{re.sub('[^a-z]+', '-', language.lower())}")
    return page.inner_text("#vw-code-text")


def shown_code(page: Page, language: str) -> str:
    """Return the code snippet that the button in the player bar shows."""
    page.click("#vw-as-code")
    text = code(page, language)
    page.click("#vw-code-close")
    return text


def heard(file: Path) -> NDArray[np.int16]:
    samples, rate = soundfile.read(io.BytesIO(file.read_bytes()), dtype="int16")
    assert rate == 24000
    return samples


SDKS = str(ROOT / ".venv-clients" / "bin" / "python")
PYTHONS = {"OpenAI SDK": SDKS, "ElevenLabs SDK": SDKS, "WebSocket, Python": sys.executable}


def run_code(page: Page, language: str, folder: Path) -> str:
    """Run a code snippet of the page, and return its output."""
    if language == "curl":
        runner = ["bash", "-euc"]
        player = folder / "ffplay"
        player.write_text("#!/bin/sh\ncat > played.mp3\n")
        player.chmod(0o755)
    elif language in PYTHONS:
        runner = [PYTHONS[language], "-c"]
    else:
        runner = [*node.command(), "--input-type=module", "-e"]
    done = subprocess.run(
        [*runner, code(page, language)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_PROXY": "*", "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("room", ["speakers", "design", "clone"])
def test_code_snippets_of_a_take_run_and_give_the_same_audio(
    app: App, open_studio: OpenStudio, tmp_path: Path, room: str
) -> None:
    page = open_studio()
    prepare(page, room)
    take = kept_take(page, """It's "quoted", isn't it? $HOME \\ 'so'.""")
    served = pcm_of(app, take)
    if room == "design":
        page.keyboard.press("Escape")
    copy_code(page)
    expect(page.locator("#vw-code")).to_be_visible()
    expect(page.locator("#vw-code-elevenlabs-sdk")).to_be_visible(visible=room == "speakers")
    run_code(page, "curl", tmp_path)
    assert (tmp_path / "played.mp3").read_bytes() == (tmp_path / "take.mp3").read_bytes()
    # The MP3 encoder adds silence at both ends.
    assert abs(heard(tmp_path / "take.mp3").size - served.size) < 0.2 * RATE
    for language, python in PYTHONS.items():
        if not Path(python).exists() or (language == "ElevenLabs SDK" and room != "speakers"):
            continue
        run_code(page, language, tmp_path)
        assert np.array_equal(heard(tmp_path / "take.wav"), served), language
        (tmp_path / "take.wav").unlink()
    *pieces, end = run_code(page, "WebSocket, JavaScript", tmp_path).splitlines()
    assert end.endswith(str(served.size))
    assert sum(int(line.split()[0]) for line in pieces) == served.size
    page.click("#vw-code-close")
    expect(page.locator("#vw-code")).to_be_hidden()


def test_player_bar_shows_the_request_as_code_before_the_first_take(open_studio: OpenStudio, tmp_path: Path) -> None:
    page = open_studio(permissions=["clipboard-read", "clipboard-write"])
    choose(page, "Clara")
    page.fill("#vw-text", "The heron waits [pause 300ms] for the evening.")
    page.click("#vw-as-code")
    expect(page.locator("#vw-code-text")).to_contain_text("The heron waits")
    page.click("#vw-code-copy")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.text_content("#vw-code-text")
    assert '"voice": "clara"' in copied
    assert '"tags": true' in copied
    assert '"seed"' not in copied
    assert "#" not in copied, "zsh does not accept comments on its command line"
    run_code(page, "curl", tmp_path)
    assert heard(tmp_path / "take.mp3").size > RATE
    page.screenshot(path=SCREENSHOTS / "code-present.png")
    page.click("#vw-code-close")
    enter(page, "library")
    assert "The heron waits" in shown_code(page, "curl")  # The present text and voice of the Speak room.
    enter(page, "clone")
    assert "base64 < reference.wav" in shown_code(page, "curl")
    enter(page, "script")
    page.locator(".vw-line-text").nth(1).fill("The kettle is on.")
    assert '"input": "The kettle is on."' in shown_code(page, "curl")
    enter(page, "design")
    page.fill("#vw-design-description", "")
    page.click("#vw-as-code")
    expect(page.locator("#vw-design-description-error")).to_contain_text("Describe the voice")
    page.click("#vw-design-chips button")
    assert '"task_type": "voice_design"' in shown_code(page, "curl")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_every_room_shows_code_with_one_press(open_studio: OpenStudio, width: int) -> None:
    page = open_studio(viewport={"width": width, "height": 844}, has_touch=width < 1000)
    places = set()
    for take in ("", "The heron waits."):
        if take:
            enter(page, "speakers")
            page.fill("#vw-text", take)
            page.click("#vw-speak")
            expect(page.locator("#vw-stop")).to_be_hidden()
        for room in ("speakers", "design", "clone", "script", "library"):
            enter(page, room)
            assert "curl" in shown_code(page, "curl")
            box = page.locator("#vw-as-code").bounding_box()
            assert box
            places.add(box["x"])
    assert len(places) == 1


def test_library_shows_the_code_of_the_loaded_take(open_studio: OpenStudio) -> None:
    page = open_studio()
    kept_take(page, "The heron waits.")
    page.fill("#vw-text", "Another text.")
    enter(page, "library")
    assert "The heron waits." in shown_code(page, "curl")


def test_studio_without_storage_shows_a_notice_and_generates_speech(studio: Page) -> None:
    studio.route("**/studio/takes*", lambda route: route.fulfill(status=404, json={"detail": "Not Found"}))
    studio.fill("#vw-text", "Nobody keeps this.")
    studio.click("#vw-speak")
    studio.locator("#vw-download[href]").wait_for(state="attached", timeout=60_000)
    enter(studio, "library")
    expect(studio.locator("#vw-takes-empty")).to_have_text("This studio does not save takes.")
    assert studio.locator(".vw-toast").count() == 0
    expect(studio.locator("#vw-star")).to_be_hidden()
