"""The text of a running request: parts that are spoken one after the other, and tokens that come while one is spoken.

In the streaming layout without reference codes a text is one part whose tokens follow the frames; everywhere else a
part is spoken when it is complete (docs/live-text.md).
"""

from __future__ import annotations

from collections import deque

from runtime.engine.growing import GrowingText
from runtime.engine.splitting import Splitter
from runtime.engine.text import refuse_control
from runtime.errors import EmptyText, TextTooLong
from runtime.model.text_tokenizer import TextTokenizer
from runtime.request import Split
from runtime.settings import Limits
from runtime.speech_rate import is_speakable


class Feed:
    """Text goes in as the client sends it; parts, or a part's further tokens, come out.

    ``parts`` are complete; ``tokens`` belong to the part that is being spoken, where the text comes token by token.
    """

    def __init__(
        self, split: Split, longest: int | None, tokenizer: TextTokenizer, limits: Limits, *, by_token: bool
    ) -> None:
        self.parts: deque[str] = deque()
        self.tokens: list[int] = []
        self.closed = False
        self.by_token = by_token
        self._tokenizer, self._limits = tokenizer, limits
        self._splitter = Splitter(split, longest)
        self._growing = GrowingText(tokenizer)
        self.text = ""
        self._speakable = False

    def add(self, text: str) -> None:
        """More text.

        Raises:
            TextTooLong: more than the limit in all.
            InvalidConfig: it holds a control token of the model, or half a character.
        """
        if self.closed or not text:
            return
        count, limit = len(self.text) + len(text), self._limits.max_text_chars
        if count > limit:
            raise TextTooLong(param="text", count=count, unit="characters", limit=limit)
        seam = self.text[-self._tokenizer.longest_reserved :]  # a control token may come in two pieces
        refuse_control(seam + text, self._tokenizer, "text")
        self.text += text
        self._speakable = self._speakable or is_speakable(text)
        if self.by_token:
            self.tokens += self._growing.add(text)
        else:
            self.parts += self._splitter.add(text)

    def flush(self) -> None:
        """What there is now is to be spoken, even where it may go on."""
        if self.closed:
            return
        if self.by_token:
            self.tokens += self._growing.flush()
        else:
            self.parts += self._splitter.flush()

    def finish(self) -> None:
        """The text is complete.

        Raises:
            EmptyText: nothing in it can be spoken.
        """
        if self.closed:
            return
        self.closed = True
        if not self._speakable:
            raise EmptyText(param="text")
        if self.by_token:
            self.tokens += self._growing.finish()
        else:
            self.parts += self._splitter.finish()

    @property
    def spoken(self) -> str:
        """All the text that has come, as it is spoken."""
        return self.text.strip()

    @property
    def is_ready(self) -> bool:
        """Something can be spoken: a whole part, or the first token of a growing one."""
        return bool(self.tokens) if self.by_token else bool(self.parts)

    def take_tokens(self) -> list[int]:
        """Tokens that have come since the last call."""
        tokens, self.tokens = self.tokens, []
        return tokens
