"""Aligner for English, based on pocketsphinx and its bundled model (the extra ``align``)."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from pocketsphinx import Decoder

from runtime.shared.audio.samples import DecodedAudio, resample
from studio.aligning.plugin import Placed

RATE_HZ = 16_000  # Sample rate of the model.
FRAME_RATE_HZ = 100
MIN_ENGLISH_SHARE = 0.8  # Fraction of known words above which a text of unknown language counts as English.

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# The most frequent phone of each letter, for words that are not in the dictionary.
LETTERS = {
    **{"a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH", "j": "JH"},
    **{"k": "K", "l": "L", "m": "M", "n": "N", "o": "AA", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T"},
    **{"u": "AH", "v": "V", "w": "W", "x": "K S", "y": "IY", "z": "Z"},
}


def align(samples: NDArray[np.float32], rate: int, text: str, language: str | None) -> list[Placed] | None:
    """Return the start and end time of every word in a recording of an English text.

    The parameters and the result are those of the protocol `Aligner`. The result is a list of words in text order.
    """
    if language not in {None, "en"}:
        return None
    # A decoder keeps added words, so each alignment creates a new decoder.
    decoder = Decoder(samprate=RATE_HZ, lm=None, loglevel="FATAL")
    words = [word for word in text.split() if any(map(str.isalnum, word))]
    spoken = [_tokens(word) for word in words]
    known = [bool(decoder.lookup_word(token)) for tokens in spoken for token in tokens]
    if not all(spoken) or (language is None and sum(known) < MIN_ENGLISH_SHARE * len(known)):
        return None  # A word has non-English letters, or too many words are unknown.
    for token in dict.fromkeys(token for tokens in spoken for token in tokens):
        if not decoder.lookup_word(token):
            decoder.add_word(token, _phones(token, decoder.lookup_word))
    decoder.set_align_text(" ".join(token for tokens in spoken for token in tokens))
    resampled = resample(DecodedAudio(samples, rate), RATE_HZ).samples
    decoder.start_utt()
    decoder.process_raw((np.clip(resampled, -1, 1) * 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    # Silence and noise have names in brackets. A number in parentheses marks a variant pronunciation.
    found = [part for part in decoder.seg() or () if part.word[0] not in "<[+"]
    if len(found) < sum(map(len, spoken)):
        return None  # The decoder did not reach the end of the text.
    segments = iter(found)
    placed: list[Placed] = []
    for word, tokens in zip(words, spoken, strict=True):
        parts = [next(segments) for _ in tokens]
        placed.append((word, parts[0].start_frame / FRAME_RATE_HZ, (parts[-1].end_frame + 1) / FRAME_RATE_HZ))
    return placed


def _tokens(word: str) -> list[str]:
    """Return a word's dictionary keys: lower case, no punctuation, split at hyphens."""
    plain = word.lower().replace("’", "'")
    return [token for part in re.findall(r"[a-z0-9']+", plain) if (token := part.strip("'"))]


def _phones(token: str, lookup: Callable[[str], str | None]) -> str:
    """Return the phones of an unknown word, derived from its digits and letters."""
    spoken = [lookup(DIGITS[int(sign)]) if sign.isdigit() else LETTERS.get(sign) for sign in token]
    return " ".join(filter(None, spoken))
