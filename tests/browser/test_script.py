"""Tests for scripts with the embedded voice: gapless playback, new takes, export, reload."""

from __future__ import annotations

import io
import re
import zipfile

import av
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from runtime.shared.audio.loudness import measure_loudness
from tests.browser.conftest import SCREENSHOTS
from tests.browser.script_steps import (
    DIALOGUE,
    GAP_S,
    RATE,
    Pcm,
    await_kept,
    await_made,
    await_silence,
    await_stored,
    client,
    decoded,
    enter_script,
    export,
    heard,
    joined,
    line,
    listen_anew,
    make_all,
    silence,
    sound_of,
    stored_script,
    text_of,
    texts,
)
from tests.browser.steps import reading, reload_to_speak
from tests.support.app import App

pytestmark = pytest.mark.browser


def test_script_lines_stream_in_order_and_join_without_a_gap(script: Page, app: App) -> None:
    """A pause of 3 s gives a slow machine time to generate the other lines during playback."""
    text_of(script, 1).fill(text_of(script, 1).input_value() + " [pause 3s]")
    text_of(script, 2).fill(f"Yes. {DIALOGUE.partition(': ')[2].partition('.')[0]}. [pause 0.5s] Quite.")
    line(script, 1).locator(".vw-line-play").click()
    await_made(script, 1)
    script.keyboard.press("Escape")
    listen_anew(script)
    script.evaluate("window.sounded = []")
    script.evaluate(
        """() => new MutationObserver(() => {
          const line = document.querySelector('#vw-script-lines [data-sounding]');
          const state = document.querySelectorAll('#vw-script-lines > li')[1].dataset.state;
          if (line) sounded.push([[...line.parentElement.children].indexOf(line) + 1, state]);
        }).observe(document.querySelector('#vw-script-lines'), { attributes: true, subtree: true })"""
    )
    script.click("#vw-speak")
    await_made(script, 2, 3)
    await_silence(script)
    await_kept(script, 1, 2, 3)
    asked = script.evaluate("sounded")
    assert [1, "coming"] in asked, "line 2 is made while line 1 sounds"
    order = [number for number, _ in asked]
    assert order == sorted(order)
    assert set(order) == {1, 2, 3}
    _, (first, second, third) = joined(script, app)
    gap = silence(GAP_S)
    expected = np.concatenate([first, silence(3), gap, second, gap, third])
    assert reading(script, "underruns") == "0", "playback ran out of audio"
    assert np.array_equal(heard(script), np.trim_zeros(expected))


def test_playback_of_a_script_starts_at_any_line_and_can_be_stopped(script: Page, app: App) -> None:
    make_all(script)
    _, (_, second, third) = joined(script, app)
    listen_anew(script)
    line(script, 2).locator(".vw-line-play").click()
    expect(line(script, 2)).to_have_attribute("aria-current", "true")
    await_silence(script)
    assert np.array_equal(heard(script), np.trim_zeros(np.concatenate([second, silence(GAP_S), third])))
    text_of(script, 3).focus()
    script.keyboard.press("Control+Enter")
    expect(line(script, 3)).to_have_attribute("aria-current", "true")
    script.keyboard.press("Escape")
    await_silence(script)
    assert script.locator("[data-sounding]").count() == 0


def test_generating_a_script_line_again_keeps_the_other_lines(script: Page, app: App) -> None:
    make_all(script)
    before = stored_script(script, app)["lines"]
    line(script, 2).locator(".vw-line-remake").click()
    await_made(script, 2)
    await_silence(script)
    await_kept(script, 2, beside={part["take"] for part in before[1]["takes"]})
    after = stored_script(script, app)["lines"]
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1]["seed"] != before[1]["seed"]
    for old, new in zip(before[1]["takes"], after[1]["takes"], strict=True):
        assert not np.array_equal(sound_of(script, app, old["take"]), sound_of(script, app, new["take"]))

    line(script, 2).locator(".vw-line-remake").click()
    script.get_by_role("button", name="Undo").last.click()
    expect(line(script, 2)).to_have_attribute("data-state", "made")
    await_stored(script, app, after)  # The earlier takes are kept.


def test_earlier_take_of_a_script_line_can_be_played_and_selected(script: Page, app: App) -> None:
    text_of(script, 2).fill("No other test says this. [pause 0.3s] None.")
    make_all(script)
    before = stored_script(script, app)["lines"][1]
    line(script, 2).locator(".vw-line-open").click()
    takes = line(script, 2).locator(".vw-line-takes")
    chips = takes.locator("button")
    expect(takes).to_be_hidden()
    line(script, 2).locator(".vw-line-remake").click()
    await_made(script, 2)
    await_silence(script)
    await_kept(script, 2, beside={part["take"] for part in before["takes"]})
    after = stored_script(script, app)["lines"][1]
    expect(chips).to_have_count(2)
    expect(chips.last).to_have_attribute("aria-pressed", "true")
    line(script, 2).screenshot(path=SCREENSHOTS / "script-takes.png")
    sent: list[str] = []
    script.on("request", lambda request: sent.append(f"{request.method} {request.url.rpartition('/')[2]}"))
    chips.first.click()
    expect(chips.first).to_have_attribute("aria-pressed", "true")
    expect(script.locator("#vw-play")).to_have_attribute("data-icon", "pause")
    await_silence(script)
    await_kept(script, 2, beside={part["take"] for part in after["takes"]})
    assert stored_script(script, app)["lines"][1] == before
    assert "POST takes" not in sent, "no audio was generated"
    script.keyboard.press("Control+z")
    expect(chips.last).to_have_attribute("aria-pressed", "true")
    await_kept(script, 2, beside={part["take"] for part in before["takes"]})


def test_script_line_with_a_locked_seed_is_identical_when_generated_again(script: Page, app: App) -> None:
    line(script, 2).locator(".vw-line-open").click()
    line(script, 2).locator(".vw-line-seed").fill("7")
    line(script, 2).locator(".vw-line-seed").blur()
    expect(line(script, 2).locator(".vw-line-lock")).to_be_checked()
    sounds: list[tuple[list[str], list[bytes]]] = []
    for _ in range(2):
        line(script, 2).locator(".vw-line-remake").click()
        await_made(script, 2)
        await_silence(script)
        await_kept(script, 2, beside={take for takes, _ in sounds for take in takes})
        takes = [part["take"] for part in stored_script(script, app)["lines"][1]["takes"]]
        sounds.append((takes, [sound_of(script, app, take).tobytes() for take in takes]))
    assert sounds[0][0] != sounds[1][0], "it was made again"
    assert sounds[0][1] == sounds[1][1]


def test_script_line_can_use_a_described_voice(script: Page, app: App) -> None:
    line(script, 2).locator(".vw-line-voice").click()
    script.get_by_role("button", name="Describe one for this line").click()
    assert script.evaluate("document.activeElement.className") == "vw-line-description"
    script.keyboard.type("A man with a low voice.")
    expect(script.locator(".vw-clip").nth(1)).to_have_text("A man with a low voice.")
    field = line(script, 2).locator(".vw-line-description")
    assert field.evaluate("(field) => field.scrollHeight <= field.clientHeight"), "it is seen whole"
    line(script, 2).locator(".vw-line-instruct").fill("He speaks slowly.")
    line(script, 2).locator(".vw-line-remake").click()
    await_made(script, 2)
    await_silence(script)
    await_kept(script, 2)
    take = stored_script(script, app)["lines"][1]["takes"][0]["take"]
    with client(script, app) as http:
        record = http.get(f"/studio/takes/{take}").json()
    assert record["mode"] == "voice_design"
    assert record["config"]["instructions"] == "A man with a low voice. He speaks slowly."


@pytest.mark.quick
def test_script_export_generates_missing_lines_and_joins_all_lines(script: Page, app: App) -> None:
    script.on("download", lambda _: None)
    name, data = export(script, "joined", format="wav", loudness="")
    assert name == "At the river.wav"
    await_made(script, 1, 2, 3)
    await_kept(script, 1, 2, 3)
    expected, lines = joined(script, app)
    assert np.array_equal(decoded(data), expected), "as it is: bit for bit"

    loud = decoded(export(script, "joined", format="wav", loudness="-19")[1])
    assert len(loud) == len(expected)
    assert _loudness(loud) == pytest.approx(-19, abs=0.5)
    assert abs(_loudness(expected) + 19) > 0.5, "there was something to do"

    name, data = export(script, "files", format="flac", loudness="")
    assert name == "At the river.zip"
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        sounds = [decoded(files.read(name)) for name in sorted(files.namelist())]
    lines[2] = lines[2][round(0.3 * RATE) :]  # The export drops the 0.3 s of silence before the first word.
    assert [len(sound) for sound in sounds] == [len(line) for line in lines]
    assert all(np.array_equal(sound, each_sound) for sound, each_sound in zip(sounds, lines, strict=True))

    name, data = export(script, "srt")
    assert name == "At the river.srt"
    _check_subtitles(data.decode(), lines)

    _, data = export(script, "joined", format="mp3", rate="128000")
    with av.open(io.BytesIO(data)) as container:
        assert container.streams.audio[0].bit_rate == 128_000
    script.click("#vw-script-files")
    script.locator("#vw-script-export").screenshot(path=SCREENSHOTS / "script-export-mp3.png")
    script.keyboard.press("Escape")

    _, data = export(script, "all", format="mp3")
    with zipfile.ZipFile(io.BytesIO(data)) as files:
        kinds = sorted(name.rpartition(".")[2] for name in files.namelist())
    assert kinds == ["mp3", "mp3", "mp3", "mp3", "srt"]


def _check_subtitles(srt: str, lines: list[Pcm]) -> None:
    cues = re.findall(r"(\d+)\n(\S+) --> (\S+)\n(.+?)\n(?:\n|\Z)", srt, re.DOTALL)
    assert [number for number, *_ in cues] == ["1", "2", "3"]
    assert [words for *_, words in cues][1:] == ["Angus: Yes. Quite.", "Clara: Go on."]
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
    loudness = measure_loudness(samples)
    assert loudness is not None
    return loudness


def test_reload_restores_the_whole_script(script: Page, app: App) -> None:
    make_all(script)
    expected, _ = joined(script, app)
    reload_to_speak(script)
    enter_script(script)
    expect(script.locator("#vw-script-name")).to_have_value("At the river")
    assert texts(script) == [line.partition(": ")[2] for line in DIALOGUE.split("\n\n")]
    await_made(script, 1, 2, 3)
    asked: list[str] = []
    script.on("websocket", lambda socket: socket.on("framesent", lambda frame: asked.append(str(frame))))
    script.click("#vw-speak")
    await_silence(script)
    assert np.array_equal(heard(script), np.trim_zeros(expected)), "it sounds as it did"
