"""Fixture for tests of JavaScript modules without a DOM: a Node process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.shared.text import style_words
from tests.support import node as system

EVALUATE = Path(__file__).with_name("evaluate.js")


class Node:
    """Node process that evaluates JavaScript functions, like a Playwright page."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def evaluate(self, body: str, value: Any = None) -> Any:
        """Call the JavaScript function `body` with a JSON value, and return its awaited result.

        Raises: AssertionError: The function threw an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"body": body, "value": value}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer.get("result")

    def call(self, module: str, name: str, *values: Any) -> Any:
        """Call an exported function of a JavaScript module of the page, and return its result."""
        body = f"async (values) => (await import('/js/{module}.js')).{name}(...values)"
        return self.evaluate(body, list(values))


@pytest.fixture(scope="package")
def node() -> Iterator[Node]:
    command = [*system.command(), str(EVALUATE.relative_to(system.ROOT)), str(system.ROOT / "assets")]
    with subprocess.Popen(
        command, cwd=system.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        node = Node(process)
        node.call("common/text", "useStyleWords", style_words.for_page())
        yield node
        assert process.stdin is not None
        process.stdin.close()
