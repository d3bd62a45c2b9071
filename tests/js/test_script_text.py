"""Tests for text parsing in the Script room: pauses, speaker names and subtitles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.js.conftest import Node


def lines(node: Node, text: str, *known: str) -> list[tuple[str | None, str]]:
    body = """async ([text, known]) => {
      const { readText } = await import('/js/script/reading.js');
      return readText(text, (name) => known.includes(name.toLowerCase())).lines;
    }"""
    return [(line["name"], line["text"]) for line in node.evaluate(body, [text, list(known)])]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The kettle is on.", [{"text": "The kettle is on."}]),
        ("One. [pause 0.5s] Two.", [{"text": "One."}, {"silence": 0.5}, {"text": "Two."}]),
        ("One[pause 300ms]two", [{"text": "One"}, {"silence": 0.3}, {"text": "two"}]),
        ("[PAUSE: 2] One [pause]", [{"silence": 2}, {"text": "One"}, {"silence": 0.5}]),
        ("One [pause 0,25 s] [pause 1s]", [{"text": "One"}, {"silence": 0.25}, {"silence": 1}]),
        ("One [pause 1s].", [{"text": "One."}, {"silence": 1}]),
        ("[pause 30s]", [{"silence": 30}]),
        ("Nothing [pause 0s] between", [{"text": "Nothing"}, {"text": "between"}]),
        ("[laughs] and [pauses]", [{"text": "[laughs] and [pauses]"}]),
        ("… ?!", []),
        ("", []),
    ],
)
def test_script_line_is_split_into_segments_and_pauses(node: Node, text: str, parts: list[dict[str, Any]]) -> None:
    assert node.call("script/line_text", "readParts", text) == {"parts": parts, "fault": None}


@pytest.mark.parametrize("fault", ["[pause for a while]", "[pause 31s]", "[pause -1s]", "[pause 0.5 minutes]"])
def test_unknown_bracket_tag_is_reported(node: Node, fault: str) -> None:
    assert node.call("script/line_text", "readParts", f"One. {fault} Two. [pause x]")["fault"] == fault


def test_paragraphs_become_lines_and_wrapped_rows_are_joined(node: Node) -> None:
    text = "The kettle\nis on.\n\n  \nSit down.\r\n\r\n水刚刚\n烧开。\n\n[pause 2s]"
    assert lines(node, text) == [
        (None, "The kettle is on."),
        (None, "Sit down."),
        (None, "水刚刚烧开。"),
        (None, "[pause 2s]"),
    ]


def test_every_row_is_a_line_if_the_text_has_no_blank_lines(node: Node) -> None:
    assert lines(node, "One.\nTwo.\n") == [(None, "One."), (None, "Two.")]


def test_speaker_name_applies_until_the_next_name(node: Node) -> None:
    text = "A room.\n\nANNA: Is it on?\nTOM: Nearly.\n\nI think so.\n\n[pause 1s]\n\n**clara:** Note: it is 10:30."
    assert lines(node, text, "clara") == [
        (None, "A room."),
        ("ANNA", "Is it on?"),
        ("TOM", "Nearly."),
        ("TOM", "I think so."),
        (None, "[pause 1s]"),
        ("clara", "Note: it is 10:30."),
    ]


def test_word_before_a_colon_is_a_name_only_if_known_or_repeated(node: Node) -> None:
    assert lines(node, "Note: it is late.\n\nhttp://example.org is a page.") == [
        (None, "Note: it is late."),
        (None, "http://example.org is a page."),
    ]
    assert lines(node, "Anna: One.\n\nTom: Two.\n\nAnna: Three.\n\nTom: Four.") == [
        ("Anna", "One."),
        ("Tom", "Two."),
        ("Anna", "Three."),
        ("Tom", "Four."),
    ]
    assert lines(node, "说书人：从前有座山。\n\n说书人：山上有座庙。") == [
        ("说书人", "从前有座山。"),
        ("说书人", "山上有座庙。"),
    ]


def test_style_in_brackets_after_the_name_is_recognised(node: Node) -> None:
    (line,) = node.call("script/reading", "readText", "ANNA (softly): Good morning.")["lines"]
    assert line == {"name": "ANNA", "instruct": "softly", "text": "Good morning."}


def test_long_paragraph_is_split_between_sentences_without_loss(node: Node) -> None:
    sentence = "The boat came back at 10.30 in the evening, and nobody on the quay said a word about it. "
    text = "ANNA: " + (sentence * 20).strip()
    read = lines(node, text)
    assert len(read) >= 3
    assert {name for name, _ in read} == {"ANNA"}
    assert all(len(piece) <= 600 and piece.endswith(".") for _, piece in read)
    assert "ANNA: " + " ".join(piece for _, piece in read) == text


def test_long_gaps_between_cues_are_pauses(node: Node) -> None:
    cues = [
        {"start": 1, "end": 2.5, "name": "ANNA"},
        {"start": 2.6, "end": 3, "name": None},
        {"start": 2.6, "end": 3, "name": "TOM"},
        {"start": 3605, "end": 3606, "name": "ANNA"},
    ]
    read = node.call("script/line_text", "cuesToLines", ["One.", "Two.", "Three.", "Four."], cues, 0.1)
    assert [(line["name"], line["text"]) for line in read] == [
        ("ANNA", "One."),
        (None, "Two."),
        ("TOM", "Three. [pause 30s]"),
        ("ANNA", "Four."),
    ]
    assert [line["starts"] for line in read] == [1, 2.6, 2.6, 3605]
    assert node.call("script/line_text", "cuesToLines", [], [], 0.4) == []


def test_style_may_be_before_or_after_the_colon(node: Node) -> None:
    read = node.call(
        "script/reading", "readText", "TOM: (warmly) Hello.\n\nANNA (low): Yes (really).\n\n(See below.) No name."
    )["lines"]
    assert [(line["name"], line["instruct"], line["text"]) for line in read] == [
        ("TOM", "warmly", "Hello."),
        ("ANNA", "low", "Yes (really)."),
        ("ANNA", "", "(See below.) No name."),
    ]


def test_sentence_without_punctuation_is_split_at_clauses_and_words(node: Node) -> None:
    clauses = "word " * 60 + "and then, "
    read = lines(node, clauses * 8)
    assert all(len(text) <= 600 for _, text in read)
    assert all(text.endswith(("then,", "word", "and")) for _, text in read)
    assert " ".join(text for _, text in read).split() == (clauses * 8).split()
    assert [len(text) for _, text in lines(node, "字" * 1500)] == [600, 600, 300]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            "The inven-\ntion of the tele-\n  phone.\n\nEnd.",
            [(None, "The invention of the telephone."), (None, "End.")],
        ),
        (
            "The inven\u2010\ntion of the tele\u00ad\nphone.\n\nEnd.",
            [(None, "The invention of the telephone."), (None, "End.")],
        ),
        ("A well-\nknown well-known man.\n\nNo -\nyes.", [(None, "A well-known well-known man."), (None, "No - yes.")]),
        ("Das Wort Donau-\nDampfer.\n\nEnde.", [(None, "Das Wort Donau- Dampfer."), (None, "Ende.")]),
        ("One.\u2028Two.\rThree.\x85Four.", [(None, "One."), (None, "Two."), (None, "Three."), (None, "Four.")]),
        ("One.\fTwo.\u2029Three.", [(None, "One."), (None, "Two."), (None, "Three.")]),
        ("\ufeffANNA: Hi.", [("ANNA", "Hi.")]),
        ("Q: What?\nA: That.", [("Q", "What?"), ("A", "That.")]),
        ("NOTE: buy milk.\n\nWARNING: no.", [(None, "NOTE: buy milk."), (None, "WARNING: no.")]),
        ("10:30 Mary: Hello\n10:31 John: Hi\nand bye", [("Mary", "Hello"), ("John", "Hi"), ("John", "and bye")]),
        ("[12/31/25, 10:30:15 PM] Mary: Hi\n[12/31/25, 10:31:02 PM] Tom S.: Yo", [("Mary", "Hi"), ("Tom S.", "Yo")]),
        ("2025-12-31 22:30 <mary> Hi\n2025-12-31 22:31 <tom> Yo", [("mary", "Hi"), ("tom", "Yo")]),
        (
            "10:30 The train leaves.\n11:00 It arrives.",
            [(None, "10:30 The train leaves."), (None, "11:00 It arrives.")],
        ),
        ("MARY\nHello there.\n\nJOHN\nHi.", [("MARY", "Hello there."), ("JOHN", "Hi.")]),
        ("MARY (V.O.)\nHello,\nyou.\n\nShe goes.", [("MARY", "Hello, you."), (None, "She goes.")]),
        (
            "INT. HOUSE - DAY\n\n@McAvoy\nHello.\n\nHe sits.",
            [(None, "INT. HOUSE - DAY"), ("McAvoy", "Hello."), (None, "He sits.")],
        ),
        (
            "CHAPTER ONE\nIt was dark.\n\nCHAPTER TWO\nIt was light.",
            [(None, "CHAPTER ONE It was dark."), (None, "CHAPTER TWO It was light.")],
        ),
        ("BBC\nsays so.\n\nEnd.", [(None, "BBC says so."), (None, "End.")]),
    ],
)
def test_chats_screenplays_and_hyphenated_words_are_parsed(
    node: Node, text: str, read: list[tuple[str | None, str]]
) -> None:
    assert lines(node, text) == read


def test_parenthetical_below_a_name_becomes_the_style(node: Node) -> None:
    (line, _) = node.call("script/reading", "readText", "MARY\n(softly)\nHello.\n\nTOM (O.S.)\nHi.")["lines"]
    assert line == {"name": "MARY", "instruct": "softly", "text": "Hello."}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Part 1\n\nIt rains.", [["Part 1", "Part 1"], ["It rains.", None]]),
        ("# Part 1\nIt rains.\n## Part 2", [["Part 1", "Part 1"], ["It rains.", None], ["Part 2", "Part 2"]]),
        (
            "# Part 1\nIt rains\nand rains.\n\nBye.",
            [["Part 1", "Part 1"], ["It rains and rains.", None], ["Bye.", None]],
        ),
        ("#weather\n\n# ", [["#weather", None], ["#", None]]),
    ],
)
def test_markdown_heading_starts_a_chapter(node: Node, text: str, expected: list[list[str | None]]) -> None:
    read = node.call("script/reading", "readText", text)["lines"]
    assert [[line["text"], line.get("chapter")] for line in read] == expected


def test_narrator_reads_a_heading_and_the_text_below_it(node: Node) -> None:
    read = node.call("script/reading", "readText", "ANNA: Hello.\n\nAgain.\n\n# Two\n\nIt rains.")["lines"]
    assert [line["name"] for line in read] == ["ANNA", "ANNA", None, None]
    (named,) = node.call("script/reading", "readText", "ANNA: # 1 fan of tea.")["lines"]
    assert named["name"] == "ANNA"


def test_differing_lines_of_two_versions_are_counted(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const versions = ['One Two', 'One Two Three', 'One Zwei', 'Two One'].map((words) => new Script({
        lines: words.split(' ').map((text, at) => ({ id: String(at), text })),
      }));
      return versions.map((other) => versions[0].countDifferences(other));
    }"""
    assert node.evaluate(body) == [0, 1, 1, 2]


def test_moved_lines_have_no_number_of_differences_and_equal_voices_do_not_differ(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const lines = ['one', 'two'].map((id) => ({ id, text: id, voice: { voice: 'clara', name: undefined } }));
      const script = new Script({ lines });
      const others = [lines, [...lines].reverse()].map((all) => new Script(JSON.parse(JSON.stringify({ lines: all }))));
      others[0].lines[1].text = 'changed';
      return others.map((other) => script.countDifferences(other));
    }"""
    assert node.evaluate(body) == [1, 0]


def test_chapter_title_of_a_heading_does_not_change_with_its_pause_and_keeps_its_form(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const long = 'A very long title of a chapter that is imported and has more than sixty characters';
      const script = new Script({ lines: [
        { id: 'short', text: 'One.', chapter: 'One' },
        { id: 'long', text: long, chapter: long },
      ] });
      for (const { id } of script.lines) script.setGap(id, 1);
      const kept = script.lines.map(({ chapter }) => chapter);
      script.change('short', { text: 'Two.' });
      return [kept[0], kept[1] === long, script.lines[0].chapter];
    }"""
    assert node.evaluate(body) == ["One", True, "Two"]


def test_chapter_title_from_the_text_follows_the_text(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const script = new Script({ lines: [
        { id: 'own', text: 'Opening', chapter: 'Opening' },
        { id: 'titled', text: 'One', chapter: 'Chapter one' },
        { id: 'plain', text: '' },
      ] });
      const change = (id, text) => script.change(id, { text });
      for (const text of ['', 'C', 'Cold open']) change('own', text);
      change('titled', 'Two');
      change('plain', 'Hello');
      return script.lines.map(({ chapter }) => chapter ?? null);
    }"""
    assert node.evaluate(body) == ["Cold open", "Chapter one", None]


@pytest.mark.parametrize(
    ("text", "chapter", "expected"),
    [
        ("One", "One", True),
        ("One.", "One", True),
        ("一。", "一", True),
        ("One day", "One", False),
        ("It rained " * 12, ("It rained " * 12)[:60], False),
        ("One", None, False),
    ],
)
def test_line_is_a_heading_if_its_text_is_the_chapter_title(
    node: Node, text: str, chapter: str | None, expected: bool
) -> None:
    line = {"text": text} if chapter is None else {"text": text, "chapter": chapter}
    assert node.call("script/document", "isHeading", line) is expected


def test_chapter_starts_with_the_next_line_if_its_first_line_is_removed(node: Node) -> None:
    body = """async () => {
      const { Script } = await import('/js/script/document.js');
      const script = new Script({ lines: [
        { id: 'one', text: 'One', chapter: 'One' },
        { id: 'rain', text: 'It rains.' },
        { id: 'two', text: 'Two', chapter: 'Two' },
        { id: 'last', text: 'Last', chapter: 'Last' },
      ] });
      const titles = () => script.lines.map(({ chapter }) => chapter ?? null);
      const found = [];
      for (const id of ['one', 'rain', 'two', 'last']) {
        const undo = script.remove(id);
        found.push(titles());
        undo();
      }
      return [...found, titles()];
    }"""
    assert node.evaluate(body) == [
        ["One", "Two", "Last"],
        ["One", "Two", "Last"],
        ["One", None, "Last"],
        ["One", None, "Two"],
        ["One", None, "Two", "Last"],
    ]
