"""Revision numbers of lists, so that open pages notice changes of other devices.

Thread: event loop.
"""

from __future__ import annotations

import itertools
import secrets
from collections import OrderedDict

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.shared.port.origins import SAFE_METHODS
from studio.visitors.visitors import Visitors
from studio.visitors.voice_owners import CHECK_PATH, TAKE_VOICE, VOICE_PATHS

TAKE_PATHS = ("/studio/takes", "/studio/voices")  # Takes can be deleted together with a voice.
LISTS = ("voices", "takes", "scripts", "pronunciation")
MAX_NUMBERS = 65_536
START_BITS = 48  # Number of bits of the first number. JavaScript represents integers of 53 bits exactly.


class Revisions:
    """Revision numbers of the lists of all visitors.

    Numbers are not reused. They start at a random number, so they differ after a restart, and pages only need to
    compare them.
    """

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._next = itertools.count(secrets.randbits(START_BITS))
        self._initial = next(self._next)
        self._numbers: OrderedDict[tuple[str | None, str], int] = OrderedDict()

    def read(self, connection: HTTPConnection) -> dict[str, int]:
        """Return the revision numbers of the visitor's lists."""
        owner = self._visitors.identify(connection).owner
        return {name: self._numbers.get((owner, name), self._initial) for name in LISTS}

    def advance(self, connection: HTTPConnection, names: list[str]) -> None:
        """Change the revision numbers of several lists of the visitor."""
        owner = self._visitors.identify(connection).owner
        for name in names:
            self._numbers[owner, name] = next(self._next)
            self._numbers.move_to_end((owner, name))
        while len(self._numbers) > MAX_NUMBERS:
            self._numbers.popitem(last=False)


class RevisionCounter:
    """ASGI middleware that changes the revision numbers of a list after each change."""

    def __init__(self, app: ASGIApp, revisions: Revisions) -> None:
        self.app = app
        self.revisions = revisions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = [] if scope["type"] != "http" or scope["method"] in SAFE_METHODS else changed_lists(scope["path"])

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                self.revisions.advance(HTTPConnection(scope), names)
            await send(message)

        await self.app(scope, receive, counted if names else send)


def changed_lists(path: str) -> list[str]:
    """Return the names of the lists that a request with this path may change."""
    has_changed = {
        "voices": (path.startswith(VOICE_PATHS) and path != CHECK_PATH) or TAKE_VOICE.fullmatch(path),
        "takes": path.startswith(TAKE_PATHS),
        "scripts": path.startswith("/studio/scripts"),
        "pronunciation": path == "/studio/pronunciation",
    }
    return [name for name in LISTS if has_changed[name]]
