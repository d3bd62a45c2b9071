"""Strict JSON parser: its results can be stored, written and read by every other parser."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

BYTE_ORDER_MARK = "\ufeff"
MAX_DEPTH = 32  # Nesting depth; the page's own objects have 6.
MAX_DIGITS = 100  # Digits of an integer: more than any seed or count, and still a float.


def parse(text: str | bytes, max_depth: int = MAX_DEPTH) -> Any:
    """Read a JSON value.

    Raises:
        ValueError: It is not JSON, or has a duplicate key, a non-finite or too long number, a lone surrogate, or too
            many levels; the message gives the reason.
    """
    if isinstance(text, str):
        text = text.removeprefix(BYTE_ORDER_MARK)  # The json module skips it in bytes only.
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
    """Read a JSON object.

    Raises:
        ValueError: It is another value, or as in `parse`.
    """
    value = parse(text, max_depth)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


def _check(value: object, max_depth: int) -> None:
    """Check the value level by level, without recursion."""
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
        raise ValueError("a key stands in it twice")
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
