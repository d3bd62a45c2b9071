"""Codes of the speech languages, for plug-ins."""

from __future__ import annotations

CODES = {
    **{"chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de"},
    **{"french": "fr", "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it"},
}


def code_of(language: str | None) -> str | None:
    """The code of a language by its name or its code, in any case; None for anything else, which stands for any."""
    word = (language or "").lower()
    return CODES.get(word, word if word in CODES.values() else None)
