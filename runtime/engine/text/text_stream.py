"""Text of a running request, divided into segments that are spoken one after another.

In the streaming layout without reference codes, the tokens of a segment are sent to the model while the segment is
spoken. Otherwise, a segment is spoken only after its text is complete (docs/api.md).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.engine.text.incremental_tokenizer import IncrementalTokenizer
from runtime.engine.text.rules import LongNumberSplitter, reject_control_tokens
from runtime.engine.text.splitting import SegmentSplitter, find_final_end, find_sentence_end_after
from runtime.errors import EmptyText, TextTooLong, UnreadableText
from runtime.model.text.english_normalizer import has_footnote_marks
from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.request import (
    DROPPED_STYLES,
    LEFT_OUT_SSML,
    LONG_NUMBER,
    NO_SPELLING,
    NO_TAG,
    NOTE_MARKS,
    SAMPLE_RATE,
    STRANGE_SCRIPT,
    UNREAD_TAGS,
    Split,
)
from runtime.settings import Limits
from runtime.shared.text.inline_tags import InlineTags, Item, LeftOut, NoTag, Pause, has_tag
from runtime.shared.text.scripts import find_unsupported_script
from runtime.shared.text.sentence_ends import SPOKEN, TAIL_CHARS, may_end
from runtime.shared.text.speech_rate import is_readable, is_speakable

# Number of earlier characters that are searched for the start of a tag if the request does not enable tags. The search
# only decides if the client gets a note about ignored tags.
_SHORT_TAG_CHARS = 100


@dataclass(slots=True, eq=False)
class Segment:
    """Part of a request's text that the model speaks with one prompt.

    `closed` is False while more text of the segment may arrive. `tokens` are tokens of such an open segment that the
    model has not received yet. `style` is the style of the last tag, or empty. `pause` is the silence before the
    segment in samples.
    """

    text: str
    closed: bool = True
    tokens: list[int] = field(default_factory=list)
    style: str = ""
    pause: int = 0

    @property
    def spoken(self) -> str:
        return self.text.strip()

    def take_tokens(self) -> list[int]:
        """Remove and return the tokens that were added since the last call."""
        tokens, self.tokens = self.tokens, []
        return tokens


class TextStream:
    """Converter of a client's streamed text to segments.

    Args:
        max_chars: Maximum characters of a segment. An open segment ends after this number of characters.
        by_token: True if a segment can start before its text is complete.
        tags: True if inline tags for pauses and styles take effect. A pause or a change of style ends a segment.
        max_break_s: See `SpeechRequest`.
        follows: True if the checkpoint supports style instructions. Otherwise styles are dropped.
        languages: Languages of the checkpoint. If the text is in another script, it is spoken, and a note is added to
            `notes`.
    """

    def __init__(
        self,
        split: Split,
        max_chars: int | None,
        tokenizer: TextTokenizer,
        limits: Limits,
        *,
        by_token: bool,
        tags: bool = False,
        max_break_s: float | None = None,
        follows: bool = False,
        languages: Sequence[str] = (),
    ) -> None:
        self.segments: deque[Segment] = deque()  # Segments that have not been started.
        self.closed = False
        self.by_token = by_token
        self.chars = 0  # Number of characters received so far.
        self.pause = 0  # Length in samples of the silence after the last segment.
        self.notes: tuple[str, ...] = ()  # Notes about ignored tags, and about text that cannot be spoken.
        self._languages = languages
        if tags and max_break_s is None:
            max_break_s = math.inf
        self._reads_brackets = tags
        self._tags = InlineTags(limits, brackets=tags, max_break_s=max_break_s)
        self._follows = follows
        self._style = ""  # Style that applies to the following text.
        self._tokenizer = tokenizer
        self._reading = tokenizer.create_normalizer()
        self._numbers = LongNumberSplitter()
        self._limits = limits
        self._max_chars = max_chars
        self._splitter = SegmentSplitter(split, None if by_token else max_chars)
        self._begin_segment()
        self.text = ""  # The text without tags.
        self._seam = ""  # Last characters of the normalized text that was added so far.
        self._speakable = False

    def _begin_segment(self) -> None:
        """Start an open segment."""
        self._last = Segment("", closed=False)
        self._incremental = IncrementalTokenizer(self._tokenizer)
        self._tokenized = 0  # Number of characters of the segment that are already tokenized.
        self._is_queued = False  # True if this segment is already in `segments`.

    def append_text(self, text: str) -> None:
        """Append text of the client.

        Raises:
            TextTooLong: The complete text is longer than the limit.
            InvalidConfig: The text has a control token of the model or a lone surrogate.
            TagTooLong, PauseTooLong, PausesTooLong: A tag or a pause exceeds the limits.
        """
        if self.closed or not text:
            return
        count, limit = self.chars + len(text), self._limits.max_text_chars
        if count > limit:
            raise TextTooLong(param="text", count=count, unit="characters", limit=limit)
        self.chars = count
        self._append_items(self._tags.feed_text(text))

    def flush(self) -> None:
        """Make all received text ready to be spoken, even an incomplete last word or sentence."""
        if self.closed:
            return
        self._flush_reading()
        if self.by_token:
            self._tokenize_to(len(self._last.text))
            self._append_tokens(self._incremental.flush(), ends=True)
        else:
            self._end_segment()

    def finish(self) -> None:
        """Mark the text as complete.

        Raises:
            EmptyText: The text is empty.
            UnreadableText: The checkpoint cannot speak any of the text.
            InvalidConfig: See `append_text`.
        """
        if self.closed:
            return
        self._append_items(self._tags.finish())
        self._flush_reading()
        self.closed = True
        if not (self.text.strip() or self.pause or LEFT_OUT_SSML in self.notes):
            raise EmptyText(param="text")
        if not self._speakable and is_speakable(self.text):
            raise UnreadableText(param="text")
        if not self.is_silent:
            self._end_segment()

    @property
    def is_silent(self) -> bool:
        """True if the text is complete and consists of pauses only."""
        return self.closed and not self._speakable

    @property
    def is_ready(self) -> bool:
        """True if a segment can start: a complete segment, or an open segment with a token."""
        return self._speakable and bool(self.segments)

    @property
    def waits_for_text(self) -> bool:
        """True if all received text is spoken, and a sentence may end after it.

        The text must not be marked as complete.
        """
        if self.closed or self.segments or not self._speakable:
            return False
        if self._reading is not None and self._reading.has_pending_words:
            return False
        if not self.by_token:
            return not self._splitter.has_pending_words
        waits = (
            self._last.tokens or self._incremental.has_pending_words or SPOKEN.search(self._last.text, self._tokenized)
        )
        return not waits and may_end(self.text[-2 * TAIL_CHARS :])

    def _append_items(self, items: list[Item]) -> None:
        """Append text and tags, where the text before and after an ignored tag is joined."""
        text = ""
        for item in items:
            if isinstance(item, str):
                text += item
            elif isinstance(item, NoTag):
                self._note(NO_TAG)
            elif isinstance(item, LeftOut):
                self._note(LEFT_OUT_SSML)
            elif isinstance(item, Pause):
                self._append_normalized(self._normalize(text))
                text = ""
                self._end_segment()
                self.pause += round(item.seconds * SAMPLE_RATE)
            elif not self._follows:
                if item.words:
                    self._note(DROPPED_STYLES)
            elif item.words != self._style:
                reject_control_tokens(item.words, self._tokenizer, "text")
                self._append_normalized(self._normalize(text))
                text = ""
                self._end_segment()
                self._style = item.words
        self._append_normalized(self._normalize(text))

    def _normalize(self, text: str) -> str:
        """Check text without tags, and return the new normalized text that is final."""
        if not text:
            return ""
        spelled = self._tokenizer.convert_to_ascii(text)
        with_seam = self._seam + spelled
        # The check includes the previous text, because a control token may be divided between two calls.
        reject_control_tokens(with_seam, self._tokenizer, "text")
        self._seam = with_seam[-self._tokenizer.longest_reserved :]
        self.text += text
        if "]" in text and not self._reads_brackets and has_tag(self.text[-len(text) - _SHORT_TAG_CHARS :]):
            self._note(UNREAD_TAGS)
        if self._tokenizer.drops_characters(text):
            self._note(NO_SPELLING)
        elif script := find_unsupported_script(text, self._languages):
            self._note(STRANGE_SCRIPT.format(script=script))
        if self._reading is not None:
            if has_footnote_marks(with_seam):
                self._note(NOTE_MARKS)
            return self._reading.feed_text(spelled)
        spoken = self._numbers.feed_text(text)
        if len(spoken) != len(text):
            self._note(LONG_NUMBER)
        return spoken

    def _flush_reading(self) -> None:
        """Append the remaining output of the text normalization."""
        if self._reading is not None:
            self._append_normalized(self._reading.flush())

    def _append_normalized(self, text: str) -> None:
        """Append normalized text."""
        if not text:
            return
        self._speakable = self._speakable or is_readable(text)
        if self.by_token:
            self._grow(text)
        else:
            self._append_segments(self._splitter.feed_text(text))

    def _note(self, note: str) -> None:
        """Add a note for the client unless the same note exists."""
        if note not in self.notes:
            self.notes = (*self.notes, note)

    def _end_segment(self) -> None:
        """End the current segment.

        The text so far is spoken, and later text starts a new segment.
        """
        self._flush_reading()
        if self.by_token:
            self._close_last()
        else:
            self._append_segments(self._splitter.flush())

    def _append_segments(self, texts: list[str]) -> None:
        """Append complete segments."""
        for text in texts:
            self.segments.append(Segment(text, style=self._style, pause=self.pause))
            self.pause = 0

    def _grow(self, text: str) -> None:
        """Append text to the open segment, and start another segment if it is long enough."""
        segment = self._last
        segment.text = segment.text + text if segment.text else text.lstrip()
        while self._max_chars is not None and (
            end := find_sentence_end_after(segment.text, self._max_chars, self._tokenized)
        ):
            rest, segment.text = segment.text[end:].lstrip(), segment.text[:end]
            self._close_last()
            segment = self._last
            segment.text = rest
        self._tokenize_to(find_final_end(segment.text, self._max_chars))

    def _tokenize_to(self, end: int) -> None:
        """Tokenize the text of the open segment up to `end`."""
        if end > self._tokenized:
            self._append_tokens(self._incremental.feed_text(self._last.text[self._tokenized : end]))
            self._tokenized = end

    def _append_tokens(self, tokens: list[int], *, ends: bool = False) -> None:
        """Append tokens to the open segment, and add the segment to `segments` when it can start.

        Normally a segment can start after its first word. With `ends`, no word will follow, and a symbol with a spoken
        name is enough.
        """
        segment = self._last
        segment.tokens += tokens
        if segment.tokens and not self._is_queued and (is_readable if ends else is_speakable)(segment.text):
            self._is_queued = True
            segment.style, segment.pause, self.pause = self._style, self.pause, 0
            self.segments.append(segment)

    def _close_last(self) -> None:
        self._tokenize_to(len(self._last.text))
        self._append_tokens(self._incremental.flush(), ends=True)
        self._last.closed = True
        self._begin_segment()
