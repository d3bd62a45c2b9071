"""Strict JSON parser, whose results can always be written as JSON again."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

BYTE_ORDER_MARK = "\ufeff"
MAX_DEPTH = 32  # Maximum depth of nested values. Objects that the page sends have at most a depth of 6.
# Maximum number of digits of an integer. Seeds and counts are shorter, and integers of this length can still be
# converted to a float.
MAX_DIGITS = 100
MAX_BODY_VALUES = 2**17  # Maximum number of values in an HTTP body. Parsing them takes 5 ms, in which the GIL is held.


def has_more_values(text: str | bytes, limit: int) -> bool:
    """True if a JSON text has more than about `limit` values.

    The text is not parsed, so this check is fast.
    """
    if len(text) <= limit:
        return False
    counts = map(text.count, "{[,") if isinstance(text, str) else map(text.count, b"{[,")
    return sum(counts) > limit


def parse(text: str | bytes, max_depth: int = MAX_DEPTH) -> Any:
    """Parse a JSON text with any type of value.

    Raises:
        ValueError: The text is not valid JSON, or has a duplicate key, a number that is not finite or too long, a lone
                surrogate, or too many levels. The message has the reason.
    """
    if isinstance(text, str):
        text = text.removeprefix(BYTE_ORDER_MARK)  # The json module removes the byte order mark only from bytes.
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite, parse_int=_whole
        )
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("it cannot be read as JSON") from None
    except RecursionError:
        raise ValueError(f"it has more than {max_depth} levels") from None
    _check(value, max_depth)
    return value


def parse_object(text: str | bytes, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Parse a JSON text whose value must be an object.

    Raises:
        ValueError: The value is not an object, or `parse` has refused the text.
    """
    value = parse(text, max_depth)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


def _check(value: object, max_depth: int) -> None:
    """Check a value level by level, without recursion."""
    level = [value]
    for _ in range(max_depth + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, list):
                below += item
            elif isinstance(item, dict):
                below += item.keys()
                below += item.values()
        if not below:
            return
        level = below
    raise ValueError(f"it has more than {max_depth} levels")


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("a text in it holds half a character") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key appears twice")
    return entries


def _whole(digits: str) -> int:
    if len(digits.removeprefix("-")) > MAX_DIGITS:
        raise ValueError("a number in it is too long")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _not_finite(digits)


def _not_finite(_: str) -> NoReturn:
    raise ValueError("a number in it is not finite")
