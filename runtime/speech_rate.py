"""Whether a text can be said, and how long that takes, by its script. Shared by engine, voices and dialects."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Frames (80 ms) that a unit of text takes when it is spoken at an ordinary pace: about 15 letters a second for
# alphabets, 4.5 syllables a second for scripts with a syllable or more a character; a digit is read as a word.
LETTER_FRAMES = 0.85
SYLLABLE_FRAMES = 2.8
DIGIT_FRAMES = 4.0
FRAME_S = 0.08

SYLLABIC = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI ", "ETHIOPIC")


def is_speakable(text: str) -> bool:
    """There is a letter or a digit in it."""
    return any(character.isalnum() for character in text)


def expected_frames(text: str) -> int:
    """Frames of a text that is spoken at an ordinary pace."""
    return round(sum(_frames(character) for character in text))


def expected_seconds(text: str) -> float:
    """Seconds of a text that is spoken at an ordinary pace."""
    return expected_frames(text) * FRAME_S


@lru_cache(4096)
def _frames(character: str) -> float:
    if character.isdigit():
        return DIGIT_FRAMES
    if not character.isascii() and unicodedata.name(character, "").startswith(SYLLABIC):
        return SYLLABLE_FRAMES
    return LETTER_FRAMES
