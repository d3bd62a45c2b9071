"""Conversion of Markdown to spoken text, for complete and streamed text (docs/api.md)."""
