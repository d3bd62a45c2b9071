"""Holds an utterance of the native protocol: its voice, its text, and how far it has come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from runtime.request import Reference, SpeechRequest
from runtime.server.commands import Append, Flush
from runtime.server.lull import Lull
from runtime.server.native.schema import SessionConfig
from runtime.server.text_filter import TextFilter
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.shared.speech_rate import is_speakable

_CHANNELS = 2**16


@dataclass(slots=True, eq=False)
class Upload:
    """The reference of one session.config: sent with it or stored; None until it is decoded."""

    number: int
    context_id: str | None  # that the session.config was for
    reference: Reference | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ConfiguredVoice:
    """An accepted session.config. The audio itself is in the upload and not kept a second time."""

    config: SessionConfig
    resolved: ResolvedVoice
    upload: Upload | None = None

    @property
    def name(self) -> str | None:
        """Of the speaker or the stored voice; what else a client may have written there names no voice."""
        return self.config.voice if self.resolved.stored else self.resolved.speaker


class UtterancePhase(Enum):
    """How far an utterance has come; see the table in docs/api.md."""

    OPENING = auto()  # nothing can be spoken yet: its reference is being read, or no word has come
    READING = auto()  # the text is complete, the reference is still being read
    COMPOSING = auto()  # the engine has it, and more text may come
    SPEAKING = auto()  # the engine has all of it


@dataclass(slots=True, eq=False)
class NativeUtterance:
    """A context in flight. ``number`` is never reused, so a late event cannot reach the name's next use."""

    number: int
    context_id: str
    voice: ConfiguredVoice
    filter: TextFilter  # of its text
    lull: Lull | None = None  # in its text, after which what there is of it is spoken
    phase: UtterancePhase = UtterancePhase.OPENING
    held: deque[Append | Flush] = field(default_factory=deque)  # what the engine will be told once it can be
    chars: int = 0
    seed: int | None = None  # known from the engine's Started on
    messages: int = 0  # of sound, queued
    total_bytes: int = 0  # of sound, queued
    sent_bytes: int = 0  # of sound, taken by the socket
    played_ms: float | None = None  # as the client last reported

    @property
    def channel(self) -> int:
        return self.number % _CHANNELS

    @property
    def labelled(self) -> bool:
        return self.voice.config.frames == "labelled"

    @property
    def takes_text(self) -> bool:
        return self.phase in {UtterancePhase.OPENING, UtterancePhase.COMPOSING}

    @property
    def is_submitted(self) -> bool:
        return self.phase in {UtterancePhase.COMPOSING, UtterancePhase.SPEAKING}

    @property
    def has_voice(self) -> bool:
        """The voice is complete, so that the text may be spoken."""
        return self.voice.upload is None or self.voice.upload.reference is not None

    def first_words(self) -> str:
        """Take the held text up to the message that brings the first letter or digit; all of it where none does.

        The engine is not asked to begin with a space or a quotation mark. A flush of that is none.
        """
        words = ""
        while self.held and not is_speakable(words):
            told = self.held.popleft()
            words += told.text if isinstance(told, Append) else ""
        return words

    @property
    def has_words(self) -> bool:
        return any(is_speakable(told.text) for told in self.held if isinstance(told, Append))

    def request(self, text: str, *, open_text: bool) -> SpeechRequest:
        """The utterance as the engine takes it, as far as its text is known."""
        config, upload, reference = self.voice.config, self.voice.upload, None
        if upload is not None and (found := upload.reference) is not None:
            reference = replace(
                found,
                text=config.ref_text or found.text,
                x_vector_only=config.x_vector_only_mode or found.x_vector_only,
            )
        return replace(config.request(text, self.voice.resolved, reference), open_text=open_text)
