"""Names the owner under which the runtime keeps a visitor's voices, where visitors are kept apart."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from runtime.shared.port.origins import SAFE_METHODS
from studio.errors import VisitorUnknown
from studio.relay import Whose
from studio.store.owners import HOST
from studio.visitors import Visitors

NOBODY = "nobody"  # who sees the common voices and can keep none
VOICES = ("/v1/audio/voices", "/studio/voices")
CHECK = "/v1/audio/voices/check"  # keeps nothing


def whose_voices(visitors: Visitors) -> Whose | None:
    """None where everybody shares the common voices."""
    if not visitors.each:
        return None

    def whose(connection: HTTPConnection) -> str:
        """Raises VisitorUnknown where a visitor without a cookie would change voices."""
        owner = visitors.of(connection).owner
        if owner is None:
            if _changes_voices(connection):
                raise VisitorUnknown
            return NOBODY
        return "" if owner == HOST else owner

    return whose


def _changes_voices(connection: HTTPConnection) -> bool:
    path = connection.url.path
    is_read = connection.scope.get("method", "GET") in SAFE_METHODS
    return path.startswith(VOICES) and path != CHECK and not is_read
