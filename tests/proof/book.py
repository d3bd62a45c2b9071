"""Measurement of import, speech and export of a long book while processes are killed.

``python -m tests.proof.book --pages 500 --kills 2`` prints the results. By default, the runtime generates audio
instantly. With ``--voice``, the embedded voice generates speech at its real speed. With ``--tiny``, the real engine
runs a small random checkpoint whose lines take about as long as real speech.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Download, Page, expect, sync_playwright

from benchmarks.page import find_chromium
from runtime.settings import Limits
from tests.support.app import App, running_app
from tests.support.checkpoints import SPECS, write_checkpoint

PAGE_WORDS = 300
PAGES_PER_CHAPTER = 20
PARAGRAPH_SENTENCES = (2, 7)
LOADED_MS = 600_000
MEMORY_TURN_S = 0.5
# Number of frames of each line, about the mean length of a paragraph. Speech from random weights does not end earlier.
TINY_LINE_FRAMES = 150
KIB = 1024

TITLE, AUTHOR = "The Long Voyage", "Ann Author"
RATE = 24_000
TURN_MS = 250
MIN_ALIKE = 0.9  # Minimum correlation of a take with its segment of the exported file, which is compressed.

Samples = NDArray[np.int16]

_NOUNS = "river harbour lantern captain garden letter window mountain orchard kettle bridge station winter market"
_ADJECTIVES = "old quiet yellow narrow bright heavy distant gentle broken early silver warm empty careful"
_VERBS = "remembered followed carried painted crossed opened answered repaired visited measured forgot described"
_PLACES = "behind near beyond under before along"


@dataclass(frozen=True, slots=True)
class BookReport:
    """Results of importing, speaking and exporting one book."""

    pages: int
    lines: int
    chapters: int
    audio_s: float
    made_s: float
    joined_s: float
    kills: list[int]  # Number of stored lines at each kill.
    presses: int
    spare_takes: int
    memory_mib: dict[str, float]

    @property
    def figure(self) -> str:
        memory = ", ".join(f"{name} {mib:.0f} MiB" for name, mib in self.memory_mib.items())
        return (
            f"{self.pages} pages, {self.lines} lines, {self.chapters} chapters: {self.audio_s / 3600:.2f} h of audio "
            f"made in {self.made_s:.0f} s and joined in {self.joined_s:.0f} s; kill -9 of both processes after "
            f"{', '.join(map(str, self.kills))} lines, {self.presses} presses; 0 lines lost or doubled, "
            f"{self.spare_takes} takes to spare; peak memory: {memory}"
        )


def manuscript(pages: int, seed: int = 1) -> str:
    """Return a book as Markdown in which every sentence is different."""
    choose = random.Random(seed)
    nouns, adjectives, verbs, places = (words.split() for words in (_NOUNS, _ADJECTIVES, _VERBS, _PLACES))

    def thing() -> str:
        return f"the {choose.choice(adjectives)} {choose.choice(nouns)}"

    seen: set[str] = set()
    parts = []
    for chapter in range(1, (pages - 1) // PAGES_PER_CHAPTER + 2):
        parts.append(f"# Chapter {chapter}")
        left = PAGE_WORDS * min(PAGES_PER_CHAPTER, pages - PAGES_PER_CHAPTER * (chapter - 1))
        while left > 0:
            sentences: list[str] = []
            while len(sentences) < choose.randint(*PARAGRAPH_SENTENCES):
                verb, place = choose.choice(verbs), choose.choice(places)
                sentence = f"{thing()} {verb} {thing()} {place} {thing()}.".capitalize()
                if sentence not in seen:
                    seen.add(sentence)
                    sentences.append(sentence)
            parts.append(" ".join(sentences))
            left -= sum(len(sentence.split()) for sentence in sentences)
    return "\n\n".join(parts)


def book_file(folder: Path, pages: int) -> Path:
    """Write a book as an EPUB with cover and table of contents, and return the file."""
    cover, text, book = folder / "cover.png", folder / "book.md", folder / "book.epub"
    with av.open(str(cover), "w", format="image2") as image:
        stream = image.add_stream("png", rate=1)
        stream.width, stream.height, stream.pix_fmt = 300, 400, "rgb24"
        frame = av.VideoFrame.from_ndarray(np.full((400, 300, 3), 90, np.uint8), format="rgb24")
        image.mux(stream.encode(frame))
        image.mux(stream.encode(None))
    text.write_text(f"---\ntitle: {TITLE}\nauthor: {AUTHOR}\n---\n\n{manuscript(pages)}\n")
    subprocess.run(["pandoc", str(text), "-o", str(book), f"--epub-cover-image={cover}"], check=True)
    return book


class Memory:
    """Monitor for the peak memory (proportional set size) of several processes.

    Mapped files are counted separately, because the system can free their pages at any time.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self.pids: dict[str, int] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._ended = threading.Event()
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(MEMORY_TURN_S):
            for name, pid in list(self.pids.items()):
                try:
                    status = Path(f"/proc/{pid}/smaps_rollup").read_text()
                except OSError:
                    continue
                for label, fields in ((name, "Pss_(?:Anon|Shmem)"), (f"{name} with mapped files", "Pss")):
                    mib = sum(map(int, re.findall(rf"^{fields}:\s+(\d+) kB", status, re.MULTILINE))) / KIB
                    self.peaks[label] = max(self.peaks.get(label, 0.0), mib)


class Product:
    """Running studio and runtime that can be killed and restarted.

    The port and the data folder do not change.
    """

    def __init__(self, folder: Path, memory: Memory, *, has_voice: bool, model: Path | None = None) -> None:
        self._folder = folder
        self._memory = memory
        self._has_voice = has_voice
        self._model = model
        self._stack: Any = None
        self.app = self._start("0")

    def _start(self, port: str) -> App:
        options = ["--model", str(self._model)] if self._model else []
        self._stack = running_app(
            ["--port", port, *options],
            instant=not self._has_voice and not self._model,
            VOICEWRIGHT_DATA=str(self._folder),
            INSTANT_SPEED="100000",
            VOICEWRIGHT_THREADS="2" if self._has_voice else "1",
            VOICEWRIGHT_MAX_FRAMES=str(TINY_LINE_FRAMES if self._model else Limits().max_frames),
        )
        app: App = self._stack.__enter__()
        self._memory.pids |= {"studio": app.process.pid, "runtime": app.runtime_pid}
        return app

    def kill(self) -> None:
        """Kill studio and runtime at the same time, like a power failure."""
        runtime = self.app.runtime_pid
        self.app.process.kill()
        os.kill(runtime, signal.SIGKILL)
        self._stack.__exit__(None, None, None)

    def restart(self) -> None:
        self.app = self._start(self.app.port)

    def close(self) -> None:
        self._stack.__exit__(None, None, None)


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """Open the studio's page in a new browser window, and yield the page."""
    with browser.new_context(accept_downloads=True) as window:
        page = window.new_page()
        page.goto(url, wait_until="domcontentloaded")
        page.locator("#vw-speak:enabled").wait_for(timeout=LOADED_MS)
        yield page


def stored(page: Page) -> dict[str, Any]:
    """Return the most recently saved script, as the studio has stored it."""
    of = "fetch('/studio/scripts').then((answer) => answer.json()).then(({ scripts }) => scripts[0].id)"
    script: dict[str, Any] = page.evaluate(f"{of}.then((id) => fetch('/studio/scripts/' + id)).then((a) => a.json())")
    return script


def renderer_pid(page: Page) -> int:
    """Return the process ID of the page: the renderer process with the most memory."""
    browser = page.context.browser
    assert browser is not None
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    pids = [process["id"] for process in found if process["type"] == "renderer"]
    return max(pids, key=lambda pid: Path(f"/proc/{pid}/statm").read_text().split()[1].zfill(12))


class Export:
    """Export of a script to a file by the page, during which processes are killed."""

    def __init__(self, page: Page, running: Product) -> None:
        self.messages: list[str] = []  # Progress messages of the page without repetitions.
        self.errors: list[str] = []  # Errors after which Export was pressed again.
        self.made_s = self.joined_s = 0.0
        self._page = page
        self._running = running

    def save(self, path: Path, kill_after: list[int], rests_s: list[float]) -> None:
        """Press Export and save the downloaded file.

        Args:
            path: Destination of the exported file.
            kill_after: Numbers of generated lines after which both processes are killed.
            rests_s: Seconds between each kill and the restart.
        """
        page = self._page
        downloads: list[Download] = []
        page.on("download", lambda download: downloads.append(download))
        page.click("#vw-script-files")
        page.select_option("#vw-script-format", "m4b")
        kills = list(zip(kill_after, rests_s, strict=True))
        begun, joining = time.monotonic(), 0.0
        self._press()
        while not downloads:
            page.wait_for_timeout(TURN_MS)
            self._follow()
            if kills and self._line() > kills[0][0]:
                self._running.kill()
                expect(page.locator("#vw-script-told")).to_contain_text("Waiting for the studio to come back")
                self._follow()
                page.wait_for_timeout(1000 * kills.pop(0)[1])
                self._running.restart()
            if not joining and self.messages[-1] == "Joining":
                joining = time.monotonic()
            error = page.text_content("#vw-script-export-error")
            if error and page.is_enabled("#vw-script-go"):
                self.errors.append(error)
                self._press()
        assert not kills, "it was exported before the last kill"
        self.made_s, self.joined_s = joining - begun, time.monotonic() - joining
        downloads[0].save_as(path)

    def _press(self) -> None:
        self._page.click("#vw-script-go")

    def _follow(self) -> None:
        message = self._page.text_content("#vw-script-told") or ""
        if not self.messages or self.messages[-1] != message:
            self.messages.append(message)

    def _line(self) -> int:
        found = re.match(r"Making line (\d+)", self.messages[-1])
        return int(found[1]) if found else 0


def import_book(page: Page, file: Path) -> dict[str, Any]:
    """Import a book with all its chapters on the page, and return the stored script."""
    page.click("#vw-tab-script")
    page.locator("#vw-script-lines > li").first.wait_for()
    page.set_input_files("#vw-script-file", str(file))
    page.locator("#vw-chapters-go").click(timeout=LOADED_MS)
    expect(page.locator("#vw-script-name")).to_have_value(TITLE, timeout=LOADED_MS)
    expect(page.locator("#vw-script-saved")).to_have_text("Saved", timeout=LOADED_MS)
    return stored(page)


def check_lines(script: dict[str, Any], pages: int) -> list[str]:
    """Check that a script has each paragraph of the book once, with one recording per line.

    Returns:
        The ids of all recordings.
    """
    lines = script["lines"]
    wanted = [paragraph.removeprefix("# ") for paragraph in manuscript(pages).split("\n\n")]
    assert [line["text"] for line in lines] == [TITLE, AUTHOR, *wanted]
    assert [len(line["takes"]) for line in lines] == [1] * len(lines)
    takes = [line["takes"][0]["take"] for line in lines]
    assert len(set(takes)) == len(takes)
    for line in lines:
        assert line["text"] in json.loads(line["takes"][0]["key"]), "its take says another text"
    return takes


def check_file(path: Path, script: dict[str, Any], pcm_of: Callable[[str], Samples]) -> tuple[int, float]:
    """Check chapters, cover, duration and audio of an exported file with ffprobe.

    Returns:
        The number of chapters, and the duration in seconds.
    """
    command = ["ffprobe", "-v", "error", "-show_chapters", "-show_format", "-show_streams", "-of", "json", str(path)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    lines = script["lines"]
    gap = round(script["gap_s"] * RATE)
    starts = [0, *accumulate(line["takes"][0]["samples"] + gap for line in lines)]
    wanted = [(line["chapter"], starts[at] / RATE) for at, line in enumerate(lines) if line.get("chapter")]
    chapters = [(chapter["tags"]["title"], float(chapter["start_time"])) for chapter in found["chapters"]]
    assert [title for title, _ in chapters] == [title for title, _ in wanted]
    assert max(abs(one - other) for (_, one), (_, other) in zip(chapters, wanted, strict=True)) < 0.01
    assert {stream["codec_type"]: stream["codec_name"] for stream in found["streams"]}["video"] == "png"
    duration = float(found["format"]["duration"])
    assert abs(duration - (starts[-1] - gap) / RATE) < 0.1
    with path.with_suffix(".pcm").open("wb") as file:
        decode = ["ffmpeg", "-v", "error", "-i", str(path), "-map", "0:a", "-ar", str(RATE), "-f", "s16le", "-"]
        subprocess.run(decode, stdout=file, check=True)
    whole = np.memmap(path.with_suffix(".pcm"), "<i2", mode="r")
    for start, line in zip(starts, lines, strict=False):
        own = pcm_of(line["takes"][0]["take"]).astype(np.float64)
        there = whole[start : start + own.size].astype(np.float64)
        alike = own[: there.size] @ there / (np.linalg.norm(own) * np.linalg.norm(there) + 1)
        assert alike > MIN_ALIKE, f"another sentence is at the place of {line['text']!r}: {alike:.2f}"
    return len(chapters), duration


def book(
    browser: Browser,
    folder: Path,
    pages: int,
    kills: int,
    *,
    has_voice: bool = False,
    is_tiny: bool = False,
    seed: int = 1,
) -> tuple[BookReport, Export]:
    """Import a book on the page, generate its speech and export it, and check the results.

    Studio and runtime are killed at random lines. The function returns a report and the export.
    """
    choose = random.Random(seed)
    model = folder / "model" if is_tiny else None
    if model:
        write_checkpoint(model, SPECS["quick"], "custom_voice", seed)
    memory = Memory()
    running = Product(folder / "data", memory, has_voice=has_voice, model=model)
    try:
        with opened(browser, running.app.url) as page:
            memory.pids["page"] = renderer_pid(page)
            count = len(import_book(page, book_file(folder, pages))["lines"])
            kill_after = sorted(choose.sample(range(2, count - 1), kills))
            export = Export(page, running)
            path = folder / "book.m4b"
            export.save(path, kill_after, [choose.uniform(0, 3) for _ in kill_after])
            expect(page.locator("#vw-script-saved")).to_have_text("Saved", timeout=LOADED_MS)
            script = stored(page)
            takes = check_lines(script, pages)
            files = list((folder / "data" / "takes").glob("*.flac"))
            with client(page, running.app) as http:
                chapters, seconds = check_file(path, script, lambda take: pcm(http, take))
        report = BookReport(
            pages=pages,
            lines=count,
            chapters=chapters,
            audio_s=seconds,
            made_s=export.made_s,
            joined_s=export.joined_s,
            kills=kill_after,
            presses=1 + len(export.errors),
            spare_takes=len(files) - len(takes),
            memory_mib=memory.peaks,
        )
        return report, export
    finally:
        running.close()
        memory.close()


def client(page: Page, app: App) -> httpx.Client:
    """Return an HTTP client that uses the cookies of the page in the browser."""
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    return httpx.Client(base_url=app.url, cookies=cookies, trust_env=False, timeout=120)


def pcm(http: httpx.Client, take: str) -> Samples:
    return np.frombuffer(http.get(f"/studio/takes/{take}/audio?format=pcm").raise_for_status().content, "<i2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--voice", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="book-") as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        report, export = book(
            browser,
            Path(name),
            arguments.pages,
            arguments.kills,
            has_voice=arguments.voice,
            is_tiny=arguments.tiny,
        )
        print(report.figure, *export.errors, sep="\n")


if __name__ == "__main__":
    main()
