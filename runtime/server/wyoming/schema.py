"""Events from the client in the Wyoming protocol."""

from __future__ import annotations

from typing import Any, Literal

from runtime.errors import InvalidConfig
from runtime.request import Reference, SpeechRequest
from runtime.server.session.speech_fields import SynthesisOptions
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import Name, StrictFields, Text, language_of, validate_fields, without_nulls


class Voice(StrictFields):
    """Voice that a client of the Wyoming protocol selects.

    `name` is the name of the voice. If `speaker` is set, `speaker` is the name of the voice, and `name` is the name of
    a model.
    """

    name: Name | None = None
    language: Name | None = None
    speaker: Name | None = None

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Create the engine request for `text` with this voice."""
        return SynthesisOptions(language=language_of(self.language)).request(text, resolved, reference)


class Describe(StrictFields):
    """Event that requests the info event of the server."""


class Ping(StrictFields):
    """Ping event with a text that is echoed in the pong event."""

    text: Text | None = None


class SynthesizeStart(StrictFields):
    """Event that starts a streamed text."""

    voice: Voice | None = None
    text_format: Literal["text"] | None = None


class Synthesize(SynthesizeStart):
    """Event with a complete text.

    After a streamed text, the client sends the same text again for servers that do not support streaming.
    """

    text: Text


class SynthesizeChunk(StrictFields):
    """Event with the next piece of a streamed text."""

    text: Text


class SynthesizeStop(StrictFields):
    """Event that ends a streamed text."""


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
    """Validate an event and return it, or return None if its type is unknown.

    Args:
        fields: Event as ``{"type": …, "data": {…}}``.

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
    return validate_fields(EVENTS[kind], without_nulls(data))
