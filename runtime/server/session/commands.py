"""Commands and messages that a protocol session returns to its connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.request import SpeechRequest


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a request to the engine.

    Its events are passed to `Session.on_speech` with this number.
    """

    utterance: int
    request: SpeechRequest


@dataclass(frozen=True, slots=True)
class Append:
    """Append text to an utterance that was submitted with `open_text`."""

    utterance: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Flush:
    """Speak all text of the utterance received so far."""

    utterance: int


@dataclass(frozen=True, slots=True)
class FinishText:
    """Mark the text of the utterance as complete."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Played:
    """Report the playback position of the utterance to the engine."""

    utterance: int
    ms: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the utterance and release its slot.

    No response is needed.
    """

    utterance: int


@dataclass(frozen=True, slots=True)
class Decode:
    """Decode reference audio in a worker.

    The result, a Reference without text, is passed to `on_reference`.
    """

    upload: int
    ref_audio: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Recall:
    """Read a stored voice in a worker.

    Its Reference is passed to `on_reference`.

    `param` is the name of the voice field in the client's message.
    """

    upload: int
    voice_id: str
    param: str = "voice"


Command = Submit | Append | Flush | FinishText | Played | Cancel | Decode | Recall


@dataclass(frozen=True, slots=True)
class TextMessage:
    """JSON message to the client."""

    text: str
    is_terminal: bool = False
    # Number of the utterance whose audio the message contains as base64. None for other messages.
    number: int | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class AudioMessage:
    """Binary message to the client."""

    data: bytes = field(repr=False)
    number: int  # Number of the utterance.
    samples: int


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """JSON message whose audio is not encoded yet.

    The messages of a client are encoded in order.
    """

    # Function that runs on a worker thread and returns the message. An empty result is not sent.
    make: Callable[[], str] = field(repr=False)
    number: int  # Number of the utterance.
    samples: int


@dataclass(frozen=True, slots=True)
class Close:
    """Start the close handshake, after which no message follows."""

    code: int
    reason: str = ""


Outgoing = TextMessage | AudioMessage | EncodedMessage | Close
