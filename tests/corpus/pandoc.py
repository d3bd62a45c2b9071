"""Function that returns the text of a document as pandoc extracts it, for comparisons."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

PANDOC = shutil.which("pandoc")
needs_pandoc = pytest.mark.skipif(PANDOC is None, reason="pandoc is not installed")


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).replace("\u00ad", ""))


def pandoc_words(path: Path) -> list[str]:
    """Return the words of a document from pandoc's plain text output.

    Tracked changes are accepted.
    """
    command = [PANDOC or "", "--wrap=none", "--track-changes=accept", "-t", "plain", str(path)]
    return words_of(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode())
