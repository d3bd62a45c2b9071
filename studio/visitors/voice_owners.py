"""Owner names under which the runtime stores each visitor's voices and dictionaries."""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection
from starlette.types import Scope

from runtime.shared.port.origins import SAFE_METHODS
from studio.errors import VisitorUnknown
from studio.relay.relay import OwnerOf
from studio.store.owned_rows import HOST_OWNER
from studio.visitors.visitors import Visitors

TAKE_VOICE = re.compile(r"/studio/takes/[^/]+/voice")
NOBODY = "nobody"  # Owner name of visitors without stored data, who can use only shared voices.
VOICE_PATHS = ("/v1/audio/voices", "/studio/voices")
RUNTIME_DATA_PATHS = (
    *VOICE_PATHS,
    *("/v1/audio/pronunciations", "/v1/pronunciation-dictionaries", "/pronunciation-dicts"),
)
CHECK_PATH = "/v1/audio/voices/check"  # Route that checks a recording without storing it.


def voice_owner_lookup(visitors: Visitors) -> OwnerOf | None:
    """Return a function that maps a request to the owner of its voices and dictionaries.

    The result is None if all visitors share their data.
    """
    if not visitors.has_separate_histories:
        return None

    def owner_of(connection: HTTPConnection) -> str:
        """Return the owner name of a request, which is empty for the host.

        Raises:
            VisitorUnknown: A visitor without a cookie wants to change stored data.
        """
        owner = visitors.identify(connection).owner
        if owner is None:
            if _changes_what_is_kept(connection):
                raise VisitorUnknown
            return NOBODY
        return "" if owner == HOST_OWNER else owner

    return owner_of


def stores_in_runtime(scope: Scope) -> bool:
    """Return True if a request would store a voice or a dictionary in the runtime."""
    # The path comes from the scope, because a request's `url` also depends on the Host header.
    path = str(scope["path"])
    is_change = scope.get("method", "GET") not in SAFE_METHODS | {"DELETE"}
    is_kept = (path.startswith(RUNTIME_DATA_PATHS) and path != CHECK_PATH) or TAKE_VOICE.fullmatch(path) is not None
    return is_change and is_kept


def _changes_what_is_kept(connection: HTTPConnection) -> bool:
    path = str(connection.scope["path"])
    is_read = connection.scope.get("method", "GET") in SAFE_METHODS
    return path.startswith(RUNTIME_DATA_PATHS) and path != CHECK_PATH and not is_read
