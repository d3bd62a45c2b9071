"""Language codes of other servers' clients, and the names used by checkpoints."""

from __future__ import annotations

LANGUAGES = {
    "zh": "chinese",
    "en": "english",
    "ja": "japanese",
    "ko": "korean",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "pt": "portuguese",
    "es": "spanish",
    "it": "italian",
}
_CODES = {name: code for code, name in LANGUAGES.items()}


def language_of(code: str | None) -> str:
    """Return the language of a code with or without a region; other text is returned unchanged."""
    word = code or "auto"
    return LANGUAGES.get(word.lower().replace("_", "-").split("-")[0], word)


def code_of(language: str) -> str | None:
    """Return the code (ISO 639-1, and so BCP 47) of a language; None for ``auto``, and for one without a code here."""
    return _CODES.get(language.lower())
