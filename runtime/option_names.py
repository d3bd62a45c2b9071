"""Command line names of settings, for error messages."""

from __future__ import annotations

import re

from runtime.errors import SpeechError

# Fields of a request that a sentence names, and the option of `voicewright say` for each.
OPTIONS = {
    "ref_audio": "--ref-audio",
    "ref_text": "--ref-text",
    "x_vector_only_mode": "--x-vector-only",
    "non_streaming_mode": "--layout",
    "max_frames": "--max-frames",
    "task_type": "--mode",
}
# Those that are words too: they are said otherwise only where they stand as a field's name.
WORDS = {
    "seed": "--seed",
    "voice": "--voice",
    "language": "--language",
    "instruct": "--instruct",
    "instructions": "--instruct",
    "text": "the text",
}
FIELDS = re.compile(rf"\b({'|'.join(OPTIONS)})\b")


def in_options(said: str) -> str:
    """Return a sentence with options in the places of fields."""
    return FIELDS.sub(lambda found: OPTIONS[found[0]], said)


def told_in_options(error: SpeechError) -> str:
    """Return the sentence of an error for whoever gave options."""
    where = error.facts.get("where")
    named = WORDS.get(where) if isinstance(where, str) else None
    said = in_options(error.sentence.format(**{**error.facts, "where": named}) if named else str(error))
    return said[0].upper() + said[1:] if named else said  # Other messages begin with a capital letter or a path.
