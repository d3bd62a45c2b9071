"""Cuts Cartesia's lists into pages by the ids at their ends."""

from __future__ import annotations

from typing import Any

from runtime.server.wire import Reply, number_in

_MOST = 100  # in a page, as there

PARAMETERS = {
    "limit": f"how many, 1 to {_MOST}",
    "starting_after": "the id of the last of the page before",
    "ending_before": "the id of the first of the page behind",
}


def page_size(limit: str) -> int:
    """How many a page has.

    Raises:
        InvalidConfig: it is no number from 1 to 100.
    """
    return number_in(limit, "limit", 1, _MOST)


def page(listed: list[dict[str, Any]], size: int, starting_after: str, ending_before: str) -> Reply:
    """The page behind one id or before another; an id that is none of the list's counts as none."""
    ids = [found["id"] for found in listed]
    if ending_before in ids:
        end = ids.index(ending_before)
        start = max(0, end - size)
        return {"data": listed[start:end], "has_more": start > 0}
    start = ids.index(starting_after) + 1 if starting_after in ids else 0
    return {"data": listed[start : start + size], "has_more": start + size < len(listed)}
