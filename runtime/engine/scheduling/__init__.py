"""Requests, and the decisions of a turn: who waits, who runs, and which audio is due."""
