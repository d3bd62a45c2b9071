"""Stored voices: HTTP routes, and the resolution of voice names for all APIs."""
