"""Text rules that need no model: validation, long numbers, and the frame limit of a text."""

from __future__ import annotations

import re

from runtime.errors import EmptyText, InvalidConfig, TextTooLong
from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.settings import Limits
from runtime.shared.text.speech_rate import expected_frames

# Maximum ratio of the actual to the expected duration of speech. A lower limit would cut off slow, emotional voices
# (docs/model.md 7.1).
MAX_DURATION_RATIO = 3.0
PLAIN_DIGITS, GROUP_DIGITS = 16, 4
_DIGITS = re.compile(r"\d+")
GRACE_FRAMES = 50  # Number of frames (4 s) that are allowed for silence at the start and the end of any text.


class LongNumberSplitter:
    """Incremental filter that inserts spaces into long numbers.

    The model often does not stop after a number without spaces.
    """

    def __init__(self) -> None:
        self._digits = 0  # Number of consecutive digits at the end of the text that was added so far.

    def feed_text(self, text: str) -> str:
        """Append text, and return the text with spaces inserted into long numbers.

        After the first `PLAIN_DIGITS` digits, a space is inserted before every group of `GROUP_DIGITS` digits.
        """
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


def validate_text(text: str, tokenizer: TextTokenizer, limits: Limits) -> str:
    """Check the text of a request, and return the text without surrounding white space.

    Raises:
        EmptyText: The text is empty or white space.
        TextTooLong: The text has more characters than the limit.
        InvalidConfig: The text has a control token of the model.
    """
    text = text.strip()  # A leading newline would merge with the template's newline (docs/model.md 3.1).
    if not text:
        raise EmptyText(param="text")
    if len(text) > limits.max_text_chars:
        raise TextTooLong(param="text", count=len(text), unit="characters", limit=limits.max_text_chars)
    reject_control_tokens(text, tokenizer, "text")
    return text


def validate_instruct(instruct: str | None, tokenizer: TextTokenizer, limits: Limits) -> str | None:
    """Check an instruction, and return the instruction without surrounding white space.

    Returns:
        The instruction, cut to the maximum length, or None if the instruction is empty.

    Raises:
        InvalidConfig: The instruction has a control token of the model.
    """
    instruct = (instruct or "").strip()
    if len(instruct) > (limit := limits.max_instruct_chars):
        # The text is cut between two words, because a part of a word may be a different word.
        parts = instruct[: limit + 1].rsplit(maxsplit=1)
        instruct = parts[0] if len(parts) == 2 else instruct[:limit]
    reject_control_tokens(instruct, tokenizer, "instructions")
    return instruct or None


def frame_budget(text: str) -> int:
    """Return the maximum number of frames for a text.

    Speech with more frames is assumed to run away (docs/model.md 7.1). The reference implementation stops only at 8191
    frames (eleven minutes), which about one in three hundred requests reaches.
    """
    return GRACE_FRAMES + round(MAX_DURATION_RATIO * expected_frames(text))


def reject_control_tokens(text: str, tokenizer: TextTokenizer, field: str) -> None:
    """Raise an error if a text cannot be encoded or contains a control token of the model.

    Args:
        field: Name of the request's field, for the error.

    Raises:
        InvalidConfig: The text has a control token or a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidConfig(param=field, where=field, why="it is not valid Unicode") from None
    if tokenizer.reserved_in(tokenizer.convert_to_ascii(text)):
        raise InvalidConfig(param=field, where=field, why="it holds a control token of the model; remove it")
