"""User interface texts of the page, read from assets/i18n/<language>/<room>.json.

All files in the folder of a language are merged into one object. The text `shell.language` is the language's own name.
A text that is missing in a language is taken from English.
"""

from __future__ import annotations

import json

from runtime.shipped import shipped

FOLDER = shipped("studio", "assets/i18n")
NAME = "shell.language"


def languages() -> dict[str, str]:
    """Return the names of the page's languages by language code, English first."""
    codes = sorted((path.name for path in FOLDER.iterdir() if path.is_dir()), key=lambda code: (code != "en", code))
    return {code: words(code)[NAME] for code in codes}


def words(language: str) -> dict[str, str]:
    """Return all user interface texts of one language by key.

    Raises:
        KeyError: The language does not exist.
    """
    if language not in {path.name for path in FOLDER.iterdir() if path.is_dir()}:
        raise KeyError(language)
    merged: dict[str, str] = {}
    for path in sorted((FOLDER / language).glob("*.json")):
        merged |= json.loads(path.read_text("utf-8"))
    return merged
