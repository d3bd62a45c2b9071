"""Tests for splitting texts into segments: boundaries, completeness and any text chunks."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.engine.text.splitting import CLAUSE_FRAMES, SegmentSplitter
from runtime.request import Split
from runtime.shared.text.speech_rate import expected_frames, is_readable
from tests.support.examples import examples

PAGE = Path(__file__).resolve().parents[3] / "docs" / "api.md"


def split_whole(text: str, split: Split, longest: int | None = None) -> list[str]:
    """Return the segments of a complete text."""
    splitter = SegmentSplitter(split, longest)
    return splitter.feed_text(text) + splitter.flush()


def bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


def fed(chunks: list[str], split: Split, longest: int | None = None) -> list[str]:
    splitter = SegmentSplitter(split, longest)
    return [part for chunk in chunks for part in splitter.feed_text(chunk)] + splitter.flush()


# Texts in which "|" marks the positions of the splits.
SENTENCES = (
    "One sentence.",
    "It rained. |Nobody came! |Why? |Well… |Then it ended.",
    "Pi is 3.14 and so on. |Yes.",
    "Use tools, e.g. Hammers, i.e. something heavy. |Fine.",
    "Dr. Smith met Mrs. Jones and Prof. Lee. |They spoke.",
    "J. R. R. Tolkien wrote it. |J.-P. Sartre did not.",
    "Wait... what is it? |Stop... |Then go.",
    "See https://example.com/a.b?c=d.e for more. |Or mail me@example.org. |Bye.",
    "1. Apples are red. |2. Pears are green.",
    "Am 3. Oktober ist Feiertag. |Am 24. Dezember auch.",
    "It happened in 1999. |Then it stopped.",
    "No. 5 is alive. |I said no. |Then I left. |On Dec. 24 it snowed.",
    "Apples, pears, etc. are fruit. |Apples, pears, etc. |They are sweet.",
    "Acme Inc., Jones Jr., and others signed. |Good.",
    'He said "Stop." |She said (quietly: no.) |They left.',
    '"What?" he asked. |"Nothing!" |"Really?"',
    "Really?! |No way!!! |what? |ok.",
    "all small. no capitals here. it is one.",
    "First line\nsecond line. |Third.",
    "A title\n\n|a paragraph\r\n\r\n|another \n \n |last",
    "Great! |😀 Next one. |— And a dash. |- Item.",
    "**Bold.** |Plain. |*Slanted!* |`Code.` |End.",
    "你好。|今天的声音很清楚！|是吗？|我们慢慢地说……不急。",
    "他说：“你好。”|她走了。|“再见。”|「好。」|完",
    "版本3.5发布了。|价格是3.14元。",
    "Hello!|你好。|Bye.",
    "こんにちは。|元気ですか？|はい、元気です。",
    "안녕하세요. |오늘은 날씨가 좋네요! |그렇죠?",
    "Guten Tag. |„Ja.“ |Er ging z. B. nach Hause. |Hr. Müller, d.h. er, kam bzw. Blieb.",
    "« Bonjour ! » |Il partit. |Ça va ? |Oui.",
    "Привет. |Как дела? |Т. е. Хорошо. |Ул. Ленина длинная.",
    "¿Qué tal? |¡Bien! |La Sra. López vino.",
    "Buongiorno. |Il dott. Rossi è qui. |Olá. |Tudo bem?",
    "「本当に？」と言った。|「はい。」|彼は笑った。|『行く！』って聞いた。|「ええ。」という声。|「うそ。」|ところが本当だ。",
    '“真的吗？”他说。|“走吧！”小明问道。|“好。”|我们走了。|"你好吗？"他问我。|她走了。|“他说好。”|「嗎？」她說：好。|“嗯。”|问题在于钱。',
    '"정말?"라고 물었다. |"가자!" 하고 외쳤다. |"네." |그는 웃었다.',
    "「待て！」と",
    "Ends with dots ... |And again . . .",
    "U.S. Army men came at 5 p.m.",
)


@pytest.mark.parametrize("marked", SENTENCES)
def test_text_is_split_into_sentences(marked: str) -> None:
    expected = [part.strip() for part in marked.split("|")]
    assert split_whole(marked.replace("|", ""), Split.SENTENCE) == expected
    assert fed([*marked.replace("|", "")], Split.SENTENCE) == expected


def test_documented_examples_of_text_splitting_are_correct() -> None:
    examples = PAGE.read_text(encoding="utf-8").split("\n### Where a text is cut\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`.+`) \| (`.+`) \|$", examples, re.MULTILINE)
    assert len(rows) >= 5
    for text, parts in rows:
        assert split_whole(text.strip("`"), Split.SENTENCE) == re.findall("`(.+?)`", parts)


CLAUSES = (
    "Yes, of course, I will come, |since you ask so nicely. |Good.",
    "When the rain had stopped; |we went out: nobody was there.",
    "When the rain had stopped; |we went out to see it: |nobody was there.",
    "He came back in the evening — |nobody knew why – and left again.",
    "The price is 1,000,000 dollars at 10:30, |or so they say in the city.",
    "A well-known but not so old man-made thing",
    "今天早上天气很好，|我们一起去公园散步；|路上遇到朋友。|好，我们走。",
    "りんご、みかん、|ぶどう、バナナを買いました。",
)


@pytest.mark.parametrize("marked", CLAUSES)
def test_text_is_split_into_clauses_of_a_minimum_length(marked: str) -> None:
    expected = [part.strip() for part in marked.split("|")]
    assert split_whole(marked.replace("|", ""), Split.CLAUSE) == expected
    assert fed([*marked.replace("|", "")], Split.CLAUSE) == expected


def test_split_none_emits_one_segment_at_the_end_of_the_text() -> None:
    splitter = SegmentSplitter(Split.NONE)
    assert splitter.feed_text("One. Two. ") == []
    assert splitter.feed_text("Three.\n\nFour.") == []
    assert splitter.flush() == ["One. Two. Three.\n\nFour."]


@pytest.mark.parametrize("split", Split)
def test_single_sentence_is_one_segment_for_every_split_setting(split: Split) -> None:
    assert split_whole("  The harbour was quiet.\n", split) == ["The harbour was quiet."]


def test_split_auto_keeps_text_received_at_once_as_one_segment() -> None:
    assert split_whole("One. Two! Three.\n\nFour.", Split.AUTO) == ["One. Two! Three.\n\nFour."]


def test_split_auto_emits_a_sentence_when_a_later_message_has_text() -> None:
    splitter = SegmentSplitter(Split.AUTO)
    assert splitter.feed_text("One. Two.") == []
    assert splitter.feed_text("") == []
    assert splitter.feed_text("  ") == []
    assert splitter.feed_text("Three. Four") == ["One.", "Two."]
    assert splitter.feed_text(". Five. Six") == ["Three."]
    assert splitter.feed_text(" seven.") == ["Four.", "Five."]
    assert splitter.flush() == ["Six seven."]


def test_split_auto_splits_text_streamed_by_token_into_sentences() -> None:
    text = "It rained. Nobody came! Why? Dr. Smith knew."
    tokens = re.findall(r"\s*\w+|[^\w\s]", text)
    assert fed(tokens, Split.AUTO) == split_whole(text, Split.SENTENCE)


def test_sentence_is_emitted_when_the_next_sentence_begins() -> None:
    splitter = SegmentSplitter(Split.SENTENCE)
    assert [splitter.feed_text(chunk) for chunk in ("It rained", ".", '" ', "(", "N", "obody came.")] == [
        *([[]] * 4),
        ['It rained."'],
        [],
    ]
    assert splitter.flush() == ["(Nobody came."]


def test_flush_emits_the_buffered_text() -> None:
    splitter = SegmentSplitter(Split.SENTENCE)
    assert splitter.flush() == []
    assert splitter.feed_text("It was Dr. ") == []
    assert splitter.flush() == ["It was Dr."]
    assert splitter.feed_text(" Smith who") == []
    assert splitter.flush() == ["Smith who"]
    assert splitter.feed_text("... ") == []
    assert splitter.feed_text("came. And") == ["... came."]
    assert splitter.flush() == ["And"]
    assert splitter.flush() == []


@pytest.mark.parametrize("split", Split)
def test_punctuation_alone_is_not_a_segment(split: Split) -> None:
    assert split_whole(" ... — !? \n\n 😀 ", split) == []
    assert split_whole('... "Go! — !? \n\n 😀 ', split) == ['... "Go! — !? \n\n 😀']


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("symbol", [*"€$£¥₿%‰&+=°@#§×™№"])
def test_symbol_with_a_spoken_name_is_a_segment_if_the_text_has_no_words(symbol: str, split: Split) -> None:
    assert split_whole(f" {symbol}! ", split) == [f"{symbol}!"]
    assert split_whole(f"Go. {symbol} Stop. {symbol}", Split.SENTENCE) == ["Go.", f"{symbol} Stop. {symbol}"]
    assert split_whole(3 * f"{symbol} ", split, 2) == [symbol, symbol, symbol]


@pytest.mark.parametrize("marks", ["...", "—", "***", "###", "===", "+++", "~~", "|", "😀", "❤️", "\ufffd"])
def test_punctuation_line_breaks_and_emoji_are_not_a_segment(marks: str) -> None:
    assert split_whole(marks, Split.AUTO) == []


@pytest.mark.parametrize(
    ("text", "longest", "parts"),
    [
        ("One two. Three four. Five six seven.", 22, ["One two. Three four.", "Five six seven."]),
        ("When the rain had gone, nobody was there", 30, ["When the rain had gone,", "nobody was there"]),
        ("One two. Three", 8, ["One two.", "Three"]),
        ("One two. Three", 7, ["One", "two.", "Three"]),
        ("When the rain had gone, nobody was there", 22, ["When the rain had", "gone, nobody was there"]),
        ("It rained. When the sun came out, we left.", 36, ["It rained.", "When the sun came out, we left."]),
        ("one two three four", 9, ["one two", "three", "four"]),
        ("one two three", 7, ["one two", "three"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("你好我的声音", 4, ["你好我的", "声音"]),
        ("abcde\u0301f", 5, ["abcd", "e\u0301f"]),
        ("abc.....", 5, ["ab", "c...."]),
        ("a.......", 3, ["a.."]),
        (".......a", 3, ["a"]),
    ],
)
def test_no_segment_exceeds_the_maximum_length(text: str, longest: int, parts: list[str]) -> None:
    assert split_whole(text, Split.NONE, longest) == parts
    assert split_whole(text, Split.AUTO, longest) == parts


def test_overlong_sentence_is_emitted_in_pieces() -> None:
    splitter = SegmentSplitter(Split.SENTENCE, 10)
    assert splitter.feed_text("one two ") == []
    assert splitter.feed_text("th") == []
    assert splitter.feed_text("r") == ["one two"]
    assert splitter.feed_text("ee four") == []
    assert splitter.flush() == ["three four"]


MIXED = ("word", "Dr", "e.g", "no", "12", "3.14", "A", "я", "好", "한", "ก็", "e\u0301", "😀", "\u200d", "http://x.y?z")
SIGNS = (
    *".!?…。！？,;:，；：、—–-\"”“」「»«)(*_'",
    "。」",
    "と",
    "他说",
    "\n",
    "\n\n",
    "\r\n",
    "...",
    "\u00a0",
    "\x1c",
)
anything = st.characters(exclude_categories=("Cs",))
pieces = st.lists(st.sampled_from([*MIXED, *SIGNS, *[" "] * 12]) | anything, max_size=40)
longests = st.none() | st.integers(1, 40)


@settings(max_examples=examples(400), deadline=None)
@example(chunks=[*"Well, it was long ago, and far"], split=Split.CLAUSE, longest=12)
@given(chunks=pieces, split=st.sampled_from([Split.SENTENCE, Split.CLAUSE, Split.NONE]), longest=longests)
def test_chunking_does_not_change_the_segments(chunks: list[str], split: Split, longest: int | None) -> None:
    text = "".join(chunks)
    whole = split_whole(text, split, longest)
    assert fed(chunks, split, longest) == whole
    assert fed([*text], split, longest) == whole


@settings(max_examples=examples(400), deadline=None)
@given(chunks=pieces, split=st.sampled_from(Split), longest=longests)
def test_segments_are_speakable_and_contain_the_complete_text(
    chunks: list[str], split: Split, longest: int | None
) -> None:
    parts = fed(chunks, split, longest)
    text = "".join(chunks)
    for part in parts:
        assert part == part.strip()
        assert is_readable(part)
        assert longest is None or len(part) <= longest
    spoken = [character for character in text if character.isalnum()]
    assert [character for part in parts for character in part if character.isalnum()] == spoken
    if longest is None and spoken:
        assert bare("".join(parts)) == bare(text)


@settings(max_examples=examples(300), deadline=None)
@given(chunks=pieces, split=st.sampled_from(Split), longest=st.none() | st.integers(8, 40))
def test_segment_is_not_split_again(chunks: list[str], split: Split, longest: int | None) -> None:
    for part in fed(chunks, split, longest):
        assert split_whole(part, split, longest) == [part]


@settings(max_examples=examples(200), deadline=None)
@given(chunks=pieces, flushes=st.lists(st.booleans(), min_size=40, max_size=40))
def test_flushes_lose_no_word(chunks: list[str], flushes: list[bool]) -> None:
    splitter = SegmentSplitter(Split.SENTENCE)
    parts: list[str] = []
    for chunk, flush in zip(chunks, flushes, strict=False):
        parts += splitter.feed_text(chunk)
        parts += splitter.flush() if flush else []
    parts += splitter.flush()
    letters = [character for character in "".join(chunks) if character.isalnum()]
    assert [character for part in parts for character in part if character.isalnum()] == letters


@settings(max_examples=examples(200), deadline=None)
@given(chunks=pieces)
def test_only_the_last_clause_of_a_sentence_may_be_short(chunks: list[str]) -> None:
    text = "".join(chunks)
    for sentence in split_whole(text, Split.SENTENCE):
        for clause in split_whole(sentence, Split.CLAUSE)[:-1]:
            assert expected_frames(clause) >= CLAUSE_FRAMES


def test_thousands_of_small_text_chunks_are_split_quickly() -> None:
    started = time.thread_time()
    splitter = SegmentSplitter(Split.SENTENCE)
    for _ in range(20_000):
        assert splitter.feed_text("a ") == []
    assert len(splitter.flush()) == 1
    assert time.thread_time() - started < 5
