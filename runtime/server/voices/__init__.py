"""Serves the stored voices: over HTTP, and to the dialects."""
