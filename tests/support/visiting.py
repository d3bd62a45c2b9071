"""Functions that return the cookie headers of different visitors of a studio."""

from __future__ import annotations

import httpx

from studio.visitors.visitors import COOKIE, Visitors

KEY = b"a key of the test's"
VISITORS = Visitors(has_separate_histories=True, key=KEY)


def header_of(letter: str, visitors: Visitors = VISITORS) -> dict[str, str]:
    """Return the cookie header of a visitor whose ID is one letter, repeated 43 times."""
    return {"cookie": f"{COOKIE}={visitors.signed(letter * 43)}"}


def new_visitor(port: int) -> dict[str, str]:
    """Request the studio at `port` without a cookie, as a new browser does.

    Returns:
        Cookie header for the following requests of that browser.
    """
    answer = httpx.get(f"http://127.0.0.1:{port}/studio/me")
    return {"cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}
