"""Commands that a dialect's session returns to its connection, and messages for the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.request import SpeechRequest


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a request to the engine; its events reach `Session.on_speech` with this number."""

    utterance: int
    request: SpeechRequest


@dataclass(frozen=True, slots=True)
class Append:
    """Append text to an utterance that was submitted with `open_text`."""

    utterance: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Flush:
    """Speak all of the utterance's text so far."""

    utterance: int


@dataclass(frozen=True, slots=True)
class FinishText:
    """Mark the utterance's text as complete."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Played:
    """Acknowledge the playback position of the utterance."""

    utterance: int
    ms: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the utterance and release its slot; no response is needed."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Decode:
    """Decode reference audio off the event loop; a Reference without text comes back by `on_reference`."""

    upload: int
    ref_audio: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recall:
    """Read a stored voice off the event loop; its Reference comes back by `on_reference`.

    `param` is the field of the voice in the client's message.
    """

    upload: int
    voice_id: str
    param: str = "voice"


Command = Submit | Append | Flush | FinishText | Played | Cancel | Decode | Recall


@dataclass(frozen=True, slots=True)
class TextMessage:
    """A JSON message."""

    text: str
    is_terminal: bool = False
    number: int | None = None  # Number of the utterance whose audio the message carries (base64), if any.
    samples: int = 0


@dataclass(frozen=True, slots=True)
class AudioMessage:
    """A binary message."""

    data: bytes = field(repr=False)
    number: int  # Number of the utterance.
    samples: int


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """JSON message whose audio is not encoded yet. A client's messages are encoded in order."""

    make: Callable[[], str] = field(repr=False)  # Runs on a worker thread; an empty result sends nothing.
    number: int  # Number of the utterance.
    samples: int


@dataclass(frozen=True, slots=True)
class Close:
    """Start the closing handshake; nothing follows."""

    code: int
    reason: str = ""


Outgoing = TextMessage | AudioMessage | EncodedMessage | Close
