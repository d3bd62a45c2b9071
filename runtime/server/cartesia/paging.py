"""Pagination of lists in Cartesia's format."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from runtime.server.http import paging
from runtime.server.wire import Reply

StartingAfter = Annotated[str, Query(description="the id of the last item of the previous page")]
EndingBefore = Annotated[str, Query(description="the id of the first item of the next page")]


def page_size(limit: str) -> int:
    """Parse the page size in the URL parameter `limit`.

    Raises:
        InvalidConfig: The page size is not an integer from 1 to 100.
    """
    return paging.page_size(limit, "limit")


def page(listed: list[dict[str, Any]], size: int, starting_after: str, ending_before: str) -> Reply:
    """Return the page of `size` items after the id `starting_after` or before `ending_before`."""
    found = paging.page(listed, lambda entry: str(entry["id"]), size, starting_after, ending_before)
    return {"data": found.items, "has_more": found.has_more}
