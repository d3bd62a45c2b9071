"""Estimation of a text's speaking time, and detection of text that cannot be spoken."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import regex

# Number of frames (80 ms each) that a character takes at normal speed. Alphabetic scripts have about 15 letters per
# second, and syllabic scripts about 4.5 characters per second. A digit takes as long as a word.
LETTER_FRAMES = 0.85
SYLLABLE_FRAMES = 2.8
DIGIT_FRAMES = 4.0
FRAME_S = 0.08
# Minimum duration of speech as a fraction of the normal duration. Pauses and punctuation are not counted.
MIN_DURATION_RATIO = 0.4
# Plausible ratios between the normal and the recorded duration. They correspond to 2 to 45 letters per second.
PACE_RANGE = (0.15, 3.0)

BEAT_FRAMES = 3  # Number of frames of the pause at a comma (a quarter of a second).
MAX_BEATS = 20
# Pattern of symbols that are spoken. It excludes emoji, which checkpoints do not speak, and repeated symbols such as
# === and ###.
NAMED_SYMBOL = regex.compile(r"[\p{Sc}%‰&@§°℃℉№©®™×÷±√∞≈≠≤≥]|(?<![+#=])[+#=](?![+#=])")
GAP_FRAMES = 2  # Minimum number of frames of the pause between two sentences.
_SENTENCE_GAP = re.compile(r"[^\W_][.!?…]+\s+(?=[^\W_])|[。！？]\s*(?=[^\W_])|[^\W_]\s*\n\s*\n")
SENTENCE_MARK = re.compile(r"[.!?…。！？]")
DRAWN_OUT = re.compile(r"(\w)\1{2,}")
SYLLABIC = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI ", "ETHIOPIC")


def is_speakable(text: str) -> bool:
    """True if the text has a letter or a digit."""
    return any(map(str.isalnum, text))


def is_readable(text: str) -> bool:
    """True if the text has a letter, a digit, or a symbol with a spoken name, such as "%".

    A symbol is not a word and does not affect how a text is split. It is spoken alone only if the text has no words.
    """
    return is_speakable(text) or NAMED_SYMBOL.search(text) is not None


def expected_frames(text: str) -> int:
    """Return the number of codec frames that a text needs at normal speed."""
    return round(sum(_frames(character) for character in text))


def min_frames(text: str) -> int:
    """Return the minimum number of codec frames in which the complete text can be spoken.

    A digit counts as a letter, because a long number may be spoken in a few words. A repeated letter counts at most
    twice. Pauses between sentences are included, because otherwise the audio of one sentence could be long enough for
    three short sentences.
    """
    spoken = [each for each in DRAWN_OUT.sub(r"\1\1", text) if each.isalnum()]
    frames = MIN_DURATION_RATIO * sum(LETTER_FRAMES if each.isdigit() else _frames(each) for each in spoken)
    return int(frames + GAP_FRAMES * len(_SENTENCE_GAP.findall(text.strip())))


def pause_frames(text: str) -> int:
    """Return the length in codec frames of the pause for a text without words.

    Each group of punctuation marks adds `BEAT_FRAMES`, or twice as many if it contains a mark that ends a sentence.
    """
    beats = sum(1 + bool(SENTENCE_MARK.search(run)) for run in text.split())
    return BEAT_FRAMES * min(max(1, beats), MAX_BEATS)


def expected_seconds(text: str) -> float:
    """Return the duration of a text in seconds at normal speed."""
    return expected_frames(text) * FRAME_S


def is_another_text(transcript: str, seconds: float) -> bool:
    """True if a transcript is too long or too short for the duration of the speech.

    Args:
        transcript: Text that is said to be spoken.
        seconds: Duration of the speech in seconds.
    """
    slowest, fastest = PACE_RANGE
    return not slowest <= expected_seconds(transcript) / seconds <= fastest


@lru_cache(4096)
def _frames(character: str) -> float:
    if character.isdigit():
        return DIGIT_FRAMES
    if not character.isascii() and unicodedata.name(character, "").startswith(SYLLABIC):
        return SYLLABLE_FRAMES
    return LETTER_FRAMES
