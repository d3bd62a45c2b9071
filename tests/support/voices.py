"""Voices and voice prompts that tests of the voice library use."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from runtime.request import VoicePrompt
from runtime.shared.names import new_id
from runtime.voices.voice import Consent, Voice
from runtime.voices.voice_file import _checksum, write_voice


def create_voice_file(voice: Voice, **metadata: str) -> bytes:
    """Return a voice file with changed metadata and a matching checksum, as from an attacker."""
    data = write_voice(voice)
    size = int.from_bytes(data[:8], "little")
    said = {**json.loads(data[8 : 8 + size])["__metadata__"], **metadata}
    del said["sha256"]
    tensors = load(data)
    return save(tensors, {**said, "sha256": _checksum(tensors, said)})


BOMBS = {
    "an endless number": {"consent": '{"words": "yes", "who": "", "when": ' + "9" * 4000 + "}"},
    "bottomless lists": {"advice": "[" * 100_000 + "]" * 100_000},
    "bottomless objects": {"provenance": '{"a":' * 40_000 + "1" + "}" * 40_000},
    "half a character": {"provenance": r'{"a": "\ud800"}'},
    "an endless time": {"created_at": "9" * 4000},
}


def create_prompt(fingerprint: str = "abc", frames: int | None = 5) -> VoicePrompt:
    """Return a voice prompt with arbitrary values.

    Shapes: x_vector [32], codes [frames, 16].
    """
    codes = None if frames is None else np.arange(frames * 16, dtype=np.int64).reshape(frames, 16)
    return VoicePrompt(fingerprint=fingerprint, x_vector=np.linspace(-1, 1, 32, dtype=np.float32), codes=codes)


def create_voice(name: str = "Clara", samples: int = 1200, **changes: Any) -> Voice:
    """Return a voice that has a value for every field.

    The reference samples of two voices differ.
    """
    voice_id = new_id()
    made = Voice(
        id=voice_id,
        name=name,
        reference=(np.arange(samples) + int(voice_id[:3], 16)).astype(np.int16),
        language="English",
        description="calm, close",
        tags=("warm", "Erzählerin"),
        transcript="„Guten Morgen“, 你好.",
        created_at=1_795_000_000.123456,
        consent=Consent(words="I allow it.", who="Clara", when=1.5),
        provenance={"source": "recording", "model": "none"},
        advice=("Speak up.",),
        prompts={"abc": create_prompt(), "d-e_f": create_prompt("d-e_f", None)},
    )
    return replace(made, **changes)
