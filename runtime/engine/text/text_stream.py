"""Text of a running request: segments that are spoken one after the other, and tokens that come during one.

In the streaming layout without reference codes the tokens of a segment follow the frames; everywhere else a segment is
spoken when it is complete (docs/api.md).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.engine.text.incremental_tokenizer import IncrementalTokenizer
from runtime.engine.text.rules import LongNumbers, refuse_control
from runtime.engine.text.splitting import Splitter, certain_end_past, settled_end
from runtime.errors import EmptyText, TextTooLong, UnreadableText
from runtime.model.text_tokenizer import TextTokenizer
from runtime.request import (
    DROPPED_STYLES,
    LEFT_OUT_SSML,
    LONG_NUMBER,
    NO_SPELLING,
    NO_TAG,
    SAMPLE_RATE,
    STRANGE_SCRIPT,
    UNREAD_TAGS,
    Split,
)
from runtime.settings import Limits
from runtime.shared.inline_tags import InlineTags, Item, LeftOut, NoTag, Pause, has_tag
from runtime.shared.scripts import strange_script
from runtime.shared.sentence_ends import SPOKEN, TAIL, may_end
from runtime.shared.speech_rate import is_readable, is_speakable

_SHORT_TAG_CHARS = 100  # In a request without tags, longer brackets are not compared with tags.


@dataclass(slots=True, eq=False)
class Segment:
    """A text that is spoken in one go. ``tokens`` are those that are not taken yet, where it grows by tokens.

    ``style`` is of a tag, empty where none asks for one; ``pause``: samples of silence before the segment.
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
        """Tokens that have come since the last call."""
        tokens, self.tokens = self.tokens, []
        return tokens


class TextStream:
    """Text goes in as the client sends it; segments come out.

    Each is complete, or, ``by_token``, grows while it is spoken; then it ends behind ``longest`` characters. With
    ``tags`` a segment ends also where a pause stands, or where the style changes; a style is dropped that nobody
    ``follows``. ``max_break_s``: as in `SpeechRequest`. ``languages`` are the checkpoint's: a text in a script of none
    of them is spoken, and noted.
    """

    def __init__(
        self,
        split: Split,
        longest: int | None,
        tokenizer: TextTokenizer,
        limits: Limits,
        *,
        by_token: bool,
        tags: bool = False,
        max_break_s: float | None = None,
        follows: bool = False,
        languages: Sequence[str] = (),
    ) -> None:
        self.segments: deque[Segment] = deque()  # not taken up yet
        self.closed = False
        self.by_token = by_token
        self.chars = 0  # that have come
        self.pause = 0  # samples of silence behind the last segment
        self.notes: tuple[str, ...] = ()  # what is not done of what its tags ask for, or cannot be spoken of it
        self._languages = languages
        if tags and max_break_s is None:
            max_break_s = math.inf
        self._reads_brackets = tags
        self._tags = InlineTags(limits, brackets=tags, max_break_s=max_break_s)
        self._follows = follows
        self._style = ""  # of what comes next
        self._tokenizer = tokenizer
        self._reading = tokenizer.reading()
        self._numbers = LongNumbers()
        self._limits = limits
        self._longest = longest
        self._splitter = Splitter(split, None if by_token else longest)
        self._begin_segment()
        self.text = ""  # without tags
        self._seam = ""  # the end of it, as the checkpoint spells it
        self._speakable = False

    def _begin_segment(self) -> None:
        """Begin the segment that grows by tokens."""
        self._last = Segment("", closed=False)
        self._incremental = IncrementalTokenizer(self._tokenizer)
        self._tokenized = 0  # characters of it that tokens are made of
        self._offered = False  # it stands in ``parts``, or did

    def add(self, text: str) -> None:
        """More text.

        Raises:
            TextTooLong: more than the limit in all.
            InvalidConfig: it holds a control token of the model, or half a character.
            TagTooLong, PauseTooLong, PausesTooLong: its tags ask for more than the limits allow.
        """
        if self.closed or not text:
            return
        count, limit = self.chars + len(text), self._limits.max_text_chars
        if count > limit:
            raise TextTooLong(param="text", count=count, unit="characters", limit=limit)
        self.chars = count
        self._take(self._tags.add(text))

    def flush(self) -> None:
        """What there is now is to be spoken, even where it may go on."""
        if self.closed:
            return
        self._flush_reading()
        if self.by_token:
            self._tokenize_to(len(self._last.text))
            self._give(self._incremental.flush(), ends=True)
        else:
            self._end_segment()

    def finish(self) -> None:
        """The text is complete.

        Raises:
            EmptyText: there is nothing in it.
            UnreadableText: the checkpoint can read nothing of it.
            InvalidConfig: as `add`.
        """
        if self.closed:
            return
        self._take(self._tags.finish())
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
        """The text is complete, and only a pause: nothing in it can be spoken."""
        return self.closed and not self._speakable

    @property
    def is_ready(self) -> bool:
        """Something can be spoken: a whole segment, or the first token of a growing one."""
        return self._speakable and bool(self.segments)

    @property
    def is_spent(self) -> bool:
        """All that came of an open text was taken up, and nothing of a sentence waits for more of it."""
        if self.closed or self.segments or not self._speakable:
            return False
        if self._reading is not None and self._reading.holds_words:
            return False
        if not self.by_token:
            return not self._splitter.holds_words
        waits = self._last.tokens or self._incremental.holds_words or SPOKEN.search(self._last.text, self._tokenized)
        return not waits and may_end(self.text[-2 * TAIL :])

    def _take(self, items: list[Item]) -> None:
        """Take more text with its tags. What stands around one that changes nothing came at once all the same."""
        text = ""
        for item in items:
            if isinstance(item, str):
                text += item
            elif isinstance(item, NoTag):
                self._note(NO_TAG)
            elif isinstance(item, LeftOut):
                self._note(LEFT_OUT_SSML)
            elif isinstance(item, Pause):
                self._say(text)
                text = ""
                self._end_segment()
                self.pause += round(item.seconds * SAMPLE_RATE)
            elif not self._follows:
                if item.words:
                    self._note(DROPPED_STYLES)
            elif item.words != self._style:
                refuse_control(item.words, self._tokenizer, "text")
                self._say(text)
                text = ""
                self._end_segment()
                self._style = item.words
        self._say(text)

    def _say(self, text: str) -> None:
        """Take more text that is spoken."""
        if not text:
            return
        spelled = self._tokenizer.spelled(text)
        with_seam = self._seam + spelled
        refuse_control(with_seam, self._tokenizer, "text")  # a control token may come in two pieces
        self._seam = with_seam[-self._tokenizer.longest_reserved :]
        self.text += text
        if "]" in text and not self._reads_brackets and has_tag(self.text[-len(text) - _SHORT_TAG_CHARS :]):
            self._note(UNREAD_TAGS)
        if self._tokenizer.leaves_out(text):
            self._note(NO_SPELLING)
        elif script := strange_script(text, self._languages):
            self._note(STRANGE_SCRIPT.format(script=script))
        if self._reading is not None:
            self._speak(self._reading.add(spelled))
            return
        spoken = self._numbers.add(text)
        if len(spoken) != len(text):
            self._note(LONG_NUMBER)
        self._speak(spoken)

    def _flush_reading(self) -> None:
        """Speak what the reading holds back."""
        if self._reading is not None:
            self._speak(self._reading.flush())

    def _speak(self, text: str) -> None:
        """Take more text as it is read aloud."""
        if not text:
            return
        self._speakable = self._speakable or is_readable(text)
        if self.by_token:
            self._grow(text)
        else:
            self._offer(self._splitter.add(text))

    def _note(self, words: str) -> None:
        """Each is said once, of whatever comes first."""
        if words not in self.notes:
            self.notes = (*self.notes, words)

    def _end_segment(self) -> None:
        """End the current segment: the text so far is spoken, and later text begins another."""
        self._flush_reading()
        if self.by_token:
            self._close_last()
        else:
            self._offer(self._splitter.flush())

    def _offer(self, texts: list[str]) -> None:
        """Whole segments may be taken up."""
        for text in texts:
            self.segments.append(Segment(text, style=self._style, pause=self.pause))
            self.pause = 0

    def _grow(self, text: str) -> None:
        """More text of the segment that grows, and of segments behind it where that has become long enough."""
        segment = self._last
        segment.text = segment.text + text if segment.text else text.lstrip()
        while self._longest is not None and (end := certain_end_past(segment.text, self._longest, self._tokenized)):
            rest, segment.text = segment.text[end:].lstrip(), segment.text[:end]
            self._close_last()
            segment = self._last
            segment.text = rest
        self._tokenize_to(settled_end(segment.text, self._longest))

    def _tokenize_to(self, end: int) -> None:
        """Turn the text of the segment that grows into tokens, up to ``end``."""
        if end > self._tokenized:
            self._give(self._incremental.add(self._last.text[self._tokenized : end]))
            self._tokenized = end

    def _give(self, tokens: list[int], *, ends: bool = False) -> None:
        """Tokens of the segment that grows. With the first of them it may be taken up, if there is a word in it.

        ``ends``: no word comes, so a symbol that has a name is enough.
        """
        segment = self._last
        segment.tokens += tokens
        if segment.tokens and not self._offered and (is_readable if ends else is_speakable)(segment.text):
            self._offered = True
            segment.style, segment.pause, self.pause = self._style, self.pause, 0
            self.segments.append(segment)

    def _close_last(self) -> None:
        self._tokenize_to(len(self._last.text))
        self._give(self._incremental.flush(), ends=True)
        self._last.closed = True
        self._begin_segment()
