"""Markdown as text to be spoken, complete or growing (docs/api.md)."""
