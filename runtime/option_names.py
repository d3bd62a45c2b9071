"""Command-line options that correspond to request fields, for error messages."""

from __future__ import annotations

import re

from runtime.errors import SpeechError

# For each request field in an error message, the corresponding option of `voicewright say`.
OPTIONS = {
    "ref_audio": "--ref-audio",
    "ref_text": "--ref-text",
    "x_vector_only_mode": "--x-vector-only",
    "non_streaming_mode": "--layout",
    "max_frames": "--max-frames",
    "task_type": "--mode",
}
# Fields whose names are also English words. They are replaced only where the text uses them as a field name.
WORDS = {
    "seed": "--seed",
    "voice": "--voice",
    "language": "--language",
    "instruct": "--instruct",
    "instructions": "--instruct",
    "text": "the text",
}
FIELDS = re.compile(rf"\b({'|'.join(OPTIONS)})\b")


def in_options(message: str) -> str:
    """Replace field names in a message with command-line options."""
    return FIELDS.sub(lambda found: OPTIONS[found[0]], message)


def message_with_options(error: SpeechError) -> str:
    """Return an error message with command-line options instead of field names."""
    where = error.facts.get("where")
    named = WORDS.get(where) if isinstance(where, str) else None
    message = in_options(error.sentence.format(**{**error.facts, "where": named}) if named else str(error))
    # Messages without a field name start with a capital letter or a path.
    return message[0].upper() + message[1:] if named else message
