"""Cartesia's dialect over WebSocket and HTTP."""
