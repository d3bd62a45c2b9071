"""Tests for the detection of quoted speech and actions in a narration."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.markdown.narration import PartKind, split_narration

T, Q, A = PartKind.TEXT, PartKind.QUOTE, PartKind.ACTION


def split(text: str, *, quotes: bool = True, actions: bool = True) -> list[tuple[PartKind, str]]:
    return [(part.kind, part.text) for part in split_narration(text, quotes=quotes, actions=actions)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('"Come in," she said. "Sit down."', [(Q, '"Come in,"'), (T, " she said. "), (Q, '"Sit down."')]),
        ("He said: “Yes”", [(T, "He said: "), (Q, "“Yes”")]),
        ("*She smiles.* Hello!", [(A, "She smiles."), (T, " Hello!")]),
        ("Hello. *waves at him* Bye.", [(T, "Hello. "), (A, "waves at him"), (T, " Bye.")]),
        ("他说：「你好。」她走了。", [(T, "他说："), (Q, "「你好。」"), (T, "她走了。")]),
        ("Er sagte: „Ja.“ Dann ging er.", [(T, "Er sagte: "), (Q, "„Ja.“"), (T, " Dann ging er.")]),
        # Within a sentence, asterisks and quotes mark emphasis or single words, so the text is not split.
        ('The "best" coffee is *very* good.', [(T, 'The "best" coffee is *very* good.')]),
        ("**Bold.** 2 * 3 * 4, a*b*c", [(T, "**Bold.** 2 * 3 * 4, a*b*c")]),
        ('One " alone.', [(T, 'One " alone.')]),
        ('"Over two\nparagraphs."', [(T, '"Over two\nparagraphs."')]),
        ('"One." "Two."', [(Q, '"One." "Two."')]),
        ("", []),
    ],
)
def test_narration_is_split_into_quotes_actions_and_other_text(text: str, parts: list[tuple[PartKind, str]]) -> None:
    found = split(text)
    assert "".join(part for _, part in found) == "".join(part for _, part in parts)
    merged: list[tuple[PartKind, str]] = []
    for kind, part in parts:  # Consecutive parts of one kind are merged.
        merged[-1:] = (
            [(kind, merged[-1][1] + part)] if merged and merged[-1][0] is kind else [*merged[-1:], (kind, part)]
        )
    assert found == merged


def test_only_requested_quotes_or_actions_are_separated() -> None:
    text = '*He nods.* "Yes."'
    assert split(text, quotes=False) == [(A, "He nods."), (T, ' "Yes."')]
    assert split(text, actions=False) == [(T, "*He nods.* "), (Q, '"Yes."')]


@given(st.text(alphabet='ab "“”*.,\n', max_size=40))
def test_only_asterisks_are_removed_from_a_narration(text: str) -> None:
    joined = "".join(part for _, part in split(text))
    assert joined.replace("*", "") == text.replace("*", "")


@pytest.mark.parametrize("text", ['"' * 50_000, "*a" * 50_000, "“" * 50_000, '"a." ' * 10_000])
def test_narration_parsing_time_is_linear_in_the_text(text: str) -> None:
    began = time.process_time()
    split(text)
    assert time.process_time() - began < 2
