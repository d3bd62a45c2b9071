"""The script room on the demo voice: lines with voices and pauses, heard gaplessly, made again, exported, kept."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.script_steps import (
    MADE_MS,
    Pcm,
    await_made,
    await_saved,
    enter_script,
    heard,
    line,
    new_script,
    paste,
    silence,
    sound_of,
    stored_script,
    text_of,
    texts,
)
from tests.support.app import App, running_app

pytestmark = pytest.mark.browser

TAP = (Path(__file__).parent / "tap.js").read_text()
RATE = 24000
GAP_S = 0.4

DIALOGUE = """CLARA: I walked home along the river tonight, and the water was so still that every lamp had a twin.

ANGUS: Yes. [pause 0.5s] Quite.

CLARA: [pause 300ms] Go on."""


@pytest.fixture(scope="module")
def demo(chromium: str) -> Iterator[App]:
    """The studio as the first command starts it."""
    with running_app([]) as running:
        yield running


@pytest.fixture
def room(open_studio: OpenStudio, demo: App) -> Page:
    """The script room with the dialogue in a script of its own, nothing made yet."""
    page = open_studio(url=demo.url, script=TAP)
    enter_script(page)
    new_script(page, "At the river")
    paste(page, 1, DIALOGUE)
    expect(page.locator("#vw-script-lines > li")).to_have_count(3)
    return page


def joined(page: Page, app: App) -> tuple[Pcm, list[Pcm]]:
    """What the script's takes and silences are together, and each line's own sound."""
    one, two, three = (
        [sound_of(page, app, part["take"]) for part in kept["takes"]] for kept in stored_script(page, app)["lines"]
    )
    lines = [one[0], np.concatenate([two[0], silence(0.5), two[1]]), np.concatenate([silence(0.3), three[0]])]
    gap = silence(GAP_S)
    return np.concatenate([lines[0], gap, lines[1], gap, lines[2]]), lines


def make_all(page: Page) -> None:
    page.click("#vw-speak")
    await_made(page, 1, 2, 3)
    page.keyboard.press("Escape")
    await_saved(page)


def await_silence(page: Page) -> None:
    expect(page.locator("#vw-stop")).to_be_disabled(timeout=MADE_MS)


def listen_anew(page: Page) -> None:
    """Wait for the end of the sound, also of the few milliseconds in which a stopped one falls silent."""
    await_silence(page)
    page.wait_for_timeout(500)
    page.evaluate("tap.clear()")


def test_names_choose_voices_and_pauses_stand_in_the_text(room: Page) -> None:
    voices = [line(room, number).locator(".vw-line-voice").input_value() for number in (1, 2, 3)]
    assert voices == ["custom_voice:clara", "custom_voice:angus", "custom_voice:clara"]
    assert texts(room)[1:] == ["Yes. [pause 0.5s] Quite.", "[pause 300ms] Go on."]
    assert line(room, 2).locator("mark").all_inner_texts() == ["[pause 0.5s]"]


def test_lines_stream_in_order_and_join_without_a_gap(room: Page, demo: App) -> None:
    """The first line is there, and its pause gives the others the time that they need on a slow machine."""
    text_of(room, 1).fill(text_of(room, 1).input_value() + " [pause 12s]")
    line(room, 1).locator(".vw-line-play").click()
    await_made(room, 1)
    room.keyboard.press("Escape")
    listen_anew(room)
    room.evaluate("window.sounded = []")
    room.evaluate(
        """() => new MutationObserver(() => {
          const line = document.querySelector('#vw-script-lines [data-sounding]');
          const state = document.querySelectorAll('#vw-script-lines > li')[1].dataset.state;
          if (line) sounded.push([[...line.parentElement.children].indexOf(line) + 1, state]);
        }).observe(document.querySelector('#vw-script-lines'), { attributes: true, subtree: true })"""
    )
    room.click("#vw-speak")
    await_made(room, 2, 3)
    await_silence(room)
    await_saved(room)
    asked = room.evaluate("sounded")
    assert [1, "coming"] in asked, "line 2 is made while line 1 sounds"
    order = [number for number, _ in asked]
    assert order == sorted(order)
    assert set(order) == {1, 2, 3}
    _, (first, second, third) = joined(room, demo)
    gap = silence(GAP_S)
    expected = np.concatenate([first, silence(12), gap, second, gap, third])
    assert room.inner_text("#vw-underruns") == "0", "the sound ran dry"
    assert np.array_equal(heard(room), np.trim_zeros(expected))


def test_it_begins_at_any_line_and_stops(room: Page, demo: App) -> None:
    make_all(room)
    _, (_, second, third) = joined(room, demo)
    listen_anew(room)
    line(room, 2).locator(".vw-line-play").click()
    expect(line(room, 2)).to_have_attribute("aria-current", "true")
    await_silence(room)
    assert np.array_equal(heard(room), np.trim_zeros(np.concatenate([second, silence(GAP_S), third])))
    text_of(room, 3).focus()
    room.keyboard.press("Control+Enter")
    expect(line(room, 3)).to_have_attribute("aria-current", "true")
    room.keyboard.press("Escape")
    await_silence(room)
    assert room.locator("[data-sounding]").count() == 0


def test_a_line_is_made_again_and_the_others_stay(room: Page, demo: App) -> None:
    make_all(room)
    before = stored_script(room, demo)["lines"]
    line(room, 2).locator(".vw-line-remake").click()
    await_made(room, 2)
    await_silence(room)
    await_saved(room)
    after = stored_script(room, demo)["lines"]
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1]["seed"] != before[1]["seed"]
    for old, new in zip(before[1]["takes"], after[1]["takes"], strict=True):
        assert not np.array_equal(sound_of(room, demo, old["take"]), sound_of(room, demo, new["take"]))

    line(room, 2).locator(".vw-line-remake").click()
    room.get_by_role("button", name="Undo").last.click()
    expect(line(room, 2)).to_have_attribute("data-state", "made")
    await_saved(room)
    assert stored_script(room, demo)["lines"] == after, "what was there is not lost"


def test_a_locked_line_is_the_same_when_it_is_made_again(room: Page, demo: App) -> None:
    line(room, 2).locator(".vw-line-open").click()
    line(room, 2).locator(".vw-line-seed").fill("7")
    line(room, 2).locator(".vw-line-seed").blur()
    assert line(room, 2).locator(".vw-line-lock").is_checked()
    sounds = []
    for _ in range(2):
        line(room, 2).locator(".vw-line-remake").click()
        await_made(room, 2)
        await_silence(room)
        await_saved(room)
        takes = [part["take"] for part in stored_script(room, demo)["lines"][1]["takes"]]
        sounds.append((takes, [sound_of(room, demo, take).tobytes() for take in takes]))
    assert sounds[0][0] != sounds[1][0], "it was made again"
    assert sounds[0][1] == sounds[1][1]


def export(page: Page, shape: str, **choices: str) -> tuple[str, bytes]:
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


def test_an_export_makes_what_is_missing_and_joins_it(room: Page, demo: App) -> None:
    room.on("download", lambda _: None)
    name, data = export(room, "joined", format="wav", loudness="")
    assert name == "At the river.wav"
    await_made(room, 1, 2, 3)
    await_saved(room)
    expected, lines = joined(room, demo)
    assert np.array_equal(decoded(data), expected), "as it is: bit for bit"

    loud = decoded(export(room, "joined", format="wav", loudness="-19")[1])
    assert len(loud) == len(expected)
    assert _loudness(loud) == pytest.approx(-19, abs=0.5)
    assert abs(_loudness(expected) + 19) > 0.5, "there was something to do"

    name, data = export(room, "files", format="flac", loudness="")
    assert name == "At the river.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        sounds = [decoded(files.read(one)) for one in sorted(files.namelist())]
    lines[2] = lines[2][round(0.3 * RATE) :]  # what stands before its first word is no part of a file
    assert [len(sound) for sound in sounds] == [len(one) for one in lines]
    assert all(np.array_equal(sound, one) for sound, one in zip(sounds, lines, strict=True))

    name, data = export(room, "srt")
    assert name == "At the river.srt"
    _check_subtitles(data.decode(), lines)

    _, data = export(room, "all", format="mp3")
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        kinds = sorted(one.rpartition(".")[2] for one in files.namelist())
    assert kinds == ["mp3", "mp3", "mp3", "mp3", "srt"]


def _check_subtitles(srt: str, lines: list[Pcm]) -> None:
    cues = re.findall(r"(\d+)\n(\S+) --> (\S+)\n(.+?)\n(?:\n|\Z)", srt, re.DOTALL)
    assert [number for number, *_ in cues] == ["1", "2", "3"]
    assert [words for *_, words in cues][1:] == ["Yes. Quite.", "Go on."]
    start = 0.0
    for (_, begins, ends, _), sound, before in zip(cues, lines, (0, GAP_S, GAP_S + 0.3), strict=True):
        start += before
        assert _seconds(begins) == pytest.approx(start, abs=0.002)
        start += len(sound) / RATE
        assert _seconds(ends) == pytest.approx(start, abs=0.002)


def _seconds(time: str) -> float:
    hours, minutes, seconds = time.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _loudness(samples: Pcm) -> float:
    from runtime.loudness import integrated

    loudness = integrated(samples)
    assert loudness is not None
    return loudness


def test_a_reload_brings_everything_back(room: Page, demo: App) -> None:
    make_all(room)
    expected, _ = joined(room, demo)
    room.reload(wait_until="domcontentloaded")
    room.locator("#vw-speak:enabled").wait_for()
    enter_script(room)
    assert room.input_value("#vw-script-name") == "At the river"
    assert texts(room) == [one.partition(": ")[2] for one in DIALOGUE.split("\n\n")]
    await_made(room, 1, 2, 3)
    asked: list[str] = []
    room.on("websocket", lambda socket: socket.on("framesent", lambda frame: asked.append(str(frame))))
    room.click("#vw-speak")
    await_silence(room)
    assert np.array_equal(heard(room), np.trim_zeros(expected)), "it sounds as it did"


def test_two_tabs_are_told_of_each_other(room: Page, open_studio: OpenStudio, demo: App) -> None:
    await_saved(room)
    second = room.context.new_page()
    second.goto(demo.url, wait_until="domcontentloaded")
    second.locator("#vw-speak:enabled").wait_for()
    enter_script(second)
    text_of(second, 1).fill("From the other tab.")
    await_saved(second)
    text_of(room, 2).fill("From this tab.")
    conflict = room.locator("#vw-script-conflict")
    expect(conflict).to_contain_text("Another tab has changed this script")
    assert stored_script(room, demo)["lines"][0]["text"] == "From the other tab.", "nothing is overwritten"
    conflict.get_by_role("button", name="Keep mine").click()
    await_saved(room)
    assert stored_script(room, demo)["lines"][1]["text"] == "From this tab."
    text_of(second, 3).fill("Once more.")
    expect(second.locator("#vw-script-conflict")).to_be_visible()
    second.locator("#vw-script-conflict").get_by_role("button", name="Take theirs").click()
    expect(text_of(second, 2)).to_have_value("From this tab.")
    assert texts(second)[2] == "[pause 300ms] Go on."


def test_scripts_come_and_go(room: Page, demo: App) -> None:
    await_saved(room)
    new_script(room, "Another one")
    text_of(room, 1).fill("Hello.")
    await_saved(room)
    room.click("#vw-script-shelf summary")
    shelf = room.locator("#vw-script-list button")
    assert shelf.all_inner_texts()[:2] == ["Another one", "At the river"]
    shelf.nth(1).click()
    expect(room.locator("#vw-script-name")).to_have_value("At the river")
    assert len(texts(room)) == 3
    room.click("#vw-script-shelf summary")
    room.click("#vw-script-delete")
    expect(room.locator("#vw-script-name")).to_have_value("Another one")
    room.get_by_text("At the river was deleted").locator("..").get_by_role("button", name="Undo").click()
    expect(room.locator("#vw-script-name")).to_have_value("At the river")
    assert len(texts(room)) == 3
    room.click("#vw-script-shelf summary")
    room.locator("#vw-script-samples button").first.click()
    expect(room.locator("#vw-script-lines > li")).to_have_count(5)


def test_lines_are_written_moved_copied_and_removed_by_keys_alone(room: Page) -> None:
    first, second, third = texts(room)
    text_of(room, 2).focus()
    room.keyboard.press("Alt+ArrowUp")
    assert texts(room) == [second, first, third]
    assert room.evaluate("document.activeElement.value") == second, "the focus goes with it"
    expect(room.locator("#vw-script-live")).to_have_text("It is line 1 now.")
    room.keyboard.press("End")
    room.keyboard.press("Enter")
    room.keyboard.type("A new one.")
    assert texts(room) == [second, "A new one.", first, third]
    for _ in range(len("one.")):
        room.keyboard.press("ArrowLeft")
    room.keyboard.press("Enter")
    assert texts(room)[1:3] == ["A new", "one."], "a line is cut at the cursor"
    room.keyboard.press("Control+A")
    room.keyboard.press("Backspace")
    room.keyboard.press("Backspace")
    assert texts(room) == [second, "A new", first, third]
    line(room, 2).locator(".vw-line-open").press("Enter")
    line(room, 2).locator(".vw-line-copy").press("Enter")
    assert texts(room)[:3] == [second, "A new", "A new"]
    line(room, 2).locator(".vw-line-remove").press("Enter")
    assert texts(room) == [second, "A new", first, third]
    room.get_by_role("button", name="Undo").last.press("Enter")
    assert texts(room) == [second, "A new", "A new", first, third]


def test_a_line_is_dragged_by_its_number(room: Page) -> None:
    first, second, third = texts(room)
    line(room, 1).locator(".vw-line-grip").drag_to(line(room, 3), target_position={"x": 200, "y": 40})
    assert texts(room) == [second, third, first]


def test_a_voice_goes_to_every_line_of_a_role(room: Page) -> None:
    paste(room, 3, "KING: One.\n\nQUEEN: Two.\n\nKING: Three.")
    expect(room.locator("#vw-script-lines > li")).to_have_count(6)
    voices = [line(room, number).locator(".vw-line-voice") for number in (4, 5, 6)]
    assert voices[0].input_value() == voices[2].input_value() != voices[1].input_value()
    voices[0].select_option("custom_voice:nora")
    assert [voice.input_value() for voice in voices][::2] == ["custom_voice:nora"] * 2
    assert voices[1].input_value() != "custom_voice:nora"


def test_a_voice_may_be_described(room: Page, demo: App) -> None:
    line(room, 2).locator(".vw-line-voice").select_option("voice_design:")
    assert room.evaluate("document.activeElement.className") == "vw-line-description"
    room.keyboard.type("A man with a low voice.")
    line(room, 2).locator(".vw-line-instruct").fill("He speaks slowly.")
    line(room, 2).locator(".vw-line-remake").click()
    await_made(room, 2)
    await_silence(room)
    await_saved(room)
    from tests.browser.script_steps import client

    take = stored_script(room, demo)["lines"][1]["takes"][0]["take"]
    with client(room, demo) as http:
        record = http.get(f"/studio/takes/{take}").json()
    assert record["mode"] == "voice_design"
    assert record["config"]["instructions"] == "A man with a low voice. He speaks slowly."


def test_a_bracket_that_is_no_pause_is_told_at_its_line(room: Page) -> None:
    text_of(room, 2).fill("One [pause 5 minutes] two.")
    expect(line(room, 2).locator(".vw-line-error")).to_contain_text("[pause 5 minutes] is no pause.")
    room.click("#vw-speak")
    expect(room.locator("#vw-room-script [data-error-for=request]")).to_contain_text("Mend line 2 first")
    assert room.is_disabled("#vw-stop"), "nothing was begun"


def test_subtitles_and_texts_are_opened(room: Page) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\nCLARA: One.\n\n2\n00:00:04,400 --> 00:00:05,000\nANGUS: Two.\n"
    room.set_input_files("#vw-script-file", {"name": "a.srt", "mimeType": "text/plain", "buffer": srt.encode()})
    expect(room.locator("#vw-script-lines > li")).to_have_count(5)
    assert texts(room)[3:] == ["One. [pause 2s]", "Two."]
    room.get_by_role("button", name="Undo").last.click()
    expect(room.locator("#vw-script-lines > li")).to_have_count(3)


@pytest.mark.parametrize(
    ("name", "scheme", "width"), [("", "light", 1200), ("-dark", "dark", 1200), ("-phone", "light", 360)]
)
def test_it_fits_and_is_photographed(open_studio: OpenStudio, demo: App, name: str, scheme: str, width: int) -> None:
    viewport = {"width": width, "height": 860}
    page = open_studio(url=demo.url, viewport=viewport, color_scheme=scheme)
    enter_script(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"script{name}.png", full_page=True)
