"""Markdown is turned into the words that are to be spoken, whole or while it grows (docs/api.md)."""
