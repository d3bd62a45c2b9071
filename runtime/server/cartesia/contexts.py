"""Context of Cartesia's API: one streamed text and its audio."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.server.cartesia.schema import Generation
from runtime.server.session.utterance import ChosenVoice, GrowingText, Utterance
from runtime.shared.inline_tags import ReadText
from runtime.shared.pcm_formats import PcmWriter
from runtime.shared.word_times import WordTimes


@dataclass(slots=True, eq=False, kw_only=True)
class Segment(Utterance[Generation]):
    """Text between two flushes.

    It is a separate request, so that the end of its audio is known.
    """

    context: Context
    flush_id: int = 1
    is_flushed: bool = False  # True if the client has flushed the text. The client gets a message after its audio.


@dataclass(slots=True, eq=False, kw_only=True)
class Context:
    """Context with one streamed text and one audio stream."""

    name: str
    voice: ChosenVoice[Generation]  # Settings of the first message. Voice, language and format cannot change later.
    writer: PcmWriter
    words: WordTimes | None  # None if the client has not requested word times.
    read: ReadText  # Text without tags, for which ``words`` has the times.
    text: GrowingText
    said_at: float  # Time in seconds at which the context was opened or its last chunk was queued.
    # The first segment is being spoken. The last one receives text.
    segments: deque[Segment] = field(default_factory=deque)
    is_complete: bool = False  # True if all text of the context has arrived.
    # Time in seconds at which all audio of the text so far was sent. None while text is waiting.
    short_since: float | None = None
    notes: list[str] = field(default_factory=list)  # Notes about ignored fields and faulty speech, without duplicates.
    owed_samples: int = 0  # Samples that are still in the resampler and belong to the next message.

    @property
    def head(self) -> Segment:
        return self.segments[0]

    @property
    def pause_due(self) -> float | None:
        """Return the time at which a pause makes the received text spoken.

        Returns:
            None if pauses have no effect.
        """
        return self.text.due if self.voice.is_ready and len(self.segments) == 1 else None

    def note(self, notes: Iterable[str]) -> None:
        """Add notes for the last message.

        Duplicates are dropped.
        """
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def expires_at(self, expiry_s: float) -> float | None:
        """Return the time at which the context expires without new text.

        Returns:
            None if the context cannot expire now.
        """
        if self.short_since is None or self.is_complete or len(self.segments) > 1:
            return None
        return self.short_since + expiry_s

    def end_segment(self, *, is_flushed: bool = False) -> None:
        """End the open segment, start the next one, and increment the flush id."""
        last = self.segments[-1]
        last.is_complete = True
        last.is_flushed = is_flushed
        flush_id = last.flush_id + is_flushed
        self.segments.append(Segment(last.commands, self.voice, self.text, context=self, flush_id=flush_id))
