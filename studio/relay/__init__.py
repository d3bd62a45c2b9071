"""Relay of the runtime's API on the studio's port."""
