"""Cartesia's API over WebSocket and HTTP."""
