"""Tests for the Chinese page: neither texts nor error messages are in English."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import httpx
import pytest
from playwright.sync_api import Page, expect

from studio.words import languages
from tests.browser.conftest import SCREENSHOTS, OpenStudio
from tests.browser.steps import SHORT, enter, kept_take, vary, wav

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("no_voices")]

# Script that returns all visible texts and all accessible names, except data. Data are the user's own text, names of
# speakers, models and languages, code, spoken samples, and elements that are marked as English.
VISIBLE = """() => {
  const data = ['[lang=en]:not(html)', 'code', 'pre', 'q', 'blockquote', 'kbd', '.vw-pick-name', '#vw-caption',
    '#vw-language', '.vw-line-role', '.vw-line-paper', '.vw-clip', '#vw-script-list', '.vw-take-text', '.vw-voice-name',
    '.vw-voice-facts', '#vw-models', '#vw-host-models', '#vw-host-settings :is(dt, dd)',
    '#vw-design-chips', '.vw-script-entry-line'].join();
  const said = [];
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  const walk = document.createTreeWalker(document.querySelector('#vw'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { parentElement, textContent } = walk.currentNode;
    if (textContent.trim() && seen(parentElement) && !parentElement.closest(data)) said.push(textContent.trim());
  }
  for (const element of document.querySelectorAll('#vw [placeholder], #vw [title], #vw [aria-label]')) {
    if (!seen(element) || element.closest(data)) continue;
    said.push(...['placeholder', 'title', 'aria-label'].map((name) => element.getAttribute(name)).filter(Boolean));
  }
  return said;
}"""
WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")
# Names that are the same in all languages.
NAMES = {
    "Voicewright",
    "CustomVoice",
    "VoiceDesign",
    "Base",
    "English",
    "demo",
    "voice",
    "vector",
    "Hub",
    "Qwen3",
    "TTS",
    "Cookie",
    "API",
    "neutral",  # This tag is part of the user's text and is not translated.
    *("Home", "Assistant", "Wyoming", "VOICEWRIGHT", "WYOMING", "tcp"),
} | {
    *(
        "WAV",
        "MP3",
        "FLAC",
        "Opus",
        "OGG",
        "AIFF",
        "M4A",
        "SRT",
        "HTML",
        "EPUB",
        "PDF",
        "DOCX",
        "zip",
        "TTFA",
        "RTF",
        "LUFS",
        "ICL",
        "cpu",
        "pause",
        "NAME",
    ),
    *("Ctrl", "Enter", "Esc", "Alt", "Shift", "ms", "dB", "kHz", "Hz", "MB", "GiB", "p50", "p95", "float32", "Top"),
}


def english(page: Page, *allowed: str) -> list[str]:
    """Return all texts on the page that contain English words which are not allowed."""
    known = NAMES | set(allowed)
    return sorted({said for said in page.evaluate(VISIBLE) if set(WORD.findall(said)) - known})


SPEAKERS = ("Angus", "Clara", "Nora", "Mia", "Iris", "Reed", "Bruno", "Owen")


@pytest.fixture
def chinese(open_studio: OpenStudio) -> Page:
    page = open_studio(locale="zh-CN")
    expect(page.locator("gradio-app main")).to_be_attached()  # Gradio sets the language of the browser.
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    assert "zh" in languages()
    return page


def test_no_room_shows_text_in_another_language(chinese: Page) -> None:
    takes = urljoin(chinese.url, "/studio/takes")  # Other tests have stored takes with English names.
    for take in httpx.get(takes, params={"limit": 100}).json()["takes"]:
        httpx.delete(f"{takes}/{take['id']}").raise_for_status()
    kept_take(chinese, SHORT)
    said = {}
    for room in ("speakers", "design", "clone", "script", "library", "host"):
        enter(chinese, room)
        if room == "speakers":
            vary(chinese)
            for sheet in ("#vw-save", "#vw-volume-button", "#vw-to-sound"):
                chinese.click(sheet)
                assert english(chinese, *SPEAKERS, "Hi", "wav") == [], sheet
                chinese.keyboard.press("Escape")
        elif room == "clone":
            chinese.set_input_files("#vw-clone-file", wav(3.0))
            expect(chinese.locator("#vw-clone-clinic li").first).to_be_visible()
        elif room == "script":
            expect(chinese.locator("#vw-script-lines > li").first).to_be_visible()
            chinese.click("#vw-script-shelf summary")
        elif room == "library":
            expect(chinese.locator("#vw-takes-list .vw-take").first).to_be_visible()
        elif room == "host":
            groups = chinese.locator("#vw-host-settings summary")
            expect(groups.first).to_be_visible()
            for group in groups.all():
                group.click()
            # The settings' texts contain names of values and devices. The test in test_words.py checks that each text
            # is translated.
            expect(chinese.locator("#vw-host-settings small").first).to_be_visible()
            expect(chinese.locator("#vw-host-settings small[lang]")).to_have_count(0)
        chinese.screenshot(path=SCREENSHOTS / f"words-zh-{room}.png")
        said[room] = english(chinese, *SPEAKERS, "Hi", "wav")
    assert said == {room: [] for room in said}


@pytest.mark.quick
def test_server_errors_are_shown_in_the_page_language(chinese: Page) -> None:
    said, note = chinese.locator(".vw-error:not(:empty)"), chinese.locator("#vw-note")
    chinese.fill("#vw-text", "?!")
    chinese.click("#vw-speak")
    expect(note).to_contain_text("文本")
    assert english(chinese, *SPEAKERS) == []
    enter(chinese, "design")  # The Speak room would turn a text of this length into a script.
    chinese.fill("#vw-design-description", "A calm voice.")
    chinese.fill("#vw-text", "字" * 4097)
    chinese.click("#vw-speak")
    expect(said).to_contain_text("文本")
    chinese.fill("#vw-text", SHORT)
    enter(chinese, "clone")
    for file in (wav(0.5), {"name": "poem.wav", "mimeType": "audio/wav", "buffer": b"roses are red" * 99}):
        chinese.set_input_files("#vw-clone-file", file)
        expect(said.first).to_contain_text("录音")
        assert english(chinese, *SPEAKERS, "poem", "wav", "WebM") == []


def test_untranslated_text_is_detected(chinese: Page) -> None:
    chinese.evaluate("document.querySelector('.vw-keys').textContent = 'This was never translated.'")
    assert english(chinese, *SPEAKERS) == ["This was never translated."]
