"""Stored voices over HTTP, and for the dialects."""
