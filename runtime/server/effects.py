"""What a session wants done: commands for the process, messages for the client."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.request import SpeechRequest
from runtime.server.contexts import Utterance


@dataclass(frozen=True, slots=True)
class Submit:
    """Hand the request to the engine; its events come back by `Session.on_speech` under this number."""

    utterance: int
    request: SpeechRequest


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give the utterance's slot back. Nothing needs to come back."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Decode:
    """Decode reference audio off the event loop; the samples come back by `Session.on_reference`."""

    upload: int
    ref_audio: str = field(repr=False)


Command = Submit | Cancel | Decode


@dataclass(frozen=True, slots=True)
class Text:
    """A JSON message."""

    text: str
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class Sound:
    """A binary message."""

    data: bytes = field(repr=False)
    utterance: Utterance
    sound_bytes: int  # without the header


@dataclass(frozen=True, slots=True)
class Close:
    """The closing handshake; nothing follows."""

    code: int
    reason: str = ""


Outgoing = Text | Sound | Close
