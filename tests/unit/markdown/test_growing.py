"""Tests for the Markdown filter on streamed text, compared with markdown-it."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.markdown.growing import MAX_CONTEXT_LINES, GrowingMarkdown
from runtime.markdown.growing_inline import MAX_HELD_BRACKETS, MAX_HELD_CHARS
from tests.unit.markdown.twin import same_words, spoken

ANSWER = """# Two ways to boil an egg

There are **two** ways, *both* of them `easy`: see [the book](https://example.com/eggs_and_*more* "Eggs") or
<https://www.example.org/a?b=c>. Don't ~~burn~~ yourself! It takes 2 * 3 minutes &mdash; or so\\*.

1. **Cold** water
   - salt
   - an egg!
2. Hot water:

   ```python
   def boil(egg):

       return "**egg**"
   ```
3. Wait

> Patience
> is all.

| Size | Minutes |
|:-----|--------:|
| S    | 4       |
| L \\| XL | **6** |

---

![An egg](egg.png) <b>Enjoy</b> snake_case_name at http://a.b/c.

The end
=======
- [x] done
"""
SAID = """Two ways to boil an egg.

There are two ways, both of them easy: see the book or
www.example.org. Don't burn yourself! It takes 2 * 3 minutes — or so*.

1. Cold water.
salt.
an egg!
2. Hot water:
3. Wait.

Patience
is all.

Size, Minutes.
S, 4.
L | XL, 6.

An egg Enjoy snake_case_name at a.b.

The end.

done."""

ATOMS = (
    *("\n", "\n\n", " ", "  ", "    ", "\t", "\r\n", "\r", "- ", "* ", "+ ", "1. ", "2) ", "> ", "# ", "#", "- [x] "),
    *("```", "```py\n", "~~~", "`", "``", "*", "**", "***", "_", "__", "~~", "[", "]", "](", "](u)", "(", ")", "!["),
    *("<", "<b>", "</b>", "<br>", "<https://a.b/c>", "&amp;", "&", ";", "\\", "\\*", "!", "---", "===", "- - -", "|"),
    *("| a | b |", "word", "two words", "a", "x y", "http", "https://x.com/a_b*c", "www.e.org.", ":", "[a]: http://x"),
    *("[^1]", "[^", "[^n]: ", "[!NOTE]", "> [!tip]\n", "^"),
    *("5", "é", "中文", "。", "“", ".", ",", "'", "="),
)
LINES = st.tuples(
    st.sampled_from(["", "", "  ", "    ", "> ", "- ", "1. ", "3. ", "* ", "    - "]),
    st.sampled_from(["", "", "  ", "- ", "> ", "2. "]),
    st.sampled_from(
        [
            "word",
            "**b** c",
            "*x",
            "y*",
            "# H",
            "---",
            "```",
            "~~~",
            "",
            "[^1]: n",
            "[!NOTE]",
            "[l](u) z",
            "`c",
            "d`",
            "| a | b",
        ]
    ),
).map(lambda parts: "".join(parts) + "\n")
DOCUMENTS = st.one_of(
    st.lists(st.sampled_from(ATOMS), max_size=24).map("".join), st.lists(LINES, max_size=14).map("".join)
)


def said(*pieces: str) -> str:
    growing = GrowingMarkdown()
    return "".join([*map(growing.feed_text, pieces), growing.finish()])


def cut(text: str, *places: int) -> list[str]:
    ends = sorted(place % (len(text) + 1) for place in places)
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def test_markdown_syntax_is_not_spoken() -> None:
    assert said(ANSWER) == SAID
    assert same_words(spoken(ANSWER), SAID)


@pytest.mark.slow
def test_text_split_at_any_position_gives_the_same_output() -> None:
    for place in range(len(ANSWER)):
        assert said(*cut(ANSWER, place)) == SAID
    for size in range(1, 8):
        assert said(*(ANSWER[start : start + size] for start in range(0, len(ANSWER), size))) == SAID


@given(DOCUMENTS, st.lists(st.integers(0, 1000), max_size=4))
@example("- - ```\n    x\n\n  y\n", [3])
@example("*a _b* c_ `d [e](f g", [5])
@example("<https://a.b/c>~~2) \r\n\r\nend", [1, 16])
def test_any_chunking_gives_the_output_of_the_complete_text(text: str, places: list[int]) -> None:
    whole = said(text)
    assert said(*cut(text, *places)) == whole
    assert said(*text) == whole
    assert text.count("[") > MAX_HELD_BRACKETS or same_words(whole, spoken(text))


@given(
    st.lists(
        st.sampled_from(
            [
                "Hello",
                "there.",
                "How",
                "are",
                "you?",
                "I'm",
                "fine,",
                "2",
                "or",
                "3",
                "(or",
                "4)",
                "-",
                "yes!",
                "Ça",
                "va",
                "?",
            ]
        )
    )
)
def test_plain_text_is_unchanged(words: list[str]) -> None:
    text = "Well, " + " ".join(words)
    assert said(text) == text
    assert said(*(f"{word} " for word in text.split(" "))) == f"{text} "


@pytest.mark.parametrize(
    "text", ["2 * 3 * 4 = 24", "#5 is alive", "Hi #5", "a_b_c", "AT&T & co", "1 < 2", "x [1] y", "~5 km"]
)
def test_text_resembling_markdown_is_kept(text: str) -> None:
    assert said(text) == said(*text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2*3*4", "234"),  # CommonMark treats these asterisks as emphasis.
        ("**never closed", "**never closed"),
        ("    indented is text", "indented is text"),
        ("<p>Hi</p>", "Hi"),
        ("a<br>b", "a b"),
        ('a <break time="1s"/> *b*', 'a <break time="1s"/> b'),
        ("看[这里](http://x)的**重要**内容。", "看这里的重要内容。"),
        ("# 标题", "标题。"),
        ("- “Yes.”\n- no", "“Yes.”\nno."),
        ("~~~\ncode\n~~~\ntext", "text"),
        ("[1]: https://example.com 'Title'", "."),
        ("[Tom]: hello there", "[Tom]: hello there"),
        ("https://user@example.com:80/a/b?c=d).", "example.com)."),
        ("Hi ![a *cat*](x), hi![b](y)", "Hi a cat, hi!b"),
        ("---", "."),
        ("```\ncode\n```", "."),
        ("", ""),
        (" \n", ""),
    ],
)
def test_markdown_elements_become_their_spoken_form(text: str, words: str) -> None:
    assert said(text) == said(*text) == words


def test_plain_words_are_emitted_immediately() -> None:
    growing = GrowingMarkdown()
    for piece in ("Good", " mor", "ning.", " How", " are", " you?", "\nI am", " fine!", " - really"):
        assert growing.feed_text(piece) == piece


def test_only_possible_markdown_syntax_is_buffered() -> None:
    growing = GrowingMarkdown()
    pieces = (
        "A *",
        "*bold",
        "** word",
        " and [a",
        " link](u",
        "rl) here. ",
        "*",
        " ",
        "x\n",
        "-",
        " item",
        "\n",
        "#",
        " T\n",
    )
    kwargs = [growing.feed_text(piece) for piece in pieces]
    assert kwargs == [
        "A ",
        "",
        "bold word",
        " and ",
        "",
        "a link here. ",
        "",
        "* ",
        "x",
        "",
        "\n\nitem",
        "",
        "",
        ".\n\nT.",
    ]


def test_flush_emits_the_buffer_and_text_may_continue_the_line() -> None:
    growing = GrowingMarkdown()
    assert growing.feed_text("It is **bold and") == "It is "
    assert growing.flush() == "**bold and"
    assert growing.feed_text(" goes on") == " goes on"
    assert growing.flush() == ""
    assert growing.feed_text("\n\n12") == ""
    assert growing.flush() == "\n\n12"
    assert growing.feed_text(" eggs\n# A ti") == " eggs"
    assert growing.flush() == "\n\nA ti"
    assert growing.feed_text("tle\nSee https://a.b/") == "tle.\n\nSee "
    assert growing.flush() == "a.b"
    assert growing.feed_text(" now\n```\ncode. ") == " now"
    assert growing.flush() == ""
    assert growing.feed_text("\n```\n| a | b") == ""
    assert growing.flush() == "\n\na, b."
    assert growing.finish() == ""


def test_unclosed_emphasis_delays_text_only_briefly() -> None:
    growing = GrowingMarkdown()
    held, longest = 0, 0
    for _ in range(300):
        held = 0 if growing.feed_text("*never ends ") else held + 12
        longest = max(longest, held)
    assert longest <= MAX_HELD_CHARS + 12


LONG = 20_000
HARD = {
    "plain": "plain words go on ",
    "marks": "some **bold** words, `code` and a [link](http://x.y/z) ",
    "unclosed": "*a plain words go on ",
    "lines": "plain words\n",
    "list": "- plain words\n",
    "nested": "  - plain words\n",
    "quotation": "> a\n>\n",
    "code": "code code\n",
    "rows": "| a | b |\n",
    "address": "a/b,",
    "brackets": "[",
    "rule": "-",
}


@pytest.mark.slow("brackets", "quotation", "nested")
@pytest.mark.parametrize("kind", HARD)
def test_markdown_filter_time_is_linear_in_the_text(kind: str) -> None:
    """A text of ten times the length takes at most thirty times as long."""
    begin = {"nested": "- a\n", "code": "```\n", "address": "http://x.y/"}.get(kind, "")

    def seconds(length: int) -> float:
        text = begin + HARD[kind] * (length // len(HARD[kind]))
        growing, start = GrowingMarkdown(), time.thread_time()
        for place in range(0, len(text), 5):
            growing.feed_text(text[place : place + 5])
        growing.finish()
        return time.thread_time() - start

    seconds(LONG // 10)
    assert seconds(LONG) < 30 * seconds(LONG // 10) + 0.1


def test_deeply_nested_lists_are_still_spoken() -> None:
    text = "- a\n" + "".join(f"  - item {number}\n" for number in range(3 * MAX_CONTEXT_LINES))
    assert said(text).split() == spoken(text).split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("> [!NOTE]\n> Back up *first*.", "Note.\n\nBack up first."),
        ("- a\n\n  > [!warning]  \n  > Hot.", "a.\nWarning.\nHot."),
        ("> [!faq]-\n> Is it?", "Faq.\n\nIs it?"),
        ("> [!TIP] x", "[!TIP] x"),
        ("> a\n> [!TIP]", "a\n[!TIP]"),
        ("[!NOTE]", "[!NOTE]"),
        ("Yes.[^1] No.[^big-note]", "Yes. No."),
        ("One[^1].\n\n[^1]: The note.\nlazily.\n\n    Still *it*.\nlazily.\n\nTwo.", "One.\n\nTwo."),
        ("One[^1].\n[^1]: The note.\n[^b]: Other.\n# Two", "One.\n\nTwo."),
        ("> One[^1].\n> [^1]: Note.\n>\n>     More.\n> \n> Two.", "One.\n\nTwo."),
        ("[^1]: Note.\n---\nTwo.", "Two."),
        ("One\n\n[^1]: Note.\n- \nlazily.\n\nTwo.", "One\n\nTwo."),
        ("[^a-z] is not [^ b] nor [^]", "[^a-z] is not [^ b] nor [^]"),
    ],
)
def test_alert_markers_become_a_word_and_footnotes_are_left_out(text: str, words: str) -> None:
    assert said(text) == said(*text) == words
