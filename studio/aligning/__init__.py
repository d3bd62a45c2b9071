"""Alignment of stored recordings: an optional plug-in measures the time of each word."""
