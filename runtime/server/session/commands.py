"""Commands from a session to the engine, and messages from a session to the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.request import SpeechRequest


@dataclass(frozen=True, slots=True)
class Submit:
    """Command to submit a request to the engine.

    The engine's events are passed to `Dialect.on_speech`, together with the number of the utterance.
    """

    utterance: int
    request: SpeechRequest


@dataclass(frozen=True, slots=True)
class Append:
    """Command to append text to an utterance that was submitted with `open_text`."""

    utterance: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Flush:
    """Command to speak all text that the engine has received for an utterance."""

    utterance: int


@dataclass(frozen=True, slots=True)
class FinishText:
    """Command to mark the streamed text of an utterance as complete."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Played:
    """Command to report the playback position of an utterance to the engine."""

    utterance: int
    ms: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Command to cancel an utterance and release its slot."""

    utterance: int


@dataclass(frozen=True, slots=True)
class DecodeReference:
    """Command to decode reference audio on a worker thread.

    The result is a Reference without a transcript, or an error. It is passed to `Dialect.on_reference`.
    """

    upload: int
    ref_audio: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReadStoredVoice:
    """Command to read a stored voice on a worker thread.

    The result is a Reference or an error. It is passed to `Dialect.on_reference`. `param` is the name of the voice
    field in the client's message.
    """

    upload: int
    voice_id: str
    param: str = "voice"


Command = Submit | Append | Flush | FinishText | Played | Cancel | DecodeReference | ReadStoredVoice


@dataclass(frozen=True, slots=True)
class TextMessage:
    """JSON message that is sent to the client."""

    text: str
    is_terminal: bool = False
    # Number of the utterance whose base64 audio is in the message, or None for a message without audio.
    number: int | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class AudioMessage:
    """Binary message with audio that is sent to the client."""

    data: bytes = field(repr=False)
    number: int  # Number of the utterance to which the audio belongs.
    samples: int


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """JSON message with audio that a worker thread must encode before sending.

    The messages of a client are encoded in order.
    """

    # Function that runs on a worker thread and returns the text of the message. If the text is empty, no message is
    # sent.
    make: Callable[[], str] = field(repr=False)
    number: int  # Number of the utterance to which the audio belongs.
    samples: int


@dataclass(frozen=True, slots=True)
class Close:
    """Last message to the client, which starts the WebSocket close handshake."""

    code: int
    reason: str = ""


Outgoing = TextMessage | AudioMessage | EncodedMessage | Close
