"""Whose things are whose: every row names its owner by one of these words, and nothing else tells owners apart."""

from __future__ import annotations

HOST = "host"  # everybody, where visitors share what is kept
VISITOR = "visitor:"  # and what is made of the visitor's cookie
MEMBER = "member:"  # and the name under which somebody signed in
