"""Names the owners of rows; nothing else tells one visitor's things from another's."""

from __future__ import annotations

HOST = "host"  # everybody, where visitors share what is kept
VISITOR = "visitor:"  # and what is made of the visitor's cookie
MEMBER = "member:"  # and the name under which somebody signed in
