"""Ownership of stored items: permission checks and limits."""

from __future__ import annotations

from typing import Protocol

from runtime.errors import SpeechError


class Finds(Protocol):
    """Protocol of a store that finds items by id."""

    def find(self, _id: str, /) -> object | None: ...


def check_owned(thing_id: str, own: Finds, common: Finds | None, not_yours: type[SpeechError]) -> None:
    """Check that an item may be changed.

    A missing item is accepted here and reported by the change itself.

    Args:
        common: Shared items, which owners may use but not change; None if `own` are the shared ones.

    Raises:
        not_yours: The item is shared.
    """
    if common is not None and own.find(thing_id) is None and common.find(thing_id) is not None:
        raise not_yours


def check_room(count: int, most: int, too_many: type[SpeechError]) -> None:
    """Check that a client may store one more item.

    Args:
        count: Current number of the client's items.
        most: Maximum number of items; 0 is unlimited.

    Raises:
        too_many: The limit is reached.
    """
    if most and count >= most:
        raise too_many(limit=most)
