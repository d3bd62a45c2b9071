"""Conversion of Markdown to text to speak, for complete and streamed text (docs/api.md)."""
