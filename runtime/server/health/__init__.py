"""Watches the engine, says whether it lives, and ends the server in order."""
