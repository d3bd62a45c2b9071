"""Tests for the requests of the page to the studio and the runtime."""

from __future__ import annotations

import pytest

from tests.js.conftest import Node

CHANGES = """async ([method, path]) => {
  const before = [globalThis.document, globalThis.fetch];
  globalThis.document = { baseURI: 'http://studio/' };
  globalThis.fetch = async () => new Response('{}');
  try {
    const { api } = await import('/js/common/api.js');
    let changes = 0;
    api.onChange = () => changes++;
    await api.request(path, { method });
    return changes;
  } finally {
    [globalThis.document, globalThis.fetch] = before;
  }
}"""


@pytest.mark.parametrize(
    "request_line",
    [
        "POST studio/takes",
        "PATCH studio/takes/a",
        "POST studio/takes/a/voice",
        "DELETE studio/takes/bin",
        "POST v1/audio/voices",
        "PATCH v1/audio/voices/a",
        "DELETE studio/voices/a?now=1&takes=1",
        "PUT studio/pronunciation",
    ],
)
def test_other_tabs_are_notified_after_a_change_of_a_list(node: Node, request_line: str) -> None:
    assert node.evaluate(CHANGES, request_line.split()) == 1


@pytest.mark.parametrize(
    "request_line",
    [
        "GET studio/takes",
        "PUT studio/scripts/a",
        "POST studio/documents?name=a.txt",
        "POST studio/exports",
        "POST studio/transcribe?language=en",
        "POST v1/audio/voices/check",
        "PATCH studio/me",
    ],
)
def test_other_tabs_are_not_notified_after_another_request(node: Node, request_line: str) -> None:
    assert node.evaluate(CHANGES, request_line.split()) == 0
