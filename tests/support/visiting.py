"""Visitors of a studio, each with their own cookies."""

from __future__ import annotations

import httpx

from studio.visitors.visitors import COOKIE, Visitors

KEY = b"a key of the test's"
VISITORS = Visitors(each=True, key=KEY)


def header_of(letter: str, visitors: Visitors = VISITORS) -> dict[str, str]:
    """Return the cookie header of a visitor whose number repeats one letter."""
    return {"cookie": f"{COOKIE}={visitors.signed(letter * 43)}"}


def new_visitor(port: int) -> dict[str, str]:
    """Open the studio at this port as a new browser does.

    Returns:
        The header that the browser sends from then on.
    """
    answer = httpx.get(f"http://127.0.0.1:{port}/studio/me")
    return {"cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}
