"""Ownership of stored items: permissions and limits."""

from __future__ import annotations

from typing import Protocol

from runtime.errors import SpeechError


class Finds(Protocol):
    """A place where things are kept by an id."""

    def find(self, _id: str, /) -> object | None: ...


def check_owned(thing_id: str, own: Finds, common: Finds | None, not_yours: type[SpeechError]) -> None:
    """Let a change of what is not there pass, since to find that out is the change's own.

    Args:
        common: what every owner sees and none may change; None: the own things are the common ones.

    Raises:
        not_yours: it is one of the common ones.
    """
    if common is not None and own.find(thing_id) is None and common.find(thing_id) is not None:
        raise not_yours


def check_room(count: int, most: int, too_many: type[SpeechError]) -> None:
    """Check that a client may store one more item.

    Args:
        count: items that the client has.
        most: its limit; 0: unlimited.

    Raises:
        too_many: the limit is reached.
    """
    if most and count >= most:
        raise too_many(limit=most)
