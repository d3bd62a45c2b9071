"""Tests for durations and server messages in the language of the page."""

from __future__ import annotations

import json

import pytest

from studio.words import words
from tests.js.conftest import Node

SAID = """async ({ language, english, chosen, sentence }) => {
  const { translateMessage, setTexts } = await import('/js/common/server_messages.js');
  const fill = (sentence, values) => sentence.replace(/\\{(\\w+)\\}/g, (place, name) => values[name] ?? place);
  const t = (key, values = {}) => fill(chosen[key] ?? english[key] ?? key, values);
  setTexts({ language, english, chosen, t });
  return translateMessage(sentence);
}"""
NOT_LOADED = "The checkpoints could not be loaded: "


@pytest.mark.parametrize(
    ("seconds", "en", "zh"),
    [
        (0, "1 s", "1 秒"),
        (41.2, "42 s", "42 秒"),
        (60, "1 min 0 s", "1 分 0 秒"),
        (125, "2 min 5 s", "2 分 5 秒"),
        (599.5, "10 min", "10 分钟"),
        (1585, "27 min", "27 分钟"),
        (3541, "1 h", "1 小时"),
        (5250, "1 h 28 min", "1 小时 28 分钟"),
    ],
)
def test_durations_are_formatted_in_both_languages(node: Node, seconds: float, en: str, zh: str) -> None:
    body = """async ({ seconds, known }) => {
      const { formatDuration } = await import('/js/common/dates.js');
      return formatDuration(seconds, (key, values) => known[key].replace(/\\{(\\w+)\\}/g, (_, name) => values[name]));
    }"""
    for language, expected in (("en", en), ("zh", zh)):
        assert node.evaluate(body, {"seconds": seconds, "known": words(language)}) == expected


@pytest.mark.parametrize(
    ("sentence", "zh"),
    [
        (
            "/x: the folder is missing. Give a folder or a Hub id (owner/name). [checkpoint_missing]",
            "/x：缺少该文件夹。",
        ),
        # The reason exists only in English, so the page shows the general message for the error code.
        ("/x: config.json holds no number for hidden_size. [checkpoint_invalid]", "模型文件已损坏或彼此不匹配"),
        ("/x: it cannot be served: a thing. [checkpoint_unsupported]", "运行时不支持这种模型"),
        ("The Hub (h.test) cannot be reached: no connection could be made. Go on. [hub_unreachable]", "连不上 Hub。"),
        ("Something new. [code_of_tomorrow]", "Something new."),
    ],
)
def test_checkpoint_load_errors_are_shown_in_the_page_language(node: Node, sentence: str, zh: str) -> None:
    said = {
        language: node.evaluate(
            SAID,
            {
                "language": language,
                "english": words("en"),
                "chosen": words(language),
                "sentence": NOT_LOADED + sentence,
            },
        )
        for language in ("en", "zh")
    }
    assert said["en"] == NOT_LOADED + sentence
    assert zh in said["zh"], json.dumps(said, ensure_ascii=False)


SENTENCE = """async ({ language, english, chosen, error }) => {
  const { setTexts, errorSentence } = await import('/js/common/server_messages.js');
  const fill = (sentence, values) => sentence.replace(/\\{(\\w+)\\}/g, (place, name) => values[name] ?? place);
  const t = (key, values = {}) => fill(chosen[key] ?? english[key] ?? key, values);
  setTexts({ language, english, chosen, t });
  return errorSentence(error);
}"""


def test_long_wait_is_not_shown_only_in_seconds(node: Node) -> None:
    error = {"code": "speech_spent", "message": "-", "facts": {"limit": 600.0, "retry_after_s": 5250.4}}
    for language, spent, wait in (
        ("en", "your 10 min of speech", "in 1 h 28 min"),
        ("zh", "10 分钟", "1 小时 28 分钟"),
    ):
        kwargs = {"language": language, "english": words("en"), "chosen": words(language), "error": error}
        said = node.evaluate(SENTENCE, kwargs)
        assert spent in said
        assert wait in said
