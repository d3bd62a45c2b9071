"""Names of owners, which separate visitors' rows."""

from __future__ import annotations

HOST = "host"  # Shared owner if visitors have no separate history.
VISITOR = "visitor:"  # Followed by a digest of the visitor's cookie.
MEMBER = "member:"  # Followed by the name of a signed-in user.
