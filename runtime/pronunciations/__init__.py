"""Stored pronunciation dictionaries: words, versions and owners."""
