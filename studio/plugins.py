"""Helpers of plug-ins for speech: installed packages, and codes of the languages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

CODES = {
    **{"chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de"},
    **{"french": "fr", "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it"},
}


def is_installed(package: str) -> bool:
    """True if a package is installed, by its distribution name; nothing is imported."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def code_of(language: str | None) -> str | None:
    """Return the code of a language by its name or code, in any case; None for anything else, which means any."""
    word = (language or "").lower()
    return CODES.get(word, word if word in CODES.values() else None)
