"""Estimates by script and symbols if a text can be spoken, and how long that takes."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import regex

# Frames (80 ms) that a unit of text takes when it is spoken at an ordinary pace: about 15 letters a second for
# alphabets, 4.5 syllables a second for scripts with a syllable or more a character; a digit is read as a word.
LETTER_FRAMES = 0.85
SYLLABLE_FRAMES = 2.8
DIGIT_FRAMES = 4.0
FRAME_S = 0.08
FASTEST = 0.4  # share of the ordinary time that letters and syllables take at least, pauses and marks left out
PACES = (0.15, 3.0)  # a text's ordinary time over a recording's: beyond them nobody said it, 2 and 45 letters a second

BEAT_FRAMES = 3  # of a pause at a comma, a quarter of a second
MAX_BEATS = 20
# Not emoji, of which a checkpoint knows no names, nor symbols that draw a line, such as === and ###.
NAMED_SYMBOL = regex.compile(r"[\p{Sc}%‰&@§°℃℉№©®™×÷±√∞≈≠≤≥]|(?<![+#=])[+#=](?![+#=])")
GAP_FRAMES = 2  # Least pause between two sentences.
_SENTENCE_GAP = re.compile(r"[^\W_][.!?…]+\s+(?=[^\W_])|[。！？]\s*(?=[^\W_])|[^\W_]\s*\n\s*\n")
SENTENCE_MARK = re.compile(r"[.!?…。！？]")
DRAWN_OUT = re.compile(r"(\w)\1{2,}")
SYLLABIC = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI ", "ETHIOPIC")


def is_speakable(text: str) -> bool:
    """Return True if a letter or a digit is in the text, with which a word begins."""
    return any(character.isalnum() for character in text)


def is_readable(text: str) -> bool:
    """Return True if there is something to read in the text: a letter, a digit, or a symbol that has a name.

    Such a symbol begins no word, so that it moves no cut; only if it is alone it is spoken alone.
    """
    return is_speakable(text) or NAMED_SYMBOL.search(text) is not None


def expected_frames(text: str) -> int:
    """Frames of a text that is spoken at an ordinary pace."""
    return round(sum(_frames(character) for character in text))


def least_frames(text: str) -> int:
    """Frames below which a text cannot have been said.

    A digit counts as a letter, since a long number is fewer words; of a letter that is drawn out two count. Between
    sentences there is a short pause, without which a voice that says one of three short sentences would pass.
    """
    spoken = [each for each in DRAWN_OUT.sub(r"\1\1", text) if each.isalnum()]
    frames = FASTEST * sum(LETTER_FRAMES if each.isdigit() else _frames(each) for each in spoken)
    return int(frames + GAP_FRAMES * len(_SENTENCE_GAP.findall(text.strip())))


def pause_frames(text: str) -> int:
    """Frames of silence in the rhythm of a text without a word: a beat for each run of marks, two for a sentence's."""
    beats = sum(1 + bool(SENTENCE_MARK.search(run)) for run in text.split())
    return BEAT_FRAMES * min(max(1, beats), MAX_BEATS)


def expected_seconds(text: str) -> float:
    """Seconds of a text that is spoken at an ordinary pace."""
    return expected_frames(text) * FRAME_S


def is_another_text(transcript: str, seconds: float) -> bool:
    """By its length the transcript cannot be what a recording with so many seconds of speech says."""
    slowest, fastest = PACES
    return not slowest <= expected_seconds(transcript) / seconds <= fastest


@lru_cache(4096)
def _frames(character: str) -> float:
    if character.isdigit():
        return DIGIT_FRAMES
    if not character.isascii() and unicodedata.name(character, "").startswith(SYLLABIC):
        return SYLLABLE_FRAMES
    return LETTER_FRAMES
