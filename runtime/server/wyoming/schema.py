"""Client events of Wyoming."""

from __future__ import annotations

from typing import Any, Literal

from runtime.errors import InvalidConfig
from runtime.request import Reference, SpeechRequest
from runtime.server.session.speech_fields import SynthesisOptions
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import Name, StrictFields, Text, checked, given, language_of


class Voice(StrictFields):
    """Voice selection.

    ``name`` is the name of a voice, or of a model together with ``speaker``.
    """

    name: Name | None = None
    language: Name | None = None
    speaker: Name | None = None

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Return the speech request for a text in this voice."""
        return SynthesisOptions(language=language_of(self.language)).request(text, resolved, reference)


class Describe(StrictFields):
    """Request for the server's description."""


class Ping(StrictFields):
    """Ping, to which the response repeats its text."""

    text: Text | None = None


class SynthesizeStart(StrictFields):
    """Start of a streamed text."""

    voice: Voice | None = None
    text_format: Literal["text"] | None = None


class Synthesize(SynthesizeStart):
    """Complete text.

    After a streamed text, it repeats that text for servers without streaming.
    """

    text: Text


class SynthesizeChunk(StrictFields):
    """Next piece of a streamed text."""

    text: Text


class SynthesizeStop(StrictFields):
    """End of a streamed text."""


Event = Describe | Ping | Synthesize | SynthesizeStart | SynthesizeChunk | SynthesizeStop
EVENTS: dict[str, type[Event]] = {
    "describe": Describe,
    "ping": Ping,
    "synthesize": Synthesize,
    "synthesize-start": SynthesizeStart,
    "synthesize-chunk": SynthesizeChunk,
    "synthesize-stop": SynthesizeStop,
}


def read(fields: dict[str, Any]) -> Event | None:
    """Validate an event, ``{"type": …, "data": {…}}``.

    Returns:
        None for events of other services, which are ignored.

    Raises:
        InvalidConfig: A field has the wrong type or is out of range.
    """
    kind, data = fields.get("type"), fields.get("data")
    if not isinstance(kind, str):
        raise InvalidConfig(where="type", why="it must be a string", param="type")
    if kind not in EVENTS:
        return None
    if not isinstance(data, dict):
        raise InvalidConfig(where="data", why="it must be an object", param="data")
    return checked(EVENTS[kind], given(data))
