"""Stored voices: HTTP routes, uploads, and the resolution of voice names for all APIs."""
