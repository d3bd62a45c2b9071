"""Context of the native protocol: voice, text and playback position."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.server.native.schema import SessionConfig
from runtime.server.session.utterance import Utterance

_CHANNELS = 2**16


@dataclass(slots=True, eq=False, kw_only=True)
class NativeUtterance(Utterance[SessionConfig]):
    """Open context; docs/api.md has the table of its states."""

    keeps_pieces: bool = True
    messages: int = 0  # Number of queued audio messages.
    played_ms: float | None = None  # Last playback position that the client has reported.

    @property
    def channel(self) -> int:
        return self.number % _CHANNELS

    @property
    def labelled(self) -> bool:
        return self.voice.config.frames == "labelled"

    @property
    def voice_name(self) -> str | None:
        """Return the name of the speaker or stored voice; None if the client has sent another value."""
        return self.voice.config.voice if self.voice.resolved.stored else self.voice.resolved.speaker
