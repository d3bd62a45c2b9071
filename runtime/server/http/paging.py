"""Cursor pagination of lists, shared by all APIs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from fastapi import Query

from runtime.server.wire import parse_integer

MAX_PAGE_SIZE = 100  # Maximum number of items per page, as in Cartesia's and ElevenLabs' APIs.

PageSize = Annotated[str, Query(description=f"number of items, 1 to {MAX_PAGE_SIZE}")]
Cursor = Annotated[str, Query(description="value from the previous page")]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a paginated list.

    `has_more` is True if more items follow in the requested direction.
    """

    items: Sequence[Item]
    has_more: bool


def page_size(size: str, parameter: str) -> int:
    """Parse the page size in the URL parameter `parameter`.

    Raises:
        InvalidConfig: The page size is not an integer from 1 to 100.
    """
    return parse_integer(size, parameter, 1, MAX_PAGE_SIZE)


def page(listed: Sequence[Item], id_of: Callable[[Item], str], size: int, after: str, before: str = "") -> Page[Item]:
    """Return the page of `size` items after the id `after` or before the id `before`.

    Unknown ids are ignored.
    """
    ids = [id_of(item) for item in listed]
    if before in ids:
        end = ids.index(before)
        start = max(0, end - size)
        return Page(listed[start:end], has_more=start > 0)
    start = ids.index(after) + 1 if after in ids else 0
    return Page(listed[start : start + size], has_more=start + size < len(listed))
