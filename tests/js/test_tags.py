"""Tests for tag detection in the page, compared with the runtime's implementation."""

from __future__ import annotations

import pytest

from runtime.settings import Limits
from runtime.shared.text.inline_tags import last_style, untagged
from tests.js.conftest import Node

TEXTS = [
    "[sad] It rains. [pause 1s] Still.",
    "He [sic] said [to Tom, his brother] no.",
    "[style: to Tom] Go. [低语] 走。",
    "One [in a low voice] two [1] three [door slams]",
    "[很温柔的语气] 你好 [neutral] a",
]


@pytest.mark.parametrize("text", TEXTS)
def test_page_and_runtime_find_the_same_tags(node: Node, text: str) -> None:
    assert node.call("common/text", "untagged", text) == untagged(text)
    assert node.call("common/text", "lastStyle", text) == last_style(text, Limits())
