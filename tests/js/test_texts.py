"""Tests for a text's estimated duration, file name and language in the page."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.shared.file_names import file_name
from runtime.shared.text.speech_rate import expected_seconds
from tests.js.conftest import Node

SENTENCE = "The quick brown fox jumps over the lazy dog and goes on. "
PUBLISHED = [
    "Chinese",
    "English",
    "French",
    "German",
    "Italian",
    "Japanese",
    "Korean",
    "Portuguese",
    "Russian",
    "Spanish",
]
TEXTS = [
    "",
    "Hi.",
    SENTENCE * 3,
    "水刚刚烧开。坐下歇一会儿吧。",
    "오늘 아침에는 안개가",
    "ねえ、12 の",
    "مرحبا بالعالم",
    "x" * 70 + " y 7",
    "nul. It said nothing.",
    "Lpt1",
    "Connect",
]


def test_duration_estimates_and_file_names_equal_the_runtime(node: Node) -> None:
    body = """async (texts) => {
      const { expectedSeconds } = await import('/js/common/text.js');
      const { fileName } = await import('/js/common/files.js');
      return texts.map((text) => [expectedSeconds(text), fileName(text, 'wav')]);
    }"""
    for text, (seconds, name) in zip(TEXTS, node.evaluate(body, TEXTS), strict=True):
        assert abs(seconds - expected_seconds(text)) <= 0.0401, text  # The runtime rounds to whole frames.
        assert name == file_name(text, "wav"), text


@pytest.mark.parametrize(
    ("text", "known", "unknown"),
    [
        ("مرحبا بالعالم، كيف حالك اليوم؟", ["english"], {"script": "Arab"}),
        ("مرحبا بالعالم، كيف حالك اليوم؟", PUBLISHED, {"script": "Arab"}),
        ("水刚刚烧开。坐下歇一会儿吧。", ["english"], {"script": "Hani"}),
        ("水刚刚烧开。坐下歇一会儿吧。", ["english", "sichuan_dialect"], None),
        ("今朝は雪が降っていました。", ["chinese", "english"], {"script": "Hira"}),
        ("Der Zug kam pünktlich und der Kaffee war heiß, es ist nicht mehr weit.", ["english"], {"language": "de"}),
        ("Der Zug kam pünktlich und der Kaffee war heiß, es ist nicht mehr weit.", PUBLISHED, None),
        ("Het was een mooie dag en ik ging met de trein naar het strand.", PUBLISHED, {"language": "nl"}),
        ("Naïve café owners met Dvořák, and in the end they all agreed.", ["english"], None),
        ("My friend 李明 came to the door this morning.", ["english"], None),
        ("Kwisatz haderach, Arrakis, Dune, Shai-Hulud!", ["english"], None),
        ("مرحبا", [], None),
        ("مرحبا", ["arabic"], None),
    ],
)
def test_foreign_language_is_detected_despite_english_names(
    node: Node, text: str, known: list[str], unknown: dict[str, Any] | None
) -> None:
    body = "async (given) => (await import('/js/common/language_detection.js')).unknownLanguage(...given)"
    assert node.evaluate(body, [text, known]) == unknown
