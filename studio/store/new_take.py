"""Record of a new take from the page's fields and measurements of its audio."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np

from runtime.errors import InvalidConfig, MessageTooLarge
from runtime.request import SAMPLE_RATE
from runtime.shared.loudness import integrated
from runtime.shared.names import name_key, new_id
from studio.store.records import TakeFields


def record_of(fields: TakeFields, pcm: bytes, reference: bytes | None, most: int) -> dict[str, Any]:
    """Return the whole record; the sound may have ``most`` bytes.

    Raises:
        InvalidConfig: the sound is empty, or is not what ``fields`` say of it.
        MessageTooLarge: it is too long.
    """
    if len(pcm) > most:
        raise MessageTooLarge(what="The take's sound", size=len(pcm), limit=most)
    if not pcm or len(pcm) % 2:
        why = f"it has {len(pcm)} bytes; send whole samples of 16 bits, at least one"
        raise InvalidConfig(where="pcm", why=why, param="pcm")
    sha256 = hashlib.sha256(pcm).hexdigest()
    if fields.sha256 not in {None, sha256}:
        raise InvalidConfig(where="sha256", why="it is not that of the sound that came", param="sha256")
    if fields.samples not in {None, len(pcm) // 2}:
        why = f"it says {fields.samples} and {len(pcm) // 2} came"
        raise InvalidConfig(where="samples", why=why, param="samples")
    return {
        "id": new_id(),
        "created_at": round(time.time(), 3),
        **fields.model_dump(),
        "samples": len(pcm) // 2,
        "seconds": round(len(pcm) / 2 / SAMPLE_RATE, 3),
        "sha256": sha256,
        "lufs": integrated(np.frombuffer(pcm, "<i2")),
        "reference": None if reference is None else hashlib.sha256(reference).hexdigest(),
    }


def words_of(record: dict[str, Any]) -> str:
    """Return the text that search looks through."""
    config = record["config"]
    said = [record[name] for name in ("name", "text", "label", "voice", "language", "notes")]
    said += [config.get(name) for name in ("instruct", "instructions", "voice_description")]
    return name_key("\n".join([*(word for word in said if isinstance(word, str)), *record["tags"]]))
