"""Client events of Wyoming."""

from __future__ import annotations

from typing import Any, Literal

from runtime.errors import InvalidConfig
from runtime.request import Reference, SpeechRequest
from runtime.server.session.speech_fields import SynthesisOptions
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import Name, StrictFields, Text, checked, given, language_of


class Voice(StrictFields):
    """Voice selection. ``name`` is a voice's, or a model's with its ``speaker``."""

    name: Name | None = None
    language: Name | None = None
    speaker: Name | None = None

    def request(self, text: str, resolved: ResolvedVoice, reference: Reference | None) -> SpeechRequest:
        """Return the request that this makes of a text."""
        return SynthesisOptions(language=language_of(self.language)).request(text, resolved, reference)


class Describe(StrictFields):
    """Asks what there is."""


class Ping(StrictFields):
    """Asks for the same text back."""

    text: Text | None = None


class SynthesizeStart(StrictFields):
    """Begins a text that comes in pieces."""

    voice: Voice | None = None
    text_format: Literal["text"] | None = None


class Synthesize(SynthesizeStart):
    """One text. After a text in pieces, it repeats that text for servers without support for pieces."""

    text: Text


class SynthesizeChunk(StrictFields):
    """The next piece."""

    text: Text


class SynthesizeStop(StrictFields):
    """Ends the text."""


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
    """Check an event, ``{"type": …, "data": {…}}``; None for one of another service, which servers are to drop.

    Raises:
        InvalidConfig: a field of the wrong type or out of its range.
    """
    kind, data = fields.get("type"), fields.get("data")
    if not isinstance(kind, str):
        raise InvalidConfig(where="type", why="it must be a string", param="type")
    if kind not in EVENTS:
        return None
    if not isinstance(data, dict):
        raise InvalidConfig(where="data", why="it must be an object", param="data")
    return checked(EVENTS[kind], given(data))
