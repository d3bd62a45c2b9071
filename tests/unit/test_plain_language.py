"""Tests for the style of docstrings, comments and constants, in Python and JavaScript.

The number of violations may only decrease.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"site", "debs", "work", "node_modules", "build"}  # Folders that are not in the repository.
FOLDERS = ("runtime", "studio", "clients", "benchmarks", "tools", "spaces", "tests", "assets/js")
MAX_FIRST_LINE_CHARS = 88
OPENING = re.compile(r"(What|Whether|How|Where|Who|When|That|Which|Whose|Why)\b")
WORDS = re.compile(r"\b(anew|meanwhile|but for|in the place of|goes on|go on|lets go)\b", re.IGNORECASE)
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|fmt:|nosec|ruff|pylint)")
FRAGMENT = re.compile(r"[a-z](?![\w./-]*\.py\b)")
CONSTANT = re.compile(r"_?(MOST|LEAST)(_[A-Z]+)*")
QUOTED = re.compile(r'`[^`]*`|"[^"]*"|\{[^{}]*\}')
# Quoted text is replaced by an underscore before this pattern is used.
ANOTHER_SENTENCE = re.compile(r"; |(?<!\bet al)[.!?] +[A-Z(\[0-9_]")
JS_BLOCK_COMMENT = re.compile(r"/\*\*?(?P<text>.*?)\*/", re.DOTALL)
JS_LINE_COMMENT = re.compile(r"(?P<indent>^ *|[;{},)\]] +)//(?P<text>.*)$", re.MULTILINE)
JS_TAG = re.compile(r"(?:^|\s)@[a-z]+\b")
JS_CONSTANT = re.compile(r"\bconst ([A-Z_]+)\b")


class Source(NamedTuple):
    """Docstrings, comments and names of one file, which the rules check."""

    docstrings: list[str]
    comments: list[str]
    constants: set[str]


def read_python(text: str) -> Source:
    nodes = list(ast.walk(ast.parse(text)))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented)]
    return Source(docstrings, list(python_comments(text)), {node.id for node in nodes if isinstance(node, ast.Name)})


def python_comments(text: str) -> Iterator[str]:
    """Yield the comments, and the first line of a comment of several lines."""
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            is_trailing = bool(token.line[: token.start[1]].strip())
            if is_trailing or token.start[0] != last + 1:
                yield token.string.removeprefix("#").strip()
            last = -1 if is_trailing else token.start[0]


def read_js(text: str) -> Source:
    """Return the block comments before their first tag as docstrings, and the other comments."""
    blocks = []
    for comment in JS_BLOCK_COMMENT.finditer(text):
        lines = "\n".join(line.strip().removeprefix("*").strip() for line in comment["text"].split("\n"))
        blocks.append(JS_TAG.split(lines, maxsplit=1)[0].strip())
    comments, last = [], -2
    code = JS_BLOCK_COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for comment in JS_LINE_COMMENT.finditer(code):
        line = code.count("\n", 0, comment.start("text"))
        if comment["indent"].strip() or line != last + 1:
            comments.append(comment["text"].strip())
        last = -2 if comment["indent"].strip() else line
    return Source(blocks, [*blocks, *comments], set(JS_CONSTANT.findall(code)))


def openings(source: Source) -> int:
    return sum(bool(OPENING.match(text)) for text in source.docstrings)


def long_first_lines(source: Source) -> int:
    return sum(len(text.split("\n")[0]) > MAX_FIRST_LINE_CHARS for text in source.docstrings)


def several_sentences(source: Source) -> int:
    firsts = (QUOTED.sub("_", text.split("\n")[0]) for text in source.docstrings)
    return sum(bool(ANOTHER_SENTENCE.search(first)) for first in firsts)


def fragments(source: Source) -> int:
    return sum(bool(FRAGMENT.match(text)) for text in source.comments)


def words(source: Source) -> int:
    return sum(len(WORDS.findall(text)) for text in {*source.docstrings, *source.comments})


def constants(source: Source) -> int:
    return sum(bool(CONSTANT.fullmatch(name)) for name in source.constants)


# Number of violations of each rule. Lower it after a correction and never raise it.
ALLOWED: dict[Callable[[Source], int], int] = dict.fromkeys(
    (openings, long_first_lines, several_sentences, fragments, words, constants), 0
)
PLANTED = {
    openings: ('def f():\n    """Whether the row is done."""\n', "/** Whether the row is done. */\n"),
    long_first_lines: (f'"""{"Long " * 18}line."""\n', f"/**\n * {'Long ' * 18}line.\n */\n"),
    several_sentences: ('"""Return the row. None: no row."""\n', "/** Return the row; null if there is none. */\n"),
    fragments: ("LINE_BYTES = 2**25  # of an answer\n", "const LINE_BYTES = 1e6; // of an answer\n"),
    words: ("x = 1  # It is measured anew.\n", "// It is measured anew.\n"),
    constants: ("MOST_ROWS = 8\n", "const MOST_ROWS = 8;\n"),
}
PLAIN_PYTHON = 'def f():\n    """Return the number of slots.\n\n    They are free.\n    """\n\n\nMAX_ROWS = 8\n'
PLAIN_JS = "/**\n * Return the number of slots.\n *\n * They are free. @returns {number} of rows\n */\n// A reason.\n"


@cache
def sources() -> dict[str, Source]:
    """Read all Python and JavaScript files, and return their docstrings and comments by path."""
    found = {}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.[jp][sy]"))):
        if not OTHERS & set(path.relative_to(ROOT).parts):
            read = read_python if path.suffix == ".py" else read_js
            found[str(path.relative_to(ROOT))] = read(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize("rule", ALLOWED)
def test_style_violations_do_not_increase(rule: Callable[[Source], int]) -> None:
    found = {path: rule(source) for path, source in sources().items()}
    assert len(found) > 1000
    most = sorted(found.items(), key=lambda item: -item[1])[:5]
    assert sum(found.values()) <= ALLOWED[rule], f"{rule.__name__} increased; most are in {most}"
    assert sum(found.values()) == ALLOWED[rule], f"{rule.__name__} decreased: lower its number to {sum(found.values())}"


@pytest.mark.parametrize("rule", PLANTED)
def test_each_rule_detects_a_planted_violation(rule: Callable[[Source], int]) -> None:
    python, js = PLANTED[rule]
    assert rule(read_python(python)) == rule(read_js(js)) == 1
    assert rule(read_python(PLAIN_PYTHON)) == rule(read_js(PLAIN_JS)) == 0
