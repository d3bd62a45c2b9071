"""Context of the native protocol: voice, text, playback position and dialogue turns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from runtime.request import SAMPLE_RATE, Finished
from runtime.server.native.schema import SessionConfig
from runtime.server.session.utterance import ChosenVoice, Utterance
from runtime.server.voices.voice_resolver import ResolvedVoice

_CHANNELS = 2**16


@dataclass(frozen=True, slots=True)
class ReadyTurn:
    """Validated turn of a dialogue.

    `voice` is None if the turn uses the voice of the context.
    """

    text: str  # Text to speak, which the text filter has already processed.
    voice: tuple[SessionConfig, ResolvedVoice] | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class NativeUtterance(Utterance[SessionConfig]):
    """Utterance of an open context in the native protocol.

    docs/api.md lists the states of a context.
    """

    keeps_pieces: bool = True
    messages: int = 0  # Number of audio messages that were queued for this utterance.
    played_ms: float | None = None  # Playback position in ms that the client has reported last.
    # Fields that are only used for dialogues.
    configured_voice: ChosenVoice[SessionConfig] | None = None  # Default voice of the turns.
    current_turn: ReadyTurn | None = None
    turn: int = 0
    turn_start: int = 0
    turns: deque[ReadyTurn] = field(default_factory=deque)
    turn_pause_samples: int = 0
    turn_ends: list[Finished] = field(default_factory=list)
    busy_until: float | None = None  # Time at which a refused turn is submitted again, or None.
    retries_until: float = 0.0

    @property
    def channel(self) -> int:
        return self.number % _CHANNELS

    @property
    def turn_played_ms(self) -> float:
        """Return the playback position in milliseconds from the start of the current turn."""
        return max(0.0, (self.played_ms or 0.0) - self.turn_start * 1000 / SAMPLE_RATE)

    def begin_turn(self, turn: ReadyTurn, voice: ChosenVoice[SessionConfig]) -> None:
        """Queue the text of a dialogue turn as a new request with `voice`."""
        self.voice, self.current_turn = voice, turn
        self.is_submitted = self.is_end_sent = False
        self.is_complete = True
        self.queued.clear()
        self.queue_text(turn.text)

    @property
    def labelled(self) -> bool:
        return self.voice.config.frames == "labelled"

    @property
    def voice_name(self) -> str | None:
        """Return the name of the speaker or stored voice, or None for another kind of voice."""
        return self.voice.config.voice if self.voice.resolved.stored else self.voice.resolved.speaker
