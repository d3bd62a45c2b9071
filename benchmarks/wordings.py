"""Short and long texts in English and Chinese, no two alike: what a table of languages and lengths is spoken with.

A reply of each kind is equally long on every machine: its frames follow from the kind alone, since random weights do
not end by themselves and a kind is compared with itself only.
"""

from __future__ import annotations

import random
from enum import StrEnum
from functools import cache
from itertools import count

from benchmarks.prompts import sentences

SHORTEST_LONG = 140  # characters of an English long text

CHINESE_PEOPLE = ("老师", "船长", "医生", "面包师", "园丁", "画家", "司机", "学生", "渔夫", "邻居", "裁缝", "歌手")
CHINESE_DEEDS = (
    "等了很久",
    "写了一封信",
    "喝了一杯茶",
    "修好了钟",
    "打开了窗户",
    "丢了一只手套",
    "唱了一首歌",
    "看着雨",
)
CHINESE_PLACES = ("在港口边", "在车站后面", "在桥下", "在花园里", "在河边", "在山上", "在厨房里", "在图书馆里")
CHINESE_TIMES = ("昨天", "今天早上", "晚上", "去年冬天", "晚饭前", "星期天", "暴风雨之后", "每年夏天")


class Wording(StrEnum):
    """Language and length of a text."""

    ENGLISH_SHORT = "en-short"
    ENGLISH_LONG = "en-long"
    CHINESE_SHORT = "zh-short"
    CHINESE_LONG = "zh-long"

    @property
    def language(self) -> str:
        """As checkpoints name it."""
        return "english" if self.startswith("en") else "chinese"

    @property
    def frames(self) -> int:
        """Frames (80 ms) that a text is spoken for: 1.6 s, or 6.4."""
        return 20 if self.endswith("short") else 80

    def text(self, number: int) -> str:
        """The text of that number; no two numbers have the same."""
        if self is Wording.ENGLISH_SHORT:
            return _short_english(number)
        if self is Wording.ENGLISH_LONG:
            return _long_english(number)
        return _chinese(number, clauses=1 if self is Wording.CHINESE_SHORT else 4)


@cache
def _shortest_first() -> tuple[str, ...]:
    return tuple(sorted(sentences(), key=len))


def _numbered(text: str, again: int) -> str:
    """A table's text with another ending, past the table's end."""
    return f"{text[:-1]}, {again + 1} times." if again else text


def _short_english(number: int) -> str:
    again, place = divmod(number, len(sentences()) // 4)
    return _numbered(_shortest_first()[place], again)


def _long_english(number: int) -> str:
    texts = sentences()
    again, place = divmod(number, len(texts))
    parts: list[str] = []
    for step in count():
        parts.append(texts[(place + step) % len(texts)])
        if sum(map(len, parts)) >= SHORTEST_LONG:
            break
    return _numbered(" ".join(parts), again)


def _chinese(number: int, clauses: int) -> str:
    """Who did what, where and when, so many times; the first clause counts, so that none comes twice."""
    draw = random.Random(f"chinese {number} {clauses}")
    said = [
        draw.choice(CHINESE_TIMES)
        + draw.choice(CHINESE_PEOPLE)
        + draw.choice(CHINESE_PLACES)
        + draw.choice(CHINESE_DEEDS)
        for _ in range(clauses)
    ]
    return f"第{number + 1}天，" + "，".join(said) + "。"
