"""Tags of a take's file: that it is generated, by which model, and from which seed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from runtime.shared.encoding import COMMENT
from runtime.version import package_version

MAX_SEEDS = 32  # Seeds in the tags of a joined file.


def tags_of(record: dict[str, Any]) -> dict[str, str]:
    """Return the tags of one take's file."""
    return joined_tags([record], title_of(record), record["sha256"])


def joined_tags(records: Sequence[dict[str, Any]], title: str, sha256: str) -> dict[str, str]:
    """Return the tags of a file that several takes are joined in; ``sha256`` is of its samples, s16le at 24 kHz."""
    said = {
        "title": title,
        "comment": COMMENT,
        "software": f"Voicewright {package_version()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime(max(record["created_at"] for record in records))),
        "model": _all(model_of(record["model"]) for record in records),
        "mode": _all(record["mode"] for record in records),
        "voice": _all(record["voice"] for record in records),
        "language": _all(record["language"] for record in records),
        "seed": _all(record["seed"] for record in records),
        "sha256": sha256,
    }
    return {name: _line(value) for name, value in said.items() if value}


def title_of(record: dict[str, Any]) -> str:
    """Return a take's title: its name, or the start of its text."""
    return _line(record["name"] or record["text"][:80] or record["label"] or "Take")


def model_of(model: object) -> str:
    """Return a model as one line."""
    if isinstance(model, dict):
        parts = [model.get("id"), model.get("revision") or model.get("fingerprint")]
        return " ".join(str(part) for part in parts if part)
    return str(model or "")


def _all(values: Any) -> str:
    """Each of several values once, in their order."""
    named = [str(value) for value in dict.fromkeys(values) if value is not None and value != ""]
    return ", ".join(named[:MAX_SEEDS] + ["…"] * (len(named) > MAX_SEEDS))


def _line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
