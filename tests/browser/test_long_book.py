"""Test that a long book loses and repeats no sentence if studio and runtime are killed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.proof.book import book

pytestmark = pytest.mark.browser


@pytest.mark.skipif(not all(map(shutil.which, ("pandoc", "ffprobe", "ffmpeg"))), reason="no pandoc, ffprobe or ffmpeg")
@pytest.mark.timeout(1200)
def test_book_export_is_complete_after_two_kills_of_both_processes(tmp_path: Path, browser: Browser) -> None:
    report, export = book(browser, tmp_path, pages=8, kills=2)
    assert (report.chapters, report.presses) == (2, 1), "it continues by itself"
    assert report.spare_takes <= 2 * len(report.kills), "what a kill interrupted was stored at most once more"
    progress = "\n".join(export.messages)
    assert "Waiting for the studio to come back; the export continues then" in progress
    assert re.search(r"Making line \d+ of \d+, about .* left", progress)
