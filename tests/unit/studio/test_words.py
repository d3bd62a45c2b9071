"""Tests for the page's texts: complete in all languages, and each used text exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from studio.routes.host import describe_settings
from studio.settings import StudioSettings
from studio.words import FOLDER, languages, words

ASSETS = FOLDER.parent
ENGLISH = words("en")
OTHERS = [code for code in languages() if code != "en"]

IN_MARKUP = re.compile(r'data-(?:i18n(?:-[a-z-]+)?|vw-speak)="([^"]+)"')
IN_SCRIPT = re.compile(r"\bt\(\s*'([a-z][\w.]+)'")
# Pattern of a call whose key has a constant beginning and a computed end.
BUILT = re.compile(r"\bt\(\s*`([a-z][\w.]*)\$\{")
PLACE = re.compile(r"\{(\w+)(?:\|[^|}]*\|[^}]*)?\}")
TEXT = re.compile(r'data-i18n="([^"]+)"[^>]*>([^<]*)<')


def sources() -> list[Path]:
    return [*(ASSETS / "html").rglob("*.html"), *(ASSETS / "js").rglob("*.js")]


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_the_same_keys_and_placeholders(language: str) -> None:
    theirs = words(language)
    assert {key for key in theirs if not key.startswith("settings.")} == ENGLISH.keys()
    for key, sentence in ENGLISH.items():
        assert set(PLACE.findall(theirs[key])) == set(PLACE.findall(sentence)), key
        assert theirs[key].strip(), key


@pytest.mark.parametrize("language", OTHERS)
def test_other_languages_explain_every_host_setting(
    language: str,
) -> None:
    descriptions = {f"settings.{setting['env']}": setting["about"] for setting in describe_settings(StudioSettings())}
    theirs = {key: sentence for key, sentence in words(language).items() if key.startswith("settings.")}
    assert theirs.keys() == descriptions.keys()
    assert [key for key, sentence in theirs.items() if not sentence.strip() or sentence == descriptions[key]] == []
    number = re.compile(r"\d+")
    for key, about in descriptions.items():
        assert sorted(number.findall(theirs[key])) == sorted(number.findall(about)), key


def test_every_translation_key_used_by_the_page_exists() -> None:
    used, begun = set(), set()
    for path in sources():
        text = path.read_text("utf-8")
        used |= set(IN_MARKUP.findall(text)) | set(IN_SCRIPT.findall(text))
        begun |= set(BUILT.findall(text))
    assert len(used) > 40
    assert used - ENGLISH.keys() == set()
    assert {start for start in begun if not any(key.startswith(start) for key in ENGLISH)} == set()


def test_page_markup_is_readable_in_english_without_scripts() -> None:
    for path in (ASSETS / "html").rglob("*.html"):
        for key, text in TEXT.findall(path.read_text("utf-8")):
            assert " ".join(text.split()) == ENGLISH[key], key


def test_translation_file_of_a_room_contains_only_keys_of_that_room() -> None:
    for path in FOLDER.rglob("*.json"):
        keys = json.loads(path.read_text("utf-8"))
        assert [key for key in keys if not key.startswith(f"{path.stem}.")] == [], path


def test_missing_translation_language_is_reported() -> None:
    for name in ("xx", "..", "en/../zh", ""):
        with pytest.raises(KeyError):
            words(name)
    assert languages()["zh"] == "中文"
    assert next(iter(languages())) == "en"
