"""Context of Cartesia's API: one streamed text and the audio of this text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.server.cartesia.schema import Generation
from runtime.server.session.utterance import ChosenVoice, StreamedText, Utterance
from runtime.shared.audio.pcm_formats import PcmWriter
from runtime.shared.text.inline_tags import ReadText
from runtime.shared.text.word_times import WordTimes


@dataclass(slots=True, eq=False, kw_only=True)
class Segment(Utterance[Generation]):
    """Text between two flushes of a context, which is spoken as a separate engine request."""

    context: Context
    flush_id: int = 1
    is_flushed: bool = False  # True if a flush_done message is sent after the audio of the segment.


@dataclass(slots=True, eq=False, kw_only=True)
class Context:
    """Context of Cartesia's API: one streamed text and the audio of this text."""

    name: str
    # Settings in the first message of the context. Later messages cannot change the voice, language or format.
    voice: ChosenVoice[Generation]
    writer: PcmWriter
    words: WordTimes | None  # Times of the words, or None if the client did not request them.
    read: ReadText  # Filter that removes tags from the text before it is passed to `words`.
    text: StreamedText
    last_input_at: float  # Time at which the context was opened or the last audio chunk was queued.
    # Open segments. The first segment is being spoken, and the last segment receives text.
    segments: deque[Segment] = field(default_factory=deque)
    is_complete: bool = False  # True if all text of the context has arrived.
    # Time since which all audio of the received text has been sent, or None while received text is still being spoken.
    short_since: float | None = None
    notes: list[str] = field(default_factory=list)  # Notes about ignored fields and speech problems.
    pending_samples: int = 0  # Number of samples in the resampler. They will be in the next message.

    @property
    def head(self) -> Segment:
        return self.segments[0]

    @property
    def pause_due(self) -> float | None:
        """Return the time at which received text is spoken if no more text arrives.

        The time is in seconds on the session's clock. The result is None if no text waits for a pause of the client.
        """
        return self.text.pause.due if self.voice.is_ready and len(self.segments) == 1 else None

    def note(self, notes: Iterable[str]) -> None:
        """Add notes to the final message of the context, without duplicates."""
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def expires_at(self, expiry_s: float) -> float | None:
        """Return the time at which the context expires if no more text arrives, or None."""
        if self.short_since is None or self.is_complete or len(self.segments) > 1:
            return None
        return self.short_since + expiry_s

    def end_segment(self, *, is_flushed: bool = False) -> None:
        """Complete the last segment, and append a new segment that receives further text."""
        last = self.segments[-1]
        last.is_complete = True
        last.is_flushed = is_flushed
        flush_id = last.flush_id + is_flushed
        self.segments.append(Segment(last.commands, self.voice, self.text, context=self, flush_id=flush_id))
