"""Text rules without a network: what is refused, and how many frames a text may take."""

from __future__ import annotations

import re

from runtime.errors import EmptyText, InvalidConfig, TextTooLong
from runtime.model.text_tokenizer import TextTokenizer
from runtime.settings import Limits
from runtime.shared.speech_rate import expected_frames as expected_frames
from runtime.shared.speech_rate import least_frames as least_frames

SLOWEST = 3.0  # Maximum slowdown against that rate. A tighter limit cuts slow, emotional voices (docs/model.md 7.1).
PLAIN_DIGITS, GROUP_DIGITS = 16, 4
_DIGITS = re.compile(r"\d+")
GRACE_FRAMES = 50  # 4 s for leading and trailing silence, whatever the text


class LongNumbers:
    """Puts spaces into long numbers of a growing text: digits in a row without any often never end."""

    def __init__(self) -> None:
        self._digits = 0  # Digits in a row at the end of the text so far.

    def add(self, text: str) -> str:
        """Return more text with a space before each group of digits after the first `PLAIN_DIGITS`."""
        grouped = _DIGITS.sub(self._grouped, text)
        if not text[-1:].isdecimal():
            self._digits = 0
        return grouped

    def _grouped(self, digits: re.Match[str]) -> str:
        before = self._digits if digits.start() == 0 else 0
        self._digits = before + len(digits[0])
        return "".join(
            f" {digit}" if number >= PLAIN_DIGITS and number % GROUP_DIGITS == 0 else digit
            for number, digit in enumerate(digits[0], before)
        )


def checked_text(text: str, tokenizer: TextTokenizer, limits: Limits) -> str:
    """The text as it is spoken: without surrounding white space, within limits, without the model's own tokens.

    Raises:
        EmptyText: it is white space.
        TextTooLong: more characters than the limit.
        InvalidConfig: it holds a control token of the model.
    """
    text = text.strip()  # A leading newline would merge with the template's own (docs/model.md 3.1).
    if not text:
        raise EmptyText(param="text")
    if len(text) > limits.max_text_chars:
        raise TextTooLong(param="text", count=len(text), unit="characters", limit=limits.max_text_chars)
    refuse_control(text, tokenizer, "text")
    return text


def checked_instruct(instruct: str | None, tokenizer: TextTokenizer, limits: Limits) -> str | None:
    """Return the instruct without surrounding white space and up to the limit, or None where it says nothing.

    Raises:
        InvalidConfig: it holds a control token of the model.
    """
    instruct = (instruct or "").strip()
    if len(instruct) > (limit := limits.max_instruct_chars):
        words = instruct[: limit + 1].rsplit(maxsplit=1)  # Half a word could be another word.
        instruct = words[0] if len(words) == 2 else instruct[:limit]
    refuse_control(instruct, tokenizer, "instructions")
    return instruct or None


def frame_budget(text: str) -> int:
    """Frames after which a text that has not ended by itself is a runaway (docs/model.md 7.1).

    The reference stops at 8191 frames (eleven minutes); about one request in three hundred gets there.
    """
    return GRACE_FRAMES + round(SLOWEST * expected_frames(text))


def refuse_control(text: str, tokenizer: TextTokenizer, where: str) -> None:
    """Refuse what the tokenizer cannot take or the prompt must not hold.

    Raises:
        InvalidConfig: a control token of the model, or half a character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidConfig(param=where, where=where, why="it is not valid Unicode") from None
    if tokenizer.reserved_in(tokenizer.spelled(text)):
        raise InvalidConfig(param=where, where=where, why="it holds a control token of the model; remove it")
