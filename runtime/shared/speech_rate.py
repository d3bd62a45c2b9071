"""Estimation of a text's speaking time, and of texts that cannot be spoken, by script and symbols."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import regex

# Frames (80 ms) per character at an ordinary pace: about 15 letters per second in alphabets, and 4.5 syllables per
# second in scripts with one or more syllables per character. A digit is spoken as a word.
LETTER_FRAMES = 0.85
SYLLABLE_FRAMES = 2.8
DIGIT_FRAMES = 4.0
FRAME_S = 0.08
FASTEST = 0.4  # Minimum share of the ordinary time of letters and syllables, without pauses and punctuation.
PACES = (0.15, 3.0)  # Plausible ratios of a text's ordinary time to a recording's: 2 to 45 letters per second.

BEAT_FRAMES = 3  # Frames of the pause at a comma, a quarter of a second.
MAX_BEATS = 20
# Symbols with spoken names. Excludes emoji, which checkpoints cannot name, and lines of symbols such as === and ###.
NAMED_SYMBOL = regex.compile(r"[\p{Sc}%‰&@§°℃℉№©®™×÷±√∞≈≠≤≥]|(?<![+#=])[+#=](?![+#=])")
GAP_FRAMES = 2  # Minimum pause between two sentences.
_SENTENCE_GAP = re.compile(r"[^\W_][.!?…]+\s+(?=[^\W_])|[。！？]\s*(?=[^\W_])|[^\W_]\s*\n\s*\n")
SENTENCE_MARK = re.compile(r"[.!?…。！？]")
DRAWN_OUT = re.compile(r"(\w)\1{2,}")
SYLLABIC = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI ", "ETHIOPIC")


def is_speakable(text: str) -> bool:
    """Return True if the text has a letter or a digit, which starts a word."""
    return any(character.isalnum() for character in text)


def is_readable(text: str) -> bool:
    """Return True if the text has a letter, a digit, or a symbol with a spoken name.

    Such a symbol starts no word and changes no cut; it forms a part only if there are no words.
    """
    return is_speakable(text) or NAMED_SYMBOL.search(text) is not None


def expected_frames(text: str) -> int:
    """Return the frames of a text at an ordinary pace."""
    return round(sum(_frames(character) for character in text))


def least_frames(text: str) -> int:
    """Return the minimum frames in which a text can have been spoken completely.

    A digit counts as a letter, because a long number has fewer words. A repeated letter counts at most twice. Pauses
    between sentences are included; without them, one of three short sentences would be long enough.
    """
    spoken = [each for each in DRAWN_OUT.sub(r"\1\1", text) if each.isalnum()]
    frames = FASTEST * sum(LETTER_FRAMES if each.isdigit() else _frames(each) for each in spoken)
    return int(frames + GAP_FRAMES * len(_SENTENCE_GAP.findall(text.strip())))


def pause_frames(text: str) -> int:
    """Return the pause for a text without words: one beat per run of marks, two for a sentence mark."""
    beats = sum(1 + bool(SENTENCE_MARK.search(run)) for run in text.split())
    return BEAT_FRAMES * min(max(1, beats), MAX_BEATS)


def expected_seconds(text: str) -> float:
    """Return the seconds of a text at an ordinary pace."""
    return expected_frames(text) * FRAME_S


def is_another_text(transcript: str, seconds: float) -> bool:
    """True if the transcript's length is implausible for a recording with these seconds of speech."""
    slowest, fastest = PACES
    return not slowest <= expected_seconds(transcript) / seconds <= fastest


@lru_cache(4096)
def _frames(character: str) -> float:
    if character.isdigit():
        return DIGIT_FRAMES
    if not character.isascii() and unicodedata.name(character, "").startswith(SYLLABIC):
        return SYLLABLE_FRAMES
    return LETTER_FRAMES
