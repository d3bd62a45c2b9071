"""Test of a long book: if studio and runtime are killed, no sentence is lost or repeated."""

from __future__ import annotations

import os
import random
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Download, Page, expect

from tests.browser.conftest import OpenStudio
from tests.browser.script_steps import GAP_S, await_saved, decoded, enter_script, silence, stored_script, text_of
from tests.browser.script_steps import sound_of as take_sound
from tests.support.app import App, running_app
from tests.support.documents import XHTML, epub

pytestmark = pytest.mark.browser

TURN_MS = 250
SENTENCES = [f"The keeper of lamp {number} saw boat {7 * number} come back in the evening." for number in range(60)]
LINES = ["The Harbour", *SENTENCES[:30], "The Sea", *SENTENCES[30:]]
PAGES = ["".join(f"<p>{line}</p>" for line in LINES[start : start + 31]) for start in (0, 31)]
ONE, TWO = f"{XHTML}<body>{PAGES[0]}</body></html>", f"{XHTML}<body id='b'>{PAGES[1]}</body></html>"
BOOK = epub(**{"one": ONE, "two a": TWO})


def start(running: ExitStack, folder: Path, port: str = "0") -> App:
    options = {"VOICEWRIGHT_DATA": str(folder), "INSTANT_SPEED": "100000"}
    return running.enter_context(running_app(["--port", port], instant=True, **options))


def kill_both(app: App) -> None:
    """Kill studio and runtime at the same time, like a power failure."""
    runtime = app.runtime_pid
    app.process.kill()
    os.kill(runtime, signal.SIGKILL)
    app.process.wait()


def line_in_progress(page: Page) -> int:
    found = re.match(r"Making line (\d+) of \d+, about .* left", page.text_content("#vw-script-told") or "")
    return int(found[1]) if found else 0


@pytest.mark.timeout(1200)
def test_book_export_is_complete_after_two_kills_of_both_processes(tmp_path: Path, open_studio: OpenStudio) -> None:
    choose = random.Random(1)
    with ExitStack() as running:
        app = start(running, tmp_path)
        page = open_studio(url=app.url)
        enter_script(page)
        page.set_input_files("#vw-script-file", {"name": "b.epub", "mimeType": "application/epub+zip", "buffer": BOOK})
        page.locator("#vw-chapters-go").click()
        expect(text_of(page, 1)).to_have_value(LINES[0])
        await_saved(page)

        downloads: list[Download] = []
        page.on("download", lambda download: downloads.append(download))
        page.click("#vw-script-files")
        page.select_option("#vw-script-format", "wav")
        page.select_option("#vw-script-loudness", "")
        page.click("#vw-script-go")
        kills = sorted(choose.sample(range(2, len(LINES)), 2))
        while not downloads:  # The export continues without another press.
            page.wait_for_timeout(TURN_MS)
            assert not page.text_content("#vw-script-export-error")
            if kills and line_in_progress(page) > kills[0]:
                kill_both(app)
                kills.pop(0)
                told = page.locator("#vw-script-told")
                expect(told).to_contain_text("Waiting for the studio to come back; the export continues then")
                page.wait_for_timeout(1000 * choose.uniform(0, 3))
                app = start(running, tmp_path, app.port)
        assert not kills, "it was exported before the last kill"
        await_saved(page)

        lines = stored_script(page, app)["lines"]
        assert [line["text"] for line in lines] == LINES
        assert [len(line["takes"]) for line in lines] == [1] * len(lines)
        takes = [line["takes"][0]["take"] for line in lines]
        assert len(set(takes)) == len(takes)
        for line in lines:
            assert line["text"] in line["takes"][0]["key"], "its take says another text"
        files = list((tmp_path / "takes").glob("*.flac"))
        assert len(files) - len(takes) <= 4, "what a kill interrupted was stored at most once more"
        sounds = [part for take in takes for part in (silence(GAP_S), take_sound(page, app, take))]
        assert np.array_equal(decoded(downloads[0].path().read_bytes()), np.concatenate(sounds[1:]))
