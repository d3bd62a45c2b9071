"""Texts that the benchmarks speak: 1000 English sentences, and texts in two languages.

All engines and runs use the same texts. No text occurs twice in a run, so caches have no effect. The number of output
frames is computed from the text or set by the dataset, so all engines generate audio of the same length.
"""

from __future__ import annotations

import random
from enum import StrEnum
from functools import cache

COUNT = 1000
FRAMES_PER_S = 12.5
# Duration of English speech in seconds: a constant for each text, and an addition for each character. The mean duration
# is 4.3 s, as in the dataset Seed-TTS EN.
LEAD_S, CHARACTER_S = 0.35, 0.062
MIN_LONG_CHARS = 140
SHORT_FRAMES, LONG_FRAMES = 20, 80

ADJECTIVES = (
    *("old", "young", "quiet", "cheerful", "patient", "careful", "tired", "clever", "curious", "gentle", "stubborn"),
    *("famous", "lonely", "honest", "restless", "thoughtful", "nervous", "proud"),
)
PEOPLE = (
    *("gardener", "pilot", "teacher", "baker", "sailor", "painter", "doctor", "carpenter", "singer", "farmer"),
    *("driver", "librarian", "neighbour", "traveller", "fisherman", "engineer", "stranger", "captain", "tailor"),
    "student",
)
ACTIONS = (
    *("waited", "listened", "worked", "slept", "whistled", "rested", "stopped", "laughed", "wrote a letter"),
    *("told a story", "found a key", "drank some tea", "repaired a clock", "watched the rain", "counted the boats"),
    *("opened a window", "lost a glove", "read the paper", "carried a ladder", "sang a song"),
)
PLACES = (
    *("near the harbour", "behind the station", "under the bridge", "at the market", "in the garden", "by the river"),
    *("on the hill", "beside the church", "in the kitchen", "at the corner", "across the street", "in the museum"),
    *("outside the village", "on the platform", "along the beach", "in the library", "above the bakery"),
)
OPENINGS = (
    *("Yesterday", "This morning", "In the evening", "Last winter", "Before dinner", "On Sunday", "After the storm"),
    *("Every summer", "Late at night", "Once again"),
)
LINKS = ("and", "but", "while", "because", "until", "so", "although")
CHINESE = (
    ("昨天", "今天早上", "晚上", "去年冬天", "晚饭前", "星期天", "暴风雨之后", "每年夏天"),
    ("老师", "船长", "医生", "面包师", "园丁", "画家", "司机", "学生", "渔夫", "邻居", "裁缝", "歌手"),
    ("在港口边", "在车站后面", "在桥下", "在花园里", "在河边", "在山上", "在厨房里", "在图书馆里"),
    ("等了很久", "写了一封信", "喝了一杯茶", "修好了钟", "打开了窗户", "丢了一只手套", "唱了一首歌", "看着雨"),
)


class Dataset(StrEnum):
    """Set of texts to speak, for example short English texts."""

    SENTENCES = "sentences"
    ENGLISH_SHORT = "en-short"
    ENGLISH_LONG = "en-long"
    CHINESE_SHORT = "zh-short"
    CHINESE_LONG = "zh-long"

    @property
    def language(self) -> str:
        """Return the name of the texts' language in checkpoints, for example `english`."""
        return "chinese" if self.startswith("zh") else "english"

    def text(self, number: int) -> str:
        """Return the text with the index `number`.

        Different numbers return different texts.
        """
        if self.language == "chinese":
            return _chinese(number, clauses=1 if self is Dataset.CHINESE_SHORT else 4)
        texts = _shortest_first()[: COUNT // 4] if self is Dataset.ENGLISH_SHORT else sentences()
        again, place = divmod(number, len(texts))
        text = texts[place]
        while self is Dataset.ENGLISH_LONG and len(text) < MIN_LONG_CHARS:
            place = (place + 1) % len(texts)
            text += f" {texts[place]}"
        return f"{text[:-1]}, {again + 1} times." if again else text

    def frames(self, text: str) -> int:
        """Return the number of audio frames (80 ms each) that are generated for a text."""
        if self is Dataset.SENTENCES:
            return frames_of(text)
        return SHORT_FRAMES if self.endswith("short") else LONG_FRAMES


@cache
def sentences() -> tuple[str, ...]:
    """Return 1000 English sentences of 20 to 160 characters.

    The sentences are the same on every machine.
    """
    texts: dict[str, None] = {}
    number = 0
    while len(texts) < COUNT:
        texts[_sentence(random.Random(f"prompt {number}"))] = None
        number += 1
    return tuple(texts)


def frames_of(text: str) -> int:
    """Return the number of audio frames (80 ms each) that the speech of an English text needs.

    The speech rate is that of the data set Seed-TTS EN.
    """
    return round(FRAMES_PER_S * (LEAD_S + CHARACTER_S * len(text)))


def single_tokens() -> tuple[str, ...]:
    """Return the words that the synthetic tokenizer of the tests stores as single tokens.

    With these words, texts have a realistic number of tokens. Each word starts with a space or a capital letter, so no
    word contains another word. The two words of the chat template are an exception, and are last in the list.
    """
    words = {
        word for phrases in (ADJECTIVES, PEOPLE, ACTIONS, PLACES, LINKS) for text in phrases for word in text.split()
    }
    openings = {*" ".join(OPENINGS).split(), "The"}
    later = {word for opening in OPENINGS for word in opening.split()[1:]}
    spaced = sorted({*words, *later, "the"})
    return (*(f" {word}" for word in spaced), *sorted(openings - later), "assistant", "user")


@cache
def _shortest_first() -> tuple[str, ...]:
    return tuple(sorted(sentences(), key=len))


def _sentence(draw: random.Random) -> str:
    opening = f"{draw.choice(OPENINGS)} " if draw.random() < 0.4 else ""
    clauses = draw.choices((1, 2, 3), (8, 4, 1))[0]
    text = opening + _clause(draw)
    for _ in range(clauses - 1):
        text += f", {draw.choice(LINKS)} {_clause(draw)}"
    return text[0].upper() + text[1:] + "."


def _clause(draw: random.Random) -> str:
    adjective = f"{draw.choice(ADJECTIVES)} " if draw.random() < 0.6 else ""
    place = f" {draw.choice(PLACES)}" if draw.random() < 0.6 else ""
    return f"the {adjective}{draw.choice(PEOPLE)} {draw.choice(ACTIONS)}{place}"


def _chinese(number: int, clauses: int) -> str:
    draw = random.Random(f"chinese {number} {clauses}")
    sentences = ("".join(draw.choice(phrases) for phrases in CHINESE) for _ in range(clauses))
    return f"第{number + 1}天，" + "，".join(sentences) + "。"
