"""Ownership of stored items: permission checks and limits."""

from __future__ import annotations

from typing import Protocol

from runtime.errors import SpeechError


class Finds(Protocol):
    """Store that finds an item by its id."""

    def find(self, _id: str, /) -> object | None: ...


def check_owned(thing_id: str, own: Finds, common: Finds | None, not_yours: type[SpeechError]) -> None:
    """Check that a client may change an item.

    A missing item is accepted here, because the function that changes the item reports it.

    Args:
        common: Shared items, which owners may use but not change, or None if `own` has the shared items.

    Raises:
        not_yours: The item is shared.
    """
    if common is not None and own.find(thing_id) is None and common.find(thing_id) is not None:
        raise not_yours


def check_room(count: int, limit: int, too_many: type[SpeechError]) -> None:
    """Check that an owner may store one more item.

    Args:
        count: Number of items that the owner has stored.
        limit: Maximum number of items, or 0 if it is unlimited.

    Raises:
        too_many: The owner has the maximum number of items.
    """
    if limit and count >= limit:
        raise too_many(limit=limit)
